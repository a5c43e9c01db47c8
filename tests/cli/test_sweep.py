"""`idwbench sweep`: what it trains and stores, on SQLite and PostgreSQL, and what it says of runs and failures."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from case_tables import VERSION_0_1_0
from engine_runs import replace_train
from stored_runs import query, run_result, stored_run
from sweep_specs import sweep_file
from typed import SMALL_SWEEP, files

import idwbench
from idwbench import Results, run_config
from idwbench.cli.progress import SweepProgress, run_labels
from idwbench.cli.sweep import failure_lines
from idwbench.plugins import load_plugin
from idwbench.results import leases
from idwbench.sweep.spec import plan, read_sweep

DB = "results/idwbench.db"
DATA = {"train": 30, "test": 10, "holdout": 20}


@pytest.fixture
def fail_seeds(monkeypatch):
    """Let runs with these seeds fail."""

    def fail(*seeds):
        def train_or_fail(configs, dataset, context):
            if bad := {config.seed for config in configs} & {*seeds}:
                raise RuntimeError(f"bad seed {min(bad)}")
            return train(configs, dataset, context)

        train = replace_train(monkeypatch, "fused", train_or_fail)

    return fail


def lines_of(result):
    return [line.split("] ")[1] for line in result.stderr.splitlines() if line.startswith("[")]


def test_a_sweep_trains_stores_and_goes_on_where_it_stopped(run, small_sweep, tmp_path):
    first = run("sweep small.yaml")
    assert (first.exit_code, first.stdout) == (0, ""), first.output
    assert "small: 0 of 15 done, 15 to go" in first.stderr
    small_sweep.write_text(SMALL_SWEEP.replace("seeds: 3", "seeds: 4"))
    second = run("sweep small.yaml")
    assert "small: 15 of 20 done, 5 to go" in second.stderr
    frame = Results(DB).to_frame(sweep="small")
    accuracy = 100 * frame[(frame.method == "idw") & (frame.prototypes == 8)].test_accuracy
    words = f"test accuracy {accuracy.mean():.2f} ± {accuracy.std():.2f} % (4 of 4 seeds) · 0.0 s"
    lines = lines_of(second)
    assert len(lines) == 5 and f"idw · 8 prototypes · p=2, ε=0.001: {words}" in lines
    assert query(tmp_path / DB, "select state, count(*), sum(attempt) from runs") == [("complete", 20, 20)]
    third = run("sweep small.yaml --json")
    assert "small: 20 of 20 done, 0 to go" in third.stderr
    assert json.loads(third.stdout).items() >= {"sweep": "small", "total": 20, "complete": 20, "failed": 0}.items()
    before = query(tmp_path / DB, "select run_id, split, name, value from metrics order by 1, 2, 3")
    assert "small: 0 of 20 done, 20 to go" in run("sweep small.yaml --retry all").stderr
    assert query(tmp_path / DB, "select run_id, split, name, value from metrics order by 1, 2, 3") == before


def test_the_report_that_is_suggested_reads_the_same_database(swept, small_sweep):
    shutil.copy(DB, "my runs.db")
    for db, words in {DB: "", "my runs.db": " --db 'my runs.db'", f"sqlite:///{DB}": " --db URL"}.items():
        result = swept("sweep small.yaml --db", db)
        assert result.stderr.splitlines()[-1] == f"see: idwbench report --table small{words}"


PLUGIN = """\
from idwbench import register
class Odd(Exception):
    def __str__(self):
        raise KeyError
@register('odd')
def odd(inputs, keys):
    raise Odd
@register('broken')
def broken(inputs, keys):
    raise ValueError('no \\x1b[31mscore')
