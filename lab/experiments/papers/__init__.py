"""The figures and tables of the papers, a file each, beside theory."""
