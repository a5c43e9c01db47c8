"""What concerns PostgreSQL alone: connecting, roles, isolation, deadlocks, and older tables."""

import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from case_tables import case_table
from sqlalchemy import make_url, text

from idwbench.errors import DatabaseFullError, ResultsError
from idwbench.results import database, sweeps
from idwbench.results.schema import VERSION
from idwbench.results.store import Results


@pytest.fixture
def backend():
    return "postgresql"


PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")


def name_of(url):
    """Return the database of a URL."""
    return make_url(url).database


def failing(code, message="told so"):
    """Return SQL that fails with one of PostgreSQL's error codes."""
    return f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}', MESSAGE = '{message}'; END $$"


PLACES = case_table("wrong_databases")["unreachable"]
INVALID = ("postgresql://a\ud800b@/postgres?host={folder}", "is not a valid URL")


@pytest.mark.parametrize(("place", "message"), [*PLACES, INVALID])
def test_a_database_that_cannot_be_reached_is_one_line(postgresql_server, place, message):
    with pytest.raises(ResultsError, match=message) as caught:
        Results(place.format(folder=postgresql_server.folder))
    assert "\n" not in str(caught.value)


def test_reading_an_empty_database_is_refused_and_creates_nothing(postgresql_server, db):
    with pytest.raises(ResultsError) as caught:
        Results(db, read_only=True)
    assert (caught.value.problem, caught.value.hint) == ("is empty", "no results are stored there yet")
    tables = "SELECT * FROM pg_tables WHERE schemaname = 'public'"
    assert postgresql_server.execute(tables, database=name_of(db)) == []


def test_the_roles_of_the_page_can_do_what_it_says(postgresql_server, make_config):
    set_up, reading = (block.split(";\n")[:-1] for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL))
    try:
        postgresql_server.execute(*set_up)
        written = Results(postgresql_server.url("results", user="trainer"))
        written.register_sweep("moons", "", "", [make_config(0)])
        postgresql_server.execute(*reading, database="results")
        read = Results(postgresql_server.url("results", user="reader"), read_only=True)
        assert read.find_runs() == written.find_runs(sweep="moons")
        reader, keys = Results(postgresql_server.url("results", user="reader")), [make_config(0).run_key]
        for write in (lambda: reader.plan([make_config(1)]), lambda: reader.lease(keys)):
            with pytest.raises(ResultsError, match="cannot be used: permission denied for table") as caught:
                write()
            assert "\n" not in str(caught.value)
        with pytest.raises(ResultsError, match=r"was left unchanged: .*permission denied for schema public"):
            Results(postgresql_server.url(postgresql_server.create(), user="reader"))
    finally:
        postgresql_server.execute("DROP DATABASE results", "DROP ROLE reader", "DROP ROLE trainer")


def test_a_read_only_server_its_full_disk_and_a_text_that_is_too_long_are_one_line(store, db, make_config):
    read_only = Results(f"{db}&options=-cdefault_transaction_read_only%3Don")
    with pytest.raises(ResultsError, match="cannot be used: cannot execute INSERT in a read-only transaction"):
        read_only.plan([make_config(0)])
    with pytest.raises(ResultsError, match="value too long") as caught:
        store.register_sweep("x" * 201, "", "", [])
    assert "\n" not in str(caught.value) and store.list_sweeps() == []
    with pytest.raises(DatabaseFullError) as full:
        store._database.transact(lambda connection: connection.execute(text(failing("53100"))))
    assert (full.value.problem, full.value.exit_code) == ("the disk is full", 1)
    assert full.value.hint == "what was stored is kept; make room on the server and start again"


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03"])
def test_a_transaction_that_conflicts_is_repeated_a_limited_number_of_times(store, monkeypatch, code):
    monkeypatch.setattr(database, "_PAUSE_SECONDS", 0.0)
    tries = []

    def conflict(connection, times):
        tries.append(times)
        if len(tries) < times:
            connection.execute(text(failing(code)))
        return "done"

    assert store._database.transact(conflict, 4) == "done"
    assert len(tries) == 4
    tries.clear()
    with pytest.raises(ResultsError, match="told so"):
        store._database.transact(conflict, times=100)
    assert len(tries) == database._TRIES
    tries.clear()
    code = "53200"  # out of memory, which is no conflict
    with pytest.raises(ResultsError, match="told so"):
        store._database.transact(conflict, times=100)
    assert len(tries) == 1


