"""A small network for handwritten digits that never leave their owners."""
