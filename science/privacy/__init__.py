"""Differential privacy of a run: participation bounds, correlated noise, and the account of epsilon."""
