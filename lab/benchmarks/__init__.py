"""Benchmarks: ``python -m aoi_fl.lab.benchmarks`` measures and writes ``docs/benchmarks.md``."""
