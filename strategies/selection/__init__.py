"""Policies of selection: one module a family."""