"""


@pytest.mark.slow
def test_failed_runs_are_reported_listed_at_the_end_and_retried_on_request(run, tmp_path):
    (tmp_path / "broken.py").write_text(PLUGIN)
    sweep_file(tmp_path, "two_moons", "{method: [broken, odd, idw], prototypes: 2}")
    result = run("sweep small.yaml --plugin broken.py")
    assert result.exit_code == 1
    assert result.stderr.count("FAILED: ValueError: no \\x1b[31mscore") == 2
    assert result.stderr.count("Odd: <exception str() failed>\n") == 3  # when each fails, and in the table at the end
    again = run("sweep small.yaml --plugin broken.py")  # failures are listed as long as they are there
    assert again.exit_code == 1
    assert "2 of 6 done, 0 to go, 4 failed" in again.stderr and "--retry failed" in again.stderr
    key = Results(DB).find_runs(methods=["broken"])[0].run_key[:12]
    [row] = [line for line in again.stderr.splitlines() if line.startswith(f"  2 runs  {key}  broken · 2 prototypes:")]
    assert "4 runs failed:" in again.stderr.splitlines() and row.endswith("s: ValueError: no \\x1b[31mscore")
    assert "4 to go" in run("sweep small.yaml --plugin broken.py --retry failed").stderr


def test_a_block_of_an_unknown_method_says_so_until_its_plugin_is_named(run, tmp_path, monkeypatch):
    score = "from idwbench import register\n@register('half', parameters={'share': 0.5})\n"
    score += "def half(inputs, keys, *, share):\n    return share * (inputs @ keys.mT)\n"
    (tmp_path / "half.py").write_text(score)
    sweep_file(tmp_path, "two_moons", "{method: half, prototypes: 2, share: [1, 2]}")
    refused = run("sweep small.yaml --dry-run")
    place, hint = "small.yaml:6:14: grid[0].method", "if a plugin defines it, give its file with --plugin"
    assert (refused.exit_code, refused.stderr) == (2, f"{place}: unknown method 'half' ({hint})\n")
    absent = "idwbench: hlf.py: no such file (IDWBENCH_PLUGIN names it; did you mean 'half.py'?)\n"
    for name, words in (("hlf.py", absent), ("half.py", "4 missing")):
        monkeypatch.setenv("IDWBENCH_PLUGIN", name)
        assert words in run("sweep small.yaml --dry-run").stderr


def test_a_sweep_stops_after_a_number_of_failures_and_the_same_command_continues(run, small_sweep, fail_seeds):
    fail_seeds(0)
    for options, words in (("--fail-fast", "1 failure"), ("--max-failures 3 --retry failed", "3 failures")):
        result = run(f"sweep small.yaml -j 1 {options}")
        status = Results(DB).sweep_status("small")
        assert (result.exit_code, status.failed, status.running) == (1, int(words[0]), 0)
        last = f"stopped after {words}: {status.planned} runs to go; the same command continues"
        assert result.stderr.splitlines()[-1] == last


def test_runs_that_are_trained_elsewhere_give_exit_code_3(run, small_sweep, monkeypatch):
    store, configs = Results(DB), plan(read_sweep(small_sweep))
    keys = store.register_sweep("small", "", "", configs)
    with monkeypatch.context() as patched:
        patched.setattr(leases, "this_process", lambda: ("elsewhere", 7))
        store.lease(keys[:2])
    result = run("sweep small.yaml")
    assert result.exit_code == 3, result.output
    assert "small: 0 of 15 done, 13 to go, 2 being trained elsewhere" in result.stderr
    assert result.stderr.splitlines()[-1] == "2 runs are being trained elsewhere; --wait waits for them"
    options = " ".join(f"--dataset-option {name}_per_class={n}" for name, n in DATA.items())
    one = run(f"train --dataset two_moons --method idw --prototypes 4 --epochs 3 {options}")
    assert one.exit_code == 3
    assert one.stderr.splitlines()[-1].endswith("is being trained by another process")


def test_many_failures_share_rows_by_reason_and_the_rest_is_counted():
    def lines(*reasons):
        failed = []
        for n, reason in enumerate(reasons):
            run = stored_run(dataset="two_moons", prototypes=2 + n, seed=n, state="failed")
            failed.append(replace(run, error=reason and f"Traceback\nValueError: {reason}"))
        return list(failure_lines(failed, run_labels()))

    first, shared, other = lines(*["no score today"] * 25, "other")
    assert first == "26 runs failed:" and shared.startswith("  25 runs  ") and other.startswith("  seed 25  ")
    assert shared.endswith("idw · 2 prototypes · p=2, ε=0.001 and 24 other settings: ValueError: no score today")
    many = lines(*map(str, range(33)))
    assert (len(many), many[-1]) == (22, "  … and 13 more; idwbench runs list --state failed")
    assert max(map(len, lines("x" * 500))) < 220 and lines(None)[1].endswith(": no reason")


def test_a_dry_run_says_what_is_stored_plans_the_retries_and_changes_nothing(run, small_sweep, tmp_path, fail_seeds):
    result = run("sweep small.yaml --dry-run --db deep/absent.db")
    assert result.stderr == "small: 15 runs on two_moons: 15 missing\n"
    assert files(tmp_path) == {"small.yaml"}
    copy = Path(shutil.copy(VERSION_0_1_0 / "idwbench.db", tmp_path / "old.db"))
    result = run("sweep small.yaml --dry-run --db old.db")
    assert sum(" unknown " in line for line in result.stdout.splitlines()) == 15
    (line,) = result.stderr.splitlines()
    assert "15 unknown; " in line and "old.db: has tables of version 0001" in line
    assert copy.read_bytes() == (VERSION_0_1_0 / "idwbench.db").read_bytes()
    fail_seeds(1)
    small_sweep.write_text(SMALL_SWEEP.replace("seeds: 3", "seeds: 2"))
    run("sweep small.yaml")
    small_sweep.write_text(SMALL_SWEEP)
    result = run("sweep small.yaml --dry-run")
    states = [line.split()[2] for line in result.stdout.splitlines()]
    assert states == ["complete", "failed", "missing"] * 5
    assert "idw · 4 prototypes · p=2, ε=0.001 · seed 0" in result.stdout.splitlines()[0]
    assert result.stderr == "small: 15 runs on two_moons: 5 complete, 5 failed, 5 missing\n"
    entries = json.loads(run("sweep small.yaml --dry-run --json").stdout)
    assert [entry["state"] for entry in entries] == states
    assert [entry["seed"] for entry in entries[:3]] == [0, 1, 2]
    retried = run("sweep small.yaml --dry-run --retry all")
    assert "5 complete, retry, 5 failed, retry, 5 missing" in retried.stderr
    assert retried.stdout.count("failed, retry  ") == 5


def test_a_dry_run_prints_the_space_of_a_search_and_its_lines_name_the_settings_that_it_varies(run, tmp_path):
    data = "{name: two_moons, train_per_class: 10, validation: 4}"
    space = "{method: idw, prototypes: 2, initialisation: [mean, samples], learning_rate: {low: 0.01, high: 0.1}}"
    sampler = "{optuna: random, trials: 2, objective: validation_accuracy}"
    sweep_file(tmp_path, data, space, sampler=sampler, seeds="1")
    dry = run("sweep small.yaml --dry-run")
    assert {"initialisation: mean, samples", "learning_rate: 0.01 to 0.1"} <= {*dry.stdout.splitlines()}
    assert files(tmp_path) == {"small.yaml", "own.txt"}
    assert dry.stderr == "small: 2 trials of 1 seed by random; each depends on the results before\n"
    lines = lines_of(run("sweep small.yaml"))
    assert len(lines) == 2 and all(" · learning rate " in line and ": validation accuracy " in line for line in lines)
    assert {"rank", "validation_mean"} <= {*run("report --table small --format csv").stdout.splitlines()[0].split(",")}


CONFIGS = [run_config("two_moons", prototypes=2, seed=seed) for seed in range(4)]


def test_a_setting_is_shown_when_its_last_run_has_ended_without_those_that_another_process_took(capsys):
    def progress():
        keys = [config.run_key for config in CONFIGS]
        shown = SweepProgress(SimpleNamespace(name="small", datasets=(), searched_protocol=()), DB)
        shown.planned(4, 4, 0, 0)
        shown.pending(CONFIGS, keys, keys)
        return shown

    whole, part = progress(), progress()
    whole.finished([run_result(CONFIGS[0]), run_result(CONFIGS[1], state="diverged")])
    whole.failed(CONFIGS[2], ValueError("no luck"))
    whole.finished([run_result(CONFIGS[3], metrics={("test", "accuracy"): 1.0})])
    words = "test accuracy 75.00 ± 35.36 % (2 of 4 seeds) · 1 diverged · 1 failed · 1.5 s"
    *_, failure, setting = capsys.readouterr().err.splitlines()
    assert failure.endswith("seed 2 · FAILED: ValueError: no luck")
    assert setting == f"[4/4] idw · 2 prototypes · p=2, ε=0.001: {words}"
    part.last -= 3600  # a line on what is not complete, if there was none for a while
    part.finished([run_result(CONFIGS[0])])
    assert "test accuracy 50.00 % (1 of 4 seeds) · 0.5 s" in capsys.readouterr().err
    part.taken(CONFIGS[2:])
    part.finished([run_result(CONFIGS[1], state="diverged")])
    assert "test accuracy 50.00 % (1 of 4 seeds) · 1 diverged · 1.0 s" in capsys.readouterr().err


def test_a_sweep_begun_by_version_0_1_0_is_finished_and_nothing_is_trained_twice(run, tmp_path):
    for name in ("idwbench.db", "moons.yaml"):
        shutil.copy(VERSION_0_1_0 / name, tmp_path)
    columns = "select run_key, state, attempt, test_accuracy, holdout_accuracy, finished_at from"
    old = query("idwbench.db", f"{columns} runs")
    done = {row[0]: row[1:] for row in old if row[1] != "planned"}
    result = run("sweep moons.yaml --db idwbench.db")
    assert result.exit_code == 0 and "moons: 14 of 18 done, 4 to go" in result.stderr, result.output
    new = query("idwbench.db", f"{columns} runs_wide")
    assert {row[0] for row in new} == {row[0] for row in old}
    assert {row[0]: row[1:] for row in new if row[0] in done} == done
    assert {row[1] for row in new if row[0] not in done} == {"complete"}
    versions = query("idwbench.db", "select json_extract(versions, '$.idwbench'), count(*) from runs group by 1")
    assert sorted(versions) == [("0.1.0", 14), (idwbench.__version__, 4)]
    assert list(tmp_path.glob("*.bak"))
    assert "inv_dist" in run("report --table moons --db idwbench.db").stdout
    load_plugin(VERSION_0_1_0 / "laplace.py")
    config = run_config("two_moons", method="laplace", prototypes=4, width=2.0)
    assert config.run_key == "edca319ec8b6d6c85ab782932f91ee31d477db43665f0c48b58f261297db73d6"