def test_a_reader_sees_one_state_and_the_isolation_does_not_depend_on_the_server(store, db, make_config):
    other = Results(f"{db}&options=-cdefault_transaction_isolation%3Dserializable")
    show = text("SHOW transaction_isolation")
    assert other._database.transact(lambda connection: connection.execute(show).scalar_one()) == "read committed"
    with other._database.read() as connection:
        assert connection.execute(show).scalar_one() == "repeatable read"
        for _ in range(2):
            assert connection.execute(text("SELECT count(*) FROM runs")).scalar_one() == 0
            store.plan([make_config(0)])


def test_of_two_that_create_a_sweep_the_later_waits_and_replaces_its_plan(store, db, postgresql_server, make_config):
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    later = threading.Thread(target=Results(db).register_sweep, args=("moons", "later", "", [make_config(1)]))
    with store._database.write() as connection:
        sweeps.register_sweep(connection, "moons", "first", "", [make_config(0)])
        later.start()
        while postgresql_server.execute(waiting, database=name_of(db)) == [(0,)]:
            assert later.is_alive()
    later.join(60)
    (sweep,) = store.list_sweeps()
    assert sweep.description == "later"
    assert [run.config for run in store.find_runs(sweep="moons")] == [make_config(1)]


def test_tables_in_another_schema_are_not_taken_for_ours(postgresql_server, make_config):
    name = postgresql_server.create()
    Results(postgresql_server.url(name)).plan([make_config(0)])
    postgresql_server.execute("CREATE SCHEMA second", database=name)
    second = Results(postgresql_server.url(name, options="-csearch_path%3Dsecond"))
    assert second.find_runs() == []
    assert len(Results(postgresql_server.url(name)).find_runs()) == 1


def test_tables_of_version_0_1_0_are_upgraded_with_all_they_hold(postgresql_server, db, old_db):
    """The rows of the SQLite file that version 0.1.0 wrote, in the tables that it made on PostgreSQL."""
    made = Results(old_db)  # the same rows, upgraded on SQLite
    with closing(sqlite3.connect(next(iter(sorted(made._database.path.parent.glob("*.bak")))))) as old:
        old.row_factory = sqlite3.Row
        names = ("runs", "sweeps", "sweep_runs", "curves", "tensors")
        rows = {name: list(map(dict, old.execute(f"SELECT * FROM {name}"))) for name in names}
    with database.Database.at(db).write() as connection:
        tables = (Path(__file__).parents[1] / "assets" / "0.1.0" / "postgresql.sql").read_text()
        connection.exec_driver_sql(tables.replace("%", "%%"))
        connection.execute(text("CREATE TABLE idwbench_version (version_num VARCHAR(32) PRIMARY KEY)"))
        connection.execute(text("INSERT INTO idwbench_version VALUES ('0001')"))
        for table, content in rows.items():
            columns = list(content[0])
            types = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = :table"
            types = dict(connection.execute(text(types), {"table": table}).all())
            values = ", ".join(f"CAST(:{name} AS {types[name]})" for name in columns)
            connection.execute(text(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"), content)
    with pytest.raises(ResultsError, match="has tables of version 0001, older than version"):
        Results(db, read_only=True)
    upgraded = Results(db)
    assert upgraded.find_runs() == made.find_runs()
    for run in made.find_runs():
        assert upgraded.load_curve(run.run_key) == made.load_curve(run.run_key)
        for name, array in made.load_arrays(run.run_key).items():
            assert upgraded.load_arrays(run.run_key)[name].tobytes() == array.tobytes()
    assert upgraded.sweep_status("moons") == made.sweep_status("moons")
    assert postgresql_server.execute("SELECT version_num FROM idwbench_version", database=name_of(db)) == [(VERSION,)]
