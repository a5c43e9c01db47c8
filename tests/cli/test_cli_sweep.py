from __future__ import annotations

import json
import signal
import sqlite3
import threading
from dataclasses import replace

import pytest
from engine_runs import replace_train
from typed import SMALL_SWEEP, assert_one_line, files

DB = "results/idwbench.db"


def rows(path, query):
    with sqlite3.connect(path) as connection:
        return connection.execute(query).fetchall()


def test_a_sweep_trains_stores_and_goes_on_where_it_stopped(run, small_sweep, tmp_path):
    first = run("sweep", small_sweep)
    assert first.exit_code == 0, first.output
    assert "small: 0 of 15 done, 15 to go" in first.stderr
    assert first.stdout == ""
    assert rows(tmp_path / DB, "select state, count(*) from runs group by state") == [("complete", 15)]
    small_sweep.write_text(SMALL_SWEEP.replace("seeds: 3", "seeds: 4"))
    second = run("sweep", small_sweep)
    assert "small: 15 of 20 done, 5 to go" in second.stderr
    assert rows(tmp_path / DB, "select count(*), sum(attempt) from runs") == [(20, 20)]
    third = run("sweep", small_sweep)
    assert "small: 20 of 20 done, 0 to go" in third.stderr


@pytest.mark.slow
def test_results_do_not_depend_on_what_was_trained_together(run, small_sweep, tmp_path):
    run("sweep", small_sweep, "--db", "all.db")
    small_sweep.write_text(SMALL_SWEEP.replace("seeds: 3", "seeds: [1]"))
    run("sweep", small_sweep, "--db", "one.db")
    query = "select r.run_key, t.name, t.data from runs r join arrays t on t.run_id = r.id where seed = 1 order by 1, 2"
    assert rows(tmp_path / "all.db", query) == rows(tmp_path / "one.db", query)
    assert len(rows(tmp_path / "one.db", query)) == 10


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_results_do_not_depend_on_jobs_or_order(run, small_sweep, tmp_path, engine):
    backwards = SMALL_SWEEP.replace("seeds: 3", "seeds: [2, 1, 0]").replace("[idw, inv_dist]", "[inv_dist, idw]")
    (tmp_path / "backwards.yaml").write_text(backwards)
    run("sweep", small_sweep, "--db", "one.db", "-j", 1, "--engine", engine)
    run("sweep", "backwards.yaml", "--db", "two.db", "-j", 2, "--engine", engine)
    query = "select r.run_key, t.name, t.data from runs r join arrays t on t.run_id = r.id order by 1, 2"
    assert rows(tmp_path / "one.db", query) == rows(tmp_path / "two.db", query)
    assert len(rows(tmp_path / "two.db", query)) == 30


def test_dry_run_prints_the_plan_and_writes_nothing(run, small_sweep, tmp_path):
    result = run("sweep", small_sweep, "--dry-run")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 15
    assert "idw · 4 prototypes · p=2, ε=0.001 · seed 0" in result.stdout.splitlines()[0]
    assert files(tmp_path) == {"small.yaml"}
    plan = json.loads(run("sweep", small_sweep, "--dry-run", "--json").stdout)
    assert [entry["seed"] for entry in plan[:3]] == [0, 1, 2]


def test_json_prints_the_status_on_stdout(run, small_sweep):
    status = json.loads(run("sweep", small_sweep, "--json").stdout)
    assert (status["sweep"], status["total"], status["complete"], status["failed"]) == ("small", 15, 15, 0)


def test_a_diverged_run_is_a_result_and_the_sweep_goes_on(run, tmp_path):
    wild = tmp_path / "wild.yaml"
    wild.write_text("name: wild\ndataset: two_moons\nprotocol: {epochs: 2}\nseeds: 2\n"
                    "grid: {method: fc_relu, prototypes: 4, learning_rate: [1.0e+30, 0.01]}\n")  # fmt: skip
    result = run("sweep", wild)
    assert result.exit_code == 0, result.output
    states = rows(tmp_path / DB, "select learning_rate, state, diverged_epoch is not null from runs order by 1, 2")
    assert states == [(0.01, "complete", 0)] * 2 + [(1e30, "diverged", 1)] * 2
    assert "2 diverged" in result.stderr


