"""The results database: runs, metrics, curves, arrays and sweeps, in SQLite or PostgreSQL."""

__all__ = ["DEFAULT_DATABASE"]

DEFAULT_DATABASE = "results/idwbench.db"
