"""Benchmarks: ``python -m benchmarks`` measures and writes ``docs/benchmarks.md``."""
