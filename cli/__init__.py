"""The ``aoi`` command: it parses options, calls the rooms and prints results."""
