"""What `idwbench sweep` says of runs that are stored, being trained elsewhere, or failed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from engine_runs import replace_train
from typed import SMALL_SWEEP, assert_one_line, files

from idwbench.cli.progress import SweepProgress, run_labels
from idwbench.cli.sweep_output import failure_lines
from idwbench.results import leases
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.runs.results import RunResult
from idwbench.sweep.spec import plan, read_sweep

DB = "results/idwbench.db"


@pytest.fixture
def fail_seeds(monkeypatch):
    """Let runs with these seeds fail, each with its own reason or all with one."""

    def fail(seeds, reason="bad seed {}"):
        def train_or_fail(configs, dataset, context):
            if bad := [config.seed for config in configs if config.seed in seeds]:
                raise RuntimeError(reason.format(bad[0]))
            return train(configs, dataset, context)

        train = replace_train(monkeypatch, "fused", train_or_fail)

    return fail


def lease_elsewhere(path, n, monkeypatch):
    """Plan the sweep, and let a process on another host train the first runs."""
    spec, store = read_sweep(path), Results(DB)
    keys = store.register_sweep(spec.name, "", "", plan(spec))
    with monkeypatch.context() as patched:
        patched.setattr(leases, "this_process", lambda: ("elsewhere", 7))
        store.lease(keys[:n])


def test_runs_in_work_elsewhere_give_exit_code_3_and_a_line_that_says_so(run, small_sweep, monkeypatch):
    run("sweep", small_sweep, "--dry-run")  # in the folder of the test
    lease_elsewhere(small_sweep, 2, monkeypatch)
    result = run("sweep", small_sweep)
    assert result.exit_code == 3, result.output
    assert "small: 0 of 15 done, 13 to go, 2 being trained elsewhere" in result.stderr
    assert result.stderr.splitlines()[-1] == "2 runs are being trained elsewhere; --wait waits for them"
    again = run("sweep", small_sweep, "--json")
    assert again.exit_code == 3
    assert (json.loads(again.stdout)["complete"], json.loads(again.stdout)["running"]) == (13, 2)


def test_failed_runs_weigh_more_than_runs_in_work_elsewhere(run, small_sweep, monkeypatch, fail_seeds):
    run("sweep", small_sweep, "--dry-run")
    lease_elsewhere(small_sweep, 1, monkeypatch)
    fail_seeds({2})
    result = run("sweep", small_sweep)
    assert result.exit_code == 1
    assert "1 run is being trained elsewhere; --wait waits for them" in result.stderr


@pytest.mark.parametrize("options", [["--fail-fast"], ["--max-failures", 1], ["--max-failures", 3]])
def test_a_sweep_stops_after_a_number_of_failures_and_the_same_command_continues(run, small_sweep, fail_seeds, options):
    most = options[-1] if len(options) > 1 else 1
    fail_seeds({0})
    result = run("sweep", small_sweep, "-j", 1, *options)
    assert result.exit_code == 1
    status = Results(DB).sweep_status("small")
    assert (status.failed, status.running) == (most, 0)
    words = f"stopped after {most} failure{'s' if most > 1 else ''}: {status.planned} runs to go"
    assert result.stderr.splitlines()[-1] == f"{words}; the same command continues"
    assert status.planned > 0


def test_the_number_of_failures_is_positive_and_given_once(run, small_sweep):
    assert run("sweep", small_sweep, "--max-failures", 0).exit_code == 2
    both = run("sweep", small_sweep, "--max-failures", 2, "--fail-fast")
    assert_one_line(both, 2, "--max-failures: cannot be combined with --fail-fast")


def test_failures_are_listed_at_the_end_with_key_settings_and_reason(run, small_sweep, fail_seeds):
    fail_seeds({1, 2}, "no luck\nwith \x1b[31mseed")
    result = run("sweep", small_sweep)
    table = result.stderr[result.stderr.index("10 runs failed:") :].splitlines()
    assert len(table) == 6  # one row for each setting
    failed = Results(DB).find_runs(sweep="small", states=["failed"])
    first = next(run for run in failed if run.config.model.label.startswith("idw · 8"))
    row = f"  2 runs  {first.run_key[:12]}  idw · 8 prototypes · p=2, ε=0.001: with \\x1b[31mseed"
    assert row in table
    # They are listed again as long as they are there.
    again = run("sweep", small_sweep)
    assert again.exit_code == 1
    assert table == again.stderr[again.stderr.index("10 runs failed:") :].splitlines()


def stored_failures(reasons, methods=("idw",)):
    for number, reason in enumerate(reasons):
        method = methods[number % len(methods)]
        config = run_config("two_moons", method=method, prototypes=2 + number, seed=number)
        yield SimpleNamespace(config=config, run_key=config.run_key, error=f"Traceback\nValueError: {reason}")


def test_many_failures_for_one_reason_share_a_row():
    lines = list(failure_lines(list(stored_failures(["no score today"] * 25 + ["other"])), run_labels()))
    assert lines[0] == "26 runs failed:"
    assert lines[1].startswith("  25 runs  ")
    assert lines[1].endswith("idw · 2 prototypes · p=2, ε=0.001 and 24 other settings: ValueError: no score today")
    assert lines[2].startswith("  seed 25  ")
    assert len(lines) == 3


def test_of_many_reasons_the_first_are_listed_and_the_rest_is_counted():
    lines = list(failure_lines(list(stored_failures([f"reason {n}" for n in range(33)])), run_labels()))
    assert len(lines) == 22
    assert lines[-1] == "  … and 13 more; idwbench runs list --state failed"


def test_a_failure_without_a_reason_and_one_with_a_long_one_are_one_row_each():
    failures = [*stored_failures(["x" * 500, ""])]
    failures[1].error = None
    lines = list(failure_lines(failures, run_labels()))
    assert max(map(len, lines)) < 220
    assert any(line.endswith(": no reason") for line in lines)


def test_a_dry_run_says_which_runs_the_database_holds(run, small_sweep, fail_seeds):
    fail_seeds({1})
    small_sweep.write_text(SMALL_SWEEP.replace("seeds: 3", "seeds: 2"))
    run("sweep", small_sweep)
    small_sweep.write_text(SMALL_SWEEP)
    result = run("sweep", small_sweep, "--dry-run")
    states = [line.split()[2] for line in result.stdout.splitlines()]
    assert states == ["complete", "failed", "missing"] * 5
    assert result.stderr == "small: 15 runs on two_moons: 5 complete, 5 failed, 5 missing\n"
    entries = json.loads(run("sweep", small_sweep, "--dry-run", "--json").stdout)
    assert [entry["state"] for entry in entries] == states


def test_a_dry_run_plans_the_retries(run, small_sweep, fail_seeds):
    fail_seeds({1})
    run("sweep", small_sweep)
    result = run("sweep", small_sweep, "--dry-run", "--retry", "failed")
    assert result.stdout.count("failed, retry  ") == 5
    assert "10 complete, 5 failed, retry" in result.stderr
    states = [
        run["state"] for run in json.loads(run("sweep", small_sweep, "--dry-run", "--retry=all", "--json").stdout)
    ]
    assert sorted(set(states)) == ["complete, retry", "failed, retry"]


def test_a_dry_run_neither_makes_nor_changes_a_database(run, small_sweep, tmp_path):
    result = run("sweep", small_sweep, "--dry-run", "--db", "deep/absent.db")
    assert result.stderr == "small: 15 runs on two_moons: 15 missing\n"
    assert files(tmp_path) == {"small.yaml"}
    (tmp_path / "empty.db").touch()
    assert run("sweep", small_sweep, "--dry-run", "--db", "empty.db").exit_code == 0
    assert (tmp_path / "empty.db").read_bytes() == b""
    (tmp_path / "other.db").write_text("not a database, but a text that is long enough to look like one")
    assert_one_line(run("sweep", small_sweep, "--dry-run", "--db", "other.db"), 1, "other.db")


def test_a_dry_run_on_tables_of_an_older_version_says_that_the_states_are_unknown(run, small_sweep, tmp_path):
    old = Path(__file__).parents[1] / "assets/0.1.0/idwbench.db"
    copy = shutil.copy(old, tmp_path / "old.db")
    result = run("sweep", small_sweep, "--dry-run", "--db", str(copy))
    assert result.exit_code == 0, result.output
    assert sum(" unknown " in line for line in result.stdout.splitlines()) == 15
    (line,) = result.stderr.splitlines()
    assert "15 unknown; " in line
    assert "old.db: has tables of version 0001" in line
    described = json.loads(run("sweep", small_sweep, "--dry-run", "--json", "--db", str(copy)).stdout)
    assert {entry["state"] for entry in described} == {"unknown"}
    assert copy.read_bytes() == old.read_bytes()


@pytest.mark.parametrize(
    ("db", "words"),
    [(DB, ""), ("my runs.db", " --db 'my runs.db'"), ("sqlite:///runs.db", " --db URL")],
)
def test_the_report_that_is_suggested_reads_the_same_database(run, small_sweep, db, words):
    run("sweep", small_sweep, "--dry-run")  # in the folder of the test
    spec = read_sweep(small_sweep)
    Results(db).finish([ended(config, None) for config in plan(spec)])
    result = run("sweep", small_sweep, "--db", db)
    assert result.stderr.splitlines()[-1] == f"see: idwbench report --table small{words}"


def test_there_is_a_line_for_each_setting_with_mean_and_spread_over_all_its_seeds(run, small_sweep):
    small_sweep.write_text(SMALL_SWEEP.replace("seeds: 3", "seeds: 2"))
    run("sweep", small_sweep)
    small_sweep.write_text(SMALL_SWEEP)
    result = run("sweep", small_sweep)
    lines = [line for line in result.stderr.splitlines() if line.startswith("[")]
    assert len(lines) == 5
    frame = Results(DB).to_frame(sweep="small")
    of_setting = frame[(frame.method == "idw") & (frame.prototypes == 8)].test_accuracy
    mean, std = 100 * of_setting.mean(), 100 * of_setting.std()
    words = f"idw · 8 prototypes · p=2, ε=0.001: test accuracy {mean:.2f} ± {std:.2f} % (3 of 3 seeds) · 0.0 s"
    assert any(line.split("] ")[1] == words for line in lines), (words, lines)


def test_settings_of_the_protocol_that_vary_are_in_the_lines(run, tmp_path):
    (tmp_path / "rates.yaml").write_text(SMALL_SWEEP.replace("prototypes: 4}", "prototypes: 4, epochs: [1, 2]}"))
    lines = run("sweep", "rates.yaml").stderr
    assert "neg_dist · 4 prototypes · p=2 · epochs 1: test accuracy" in lines
    assert "idw · 4 prototypes · p=2, ε=0.001 · epochs 3: test accuracy" in lines


def test_lines_of_a_search_name_the_settings_of_the_protocol_that_it_varies(run, tmp_path):
    path = tmp_path / "hunt.yaml"
    path.write_text(
        "name: hunt\ndataset: {name: two_moons, train_per_class: 10, validation: 4}\nprotocol: {epochs: 2}\nseeds: 1\n"
        "sampler: {optuna: random, trials: 2, objective: validation_accuracy}\n"
        "grid: {method: idw, prototypes: 2, learning_rate: {low: 0.01, high: 0.1}}\n"
    )
    result = run("sweep", path)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("[")]
    assert len(lines) == 2
    assert all(" · learning rate " in line for line in lines)


CONFIGS = [run_config("two_moons", prototypes=2, seed=seed) for seed in range(4)]
CONFIGS = [CONFIGS[0].model_copy(update={"seed": seed}) for seed in range(4)]
KEYS = [config.run_key for config in CONFIGS]


def ended(config, accuracy):
    state = "diverged" if accuracy is None else "complete"
    metrics = {} if accuracy is None else {("test", "accuracy"): accuracy}
    return RunResult(config, state, (), metrics, {}, 12, None, 0.5, "fake", "cpu", 1)


@pytest.fixture
def progress():
    found = SweepProgress(SimpleNamespace(name="small", datasets=(), space=()), DB)
    found.planned(4, 4, 0, 0)
    found.pending(CONFIGS, KEYS, KEYS)
    return found


def test_a_setting_is_shown_when_its_last_run_has_ended(progress, capsys):
    progress.finished([ended(CONFIGS[0], 0.5), ended(CONFIGS[1], None)])
    progress.failed(CONFIGS[2], ValueError("no luck"))
    assert "seed 2 · FAILED: ValueError: no luck" in capsys.readouterr().err
    progress.finished([ended(CONFIGS[3], 1.0)])
    words = "test accuracy 75.00 ± 35.36 % (2 of 4 seeds) · 1 diverged · 1 failed · 1.5 s"
    assert capsys.readouterr().err == f"[4/4] idw · 2 prototypes · p=2, ε=0.001: {words}\n"


def test_a_setting_is_shown_so_far_if_there_was_no_line_for_a_while(progress, capsys, monkeypatch):
    progress.last -= 3600
    progress.finished([ended(CONFIGS[0], 0.5)])
    assert "test accuracy 50.00 % (1 of 4 seeds) · 0.5 s" in capsys.readouterr().err


def test_a_setting_of_which_another_process_took_runs_is_shown_without_them(progress, capsys):
    progress.taken(CONFIGS[1:])
    capsys.readouterr()
    progress.finished([ended(CONFIGS[0], 0.5)])
    assert "[1/4] idw · 2 prototypes · p=2, ε=0.001: test accuracy 50.00 % (1 of 4 seeds)" in capsys.readouterr().err


def test_a_setting_without_any_value_says_why(progress, capsys):
    progress.finished([ended(config, None) for config in CONFIGS])
    assert "p=2, ε=0.001: 4 diverged · 2.0 s" in capsys.readouterr().err
