"""The results database: runs, metrics, curves, arrays and sweeps, in SQLite or PostgreSQL."""
