"""A Flower app around the benchmarks' functions."""
