"""Pages and pictures, from ledgers only."""
