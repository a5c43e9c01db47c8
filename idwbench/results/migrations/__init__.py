"""Migrations of the tables: Alembic's environment, and one file per revision in `versions`."""
