"""What is fast and by how much: ``python -m benchmarks`` measures, and writes ``docs/benchmarks.md`` anew."""