def test_a_failed_run_whose_error_has_no_text_is_one_line(run, tmp_path):
    plugin, sweep = tmp_path / "odd.py", tmp_path / "odd.yaml"
    plugin.write_text(
        "from idwbench import register\n"
        "class Odd(Exception):\n    def __str__(self):\n        raise KeyError\n"
        "@register('odd')\n"
        "def odd(inputs, keys):\n    raise Odd\n"
    )
    sweep.write_text("name: odd\ndataset: two_moons\nseeds: 1\ngrid: {method: [odd], prototypes: 2, epochs: 1}\n")
    result = run("sweep", sweep, "--plugin", plugin)
    assert result.exit_code == 1
    assert result.stderr.count("Odd: <exception str() failed>\n") == 2  # when it fails, and in the table at the end


@pytest.mark.slow
def test_failed_runs_are_reported_stored_and_retried_on_request(run, tmp_path):
    plugin = tmp_path / "broken.py"
    plugin.write_text(
        "from idwbench import register\n"
        "@register('broken')\n"
        "def broken(inputs, keys):\n    raise ValueError('no score today')\n"
    )
    sweep = tmp_path / "broken.yaml"
    sweep.write_text(
        "name: broken\ndataset: two_moons\nseeds: 2\ngrid: {method: [broken, idw], prototypes: 2, epochs: 1}\n"
    )
    result = run("sweep", sweep, "--plugin", plugin)
    assert result.exit_code == 1
    assert result.stderr.count("FAILED: ValueError: no score today") == 2
    assert rows(tmp_path / DB, "select method, state from runs where method = 'idw'") == [("idw", "complete")] * 2
    errors = rows(tmp_path / DB, "select error from runs where state = 'failed'")
    assert all("Traceback" in error and "no score today" in error for (error,) in errors)
    again = run("sweep", sweep, "--plugin", plugin)
    assert again.exit_code == 1
    assert "2 of 4 done, 0 to go, 2 failed" in again.stderr
    assert "--retry failed" in again.stderr
    assert "2 to go" in run("sweep", sweep, "--plugin", plugin, "--retry", "failed").stderr


