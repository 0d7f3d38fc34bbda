"""The ``aoi`` command: parsing and printing, each subcommand a few lines over the rooms."""
