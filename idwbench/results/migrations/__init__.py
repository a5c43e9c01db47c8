"""The history of the tables: Alembic's environment, and one file a step in `versions`."""
