"""The papers' figures and tables, one file each, and the harness that runs and shows them (``aoi reproduce``)."""
