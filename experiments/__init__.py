"""The papers' figures and tables, one file each, and what plays, keeps and shows them (``aoi reproduce``)."""
