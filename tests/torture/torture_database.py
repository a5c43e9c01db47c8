"""What a database holds, and a record that the database itself keeps of each result that is written."""

import sqlite3
from contextlib import closing

from stored_runs import query

_TABLES = ("metrics", "curves", "arrays")
_RECORD = """
CREATE TABLE IF NOT EXISTS written (run_key TEXT, state TEXT);
CREATE TRIGGER IF NOT EXISTS record_results AFTER UPDATE OF state ON runs
WHEN NEW.state IN ('complete', 'diverged', 'failed') AND OLD.state IS NOT NEW.state
BEGIN INSERT INTO written VALUES (NEW.run_key, NEW.state); END;
"""


def record_results(db):
    """Create the database, which then records each run that gets a result."""
    from idwbench.results.store import Results

    Results(db)
    with closing(sqlite3.connect(db)) as connection:
        connection.executescript(_RECORD)


def contents(db):
    """All metrics, curves and arrays, to the byte."""
    rows = {name: query(db, f"SELECT run_key, {name}.* FROM {name} JOIN runs ON id = run_id") for name in _TABLES}
    return {name: sorted(((key, *row) for key, _, *row in rows[name]), key=str) for name in _TABLES}


def results_by_run(db):
    """The metrics, curves and arrays of each run that has some."""
    found = {}
    for rows in contents(db).values():
        for key, *row in rows:
            found.setdefault(key, []).append(tuple(row))
    return found


def states(db):
    return dict(query(db, "SELECT state, count(*) FROM runs GROUP BY state"))


def most_written(db):
    """The largest number of times that a result was written for one run."""
    return query(db, "SELECT max(n) FROM (SELECT count(*) AS n FROM written GROUP BY run_key)")[0][0] or 0


def is_sound(db):
    return query(db, "PRAGMA integrity_check") == [("ok",)] and query(db, "PRAGMA foreign_key_check") == []