@pytest.fixture
def ctrl_c():
    """Interrupt this process as a terminal does; its main thread raises KeyboardInterrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("engine", ["torch", "fused"])
def test_after_an_interruption_no_run_is_lost_and_none_done_twice(
    run, small_sweep, tmp_path, monkeypatch, ctrl_c, engine, jobs
):
    started = []

    def interrupted_after_the_first(configs, dataset, context):
        def wait_for_the_end(epoch):
            """Stay at the end of an epoch until the interruption ends the training."""
            ctrl_c()
            for _ in range(100_000):
                context.on_epoch(epoch)
                threading.Event().wait(0.001)

        started.append(configs)
        # With one training more than there are threads, one at least has ended.
        waits = len(started) == jobs + 1
        return train(configs, dataset, replace(context, on_epoch=wait_for_the_end) if waits else context)

    command = ["sweep", small_sweep, "--engine", engine, "-j", jobs]
    with monkeypatch.context() as patched:
        train = replace_train(patched, engine, interrupted_after_the_first)
        result = run(*command)
    assert result.exit_code == 130, result.output
    assert "interrupted: " in result.stderr
    done = dict(rows(tmp_path / DB, "select state, count(*) from runs group by state"))
    assert set(done) == {"complete", "planned"}
    again = run(*command)
    assert again.exit_code == 0, again.output
    assert f"{done['complete']} of 15 done, {done['planned']} to go" in again.stderr
    assert rows(tmp_path / DB, "select count(*), count(distinct run_key) from runs where state = 'complete'") == [
        (15, 15)
    ]
    assert rows(tmp_path / DB, "select count(*) from arrays") == [(30,)]


@pytest.mark.parametrize(
    "argument", [["a" * 5_000], ["two_moons", "--engine", "a" * 5_000], ["two_moons", "--" + "a" * 5_000]]
)
def test_a_long_argument_is_not_echoed_whole(run, argument):
    result = run("sweep", *argument)
    assert result.exit_code == 2
    assert "aaaa … aaaa" in result.stderr
    assert len(result.stderr) < 2_500


def test_a_sweep_file_that_is_one_long_word_is_not_echoed_whole(run, tmp_path):
    (tmp_path / "word.yaml").write_text("a" * 300_000)
    stderr = run("sweep", "word.yaml").stderr
    assert stderr.startswith("word.yaml:1:1: expected a mapping, got 'aaa")
    assert len(stderr) < 1_500


@pytest.mark.parametrize("other", [["two_moons"], ["--dry-run"], ["--retry", "all"], ["--jobs", "2"]])
def test_the_list_of_shipped_sweeps_refuses_what_it_would_ignore(run, other):
    result = run("sweep", "--list", *other)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(": cannot be combined with --list\n")


BROKEN = {
    "unknown key": ("grid:\n  methd: idw\n  prototypes: 2\n", "4:3: grid.methd: unknown key (did you mean 'method'?)"),
    "unknown method": ("grid: {method: idv, prototypes: 2}\n", "(did you mean 'idw'?)"),
    "foreign parameter": ("grid: {method: gaussian, prototypes: 2, power: 2}\n", "power"),
    "negative epsilon": ("grid: {method: idw, prototypes: 2, epsilon: -1}\n", "epsilon"),
    "duplicate key": ("grid: {method: idw, method: idw, prototypes: 2}\n", "method"),
    "empty axis": ("grid: {method: [], prototypes: 2}\n", "grid.method"),
    "wrong type": ("grid: {method: idw, prototypes: two}\n", "grid.prototypes"),
    "no grid": ("", "grid"),
    "syntax": ("grid: {method: idw\n", "broken.yaml:"),
    "bad seeds": ("seeds: -3\ngrid: {method: idw, prototypes: 2}\n", "seeds"),
    "bad data set": ("grid: {method: idw, prototypes: 2}\n", "two_moons"),
    "code": ("grid: !!python/object/apply:os.system ['touch hacked']\n", "broken.yaml:3:"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_sweep_file_is_refused_in_one_line_before_anything_runs(run, tmp_path, case):
    text, expected = BROKEN[case]
    dataset = "two_mons" if case == "bad data set" else "two_moons"
    seeds = "" if "seeds" in text else "seeds: 2\n"
    (tmp_path / "broken.yaml").write_text(f"name: broken\ndataset: {dataset}\n{text}{seeds}")
    result = run("sweep", "broken.yaml")
    assert_one_line(result, 2, "broken.yaml", expected)
    assert files(tmp_path) == {"broken.yaml"}


def test_an_absent_sweep_file_is_refused_in_one_line(run, tmp_path):
    assert_one_line(run("sweep", "absent.yaml"), 2, "absent.yaml: no such file")
    assert files(tmp_path) == set()


@pytest.mark.slow
def test_retry_all_trains_everything_once_more(run, small_sweep, tmp_path):
    run("sweep", small_sweep)
    before = rows(tmp_path / DB, "select run_id, split, name, value from metrics order by 1, 2, 3")
    again = run("sweep", small_sweep, "--retry", "all")
    assert "small: 0 of 15 done, 15 to go" in again.stderr
    assert rows(tmp_path / DB, "select run_id, split, name, value from metrics order by 1, 2, 3") == before
    assert rows(tmp_path / DB, "select min(attempt), max(attempt), count(*) from runs") == [(2, 2, 15)]
