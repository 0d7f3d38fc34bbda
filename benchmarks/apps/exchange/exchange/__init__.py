"""A Flower app around what the benchmarks measure."""
