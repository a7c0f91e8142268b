"""How fast, how small, how good: `python -m benchmarks --help`. Measurements only; nothing here is a timed test."""
