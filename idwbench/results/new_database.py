"""Writes the file with the tables of a new SQLite database: ``python -m idwbench.results.new_database``.

Its statements make what all migrations make, in a small part of the time; a test compares the two.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from idwbench.files import write_file
from idwbench.results.connection import Database
from idwbench.results.schema import STATEMENT_END, new_tables_file, revisions, run_migrations

__all__ = ["migrated_statements"]


def migrated_statements() -> list[str]:
    """Return the statements that make what the migrations make, which run in a temporary database."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        with Database.at(str(path)).without_foreign_keys().write() as connection:
            run_migrations(connection)
        with closing(sqlite3.connect(path)) as file:
            query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
            made = [_normalised(sql) for (sql,) in file.execute(query)]
    return [*made, f"INSERT INTO idwbench_version VALUES ('{revisions()[-1]}')"]


def _normalised(sql: str) -> str:
    """Return a statement without trailing spaces and with spaces for tabs."""
    return "\n".join(line.rstrip().replace("\t", "    ") for line in sql.strip().splitlines())


if __name__ == "__main__":
    text = "".join(f"{statement}{STATEMENT_END}" for statement in migrated_statements())
    write_file(new_tables_file(), (text.rstrip("\n") + "\n").encode(), overwrite=True)
