"""The results database: runs, curves, tensors and sweeps, in SQLite or any database SQLAlchemy speaks to."""
