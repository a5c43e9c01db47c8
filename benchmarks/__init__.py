"""What idwbench promises of its speed, measured: ``make bench``, or ``python -m benchmarks --help``."""
