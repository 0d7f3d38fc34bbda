"""Simulated time: rounds by the clock of device traces."""
