"""A hostile app."""
