"""Whether the dual form is a good attribution: ``python -m benchmarks attribution``."""
