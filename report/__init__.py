"""Pages and tables of runs, from their ledgers only."""
