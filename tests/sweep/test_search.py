"""A search chooses settings by validation rows, stores nothing but runs, and goes on where it was interrupted."""

import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from sweep_specs import read_text, received, sweep_text

from idwbench.errors import ResultsError, TrainingError
from idwbench.results.store import Results
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.observer import Observer
from idwbench.sweep.runner import Runner
from idwbench.sweep.sampler import Range
from idwbench.sweep.search import run_search

DATA = "{name: two_moons, train_per_class: 10, test_per_class: 5, holdout_per_class: 0, validation: 6, noise: 0.3}"
SAMPLER = "{optuna: tpe, trials: 6, batch: 3, objective: validation_accuracy}"
GRID = "{method: idw, prototypes: {low: 2, high: 8}, power: {low: 1, high: 8, log: true}, "
GRID += "learning_rate: {low: 1.0e-3, high: 0.5, log: true}, initialisation: [mean, samples]}"


def text(sampler=SAMPLER, grid=GRID, data=DATA):
    return sweep_text(data, *grid.split("\n"), sampler=sampler)


def planned_keys(db):
    return [run.run_key for run in Results(db).find_runs(sweep="small")]


def test_ranges_have_whole_numbers_where_the_setting_has(tmp_path):
    (block,) = read_text(tmp_path, text()).space
    assert block["prototypes"] == Range(2, 8, log=False, step=None, whole=True)
    assert block["power"] == Range(1, 8, log=True, step=None, whole=False)
    assert block["initialisation"] == ("mean", "samples")
    grid = "{kind: scikit_learn, method: random_forest, max_depth: {low: 2, high: 8}}"
    (block,) = read_text(tmp_path, text(grid=grid)).space
    assert block["max_depth"] == Range(2, 8, log=False, step=None, whole=True)


@pytest.mark.slow
def test_an_interrupted_search_ends_with_the_same_runs_and_more_trials_continue_it(tmp_path):
    spec = read_text(tmp_path, text())
    whole, part = tmp_path / "whole.db", tmp_path / "part.db"
    run_sweep(spec, whole)
    observer = Mock(spec=Observer)
    observer.finished.side_effect = [None] * 3 + [KeyboardInterrupt]
    with pytest.raises(KeyboardInterrupt):
        run_sweep(spec, part, jobs=1, observer=observer)
    before = {run.run_key: run.finished_at for run in Results(part).find_runs(states=("complete",))}
    assert 0 < len(before) < len(planned_keys(whole))
    status = run_sweep(spec, part)
    after = {run.run_key: run for run in Results(part).find_runs()}
    assert planned_keys(part) == planned_keys(whole)
    assert status.complete == status.total == len(after)
    assert {key: after[key].finished_at for key in before} == before
    first = planned_keys(part)
    run_sweep(read_text(tmp_path, text(SAMPLER.replace("trials: 6", "trials: 9"))), part)
    assert planned_keys(part)[: len(first)] == first
    assert len(planned_keys(part)) == len(first) + 6
    assert all(run.attempt == 1 or run.run_key not in before for run in Results(part).find_runs())


def test_a_search_reports_the_setting_with_the_best_mean_on_validation_rows(tmp_path):
    spec = read_text(tmp_path, text("{optuna: random, trials: 6, objective: validation_accuracy}"))
    results = Results(tmp_path / "runs.db")
    observer = Mock(spec=Observer)
    runner = Runner(results, observer)
    run_search(spec, runner)
    by_setting = {}
    for run in results.find_runs(sweep="small"):
        found = run.metric("accuracy", "validation")
        by_setting.setdefault(run.config.model_copy(update={"seed": 0}).run_key, []).append(found)
    means = {key: sum(values) / len(values) for key, values in by_setting.items()}
    best = max(means, key=means.__getitem__)
    label = results.find_run(best).config.model.label
    line = f"trial 6 of 6: best validation accuracy {100 * means[best]:.2f} % with {label} "
    assert received(observer.note)[-1].startswith(line)
    assert runner.outcome["complete"] == 2 * len(means)


def test_runs_of_a_search_that_are_trained_again_are_to_do(tmp_path):
    grid = "{method: idw, prototypes: 4, epsilon: {low: 1.0e-4, high: 0.1}, learning_rate: {low: 0.001, high: 0.1}}"
    spec = read_text(tmp_path, text("{optuna: random, trials: 4, batch: 2, objective: validation_accuracy}", grid))
    for retry in (None, "all"):
        observer = Mock(spec=Observer)
        run_sweep(spec, tmp_path / "runs.db", retry=retry, observer=observer)
        assert (observer.planned.call_args.args[:2], sum(map(len, received(observer.finished)))) == ((8, 8), 8)
    lines = received(observer.note)
    assert sum("best" in line and "learning rate" in line for line in lines) == 2  # once for each batch


@pytest.mark.parametrize("retry", ["all", "failed"])
def test_a_setting_that_is_drawn_twice_is_trained_again_once(tmp_path, monkeypatch, retry):
    grid = "{method: idw, prototypes: [2, 3], initialisation: mean}"
    spec = read_text(tmp_path, text("{optuna: random, trials: 6, batch: 2, objective: validation_accuracy}", grid))
    db = tmp_path / "runs.db"
    error = Mock(side_effect=TrainingError("no room"))
    monkeypatch.setattr("idwbench.sweep.threads._measured", error)
    run_sweep(spec, db)
    run_sweep(spec, db, retry=retry)
    keys, results = planned_keys(db), Results(db)
    assert [(run.state, run.attempt) for run in results.load_runs(keys)] == [("failed", 2)] * 4


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_search_waits_for_runs_that_another_process_trains_again_or_for_the_first_time(
    tmp_path, monkeypatch, is_stored
):
    spec, db = (
        read_text(tmp_path, text("{optuna: random, trials: 2, objective: validation_accuracy}")),
        tmp_path / "a.db",
    )
    run_sweep(spec, tmp_path / "first.db")
    run, *_ = Results(tmp_path / "first.db").find_runs(sweep="small")
    if is_stored:
        run_sweep(spec, db)
    other = Results(db)
    other.plan([run.config])
    other.reset([run.run_key], ("complete",))
    assert other.lease([run.run_key]) == [run.run_key]
    assert not is_stored or run_sweep(spec, db).running == 1
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        other.release([run.run_key])

    monkeypatch.setattr("idwbench.sweep.runner.time", SimpleNamespace(sleep=sleep))
    status = run_sweep(spec, db, wait=is_stored)
    assert (status.running, status.complete, len(pauses)) == (0, status.total, 1)


def test_blocks_of_a_search_are_alternatives(tmp_path):
    grid = "{method: idw, prototypes: {low: 2, high: 8}}"
    grid += "\n{kind: kernel_regression, kernel: gaussian, bandwidth: {low: 0.1, high: 2}}"
    spec = read_text(tmp_path, text("{optuna: random, trials: 8, objective: validation_accuracy}", grid))
    run_sweep(spec, tmp_path / "runs.db")
    kinds = [run.config.model.kind for run in Results(tmp_path / "runs.db").find_runs()]
    # Kernel regression does not depend on the seed.
    assert set(kinds) == {"prototypes", "kernel_regression"}
    assert kinds.count("prototypes") % 2 == 0


def test_a_search_without_its_package_or_without_the_metric_of_its_objective_ends_in_one_line(tmp_path, monkeypatch):
    with (
        monkeypatch.context() as patched,
        pytest.raises(ResultsError, match=r"'optuna' \(pip install 'idwbench\[search\]'\)"),
    ):
        patched.setitem(sys.modules, "optuna", None)
        run_sweep(read_text(tmp_path, text()), tmp_path / "runs.db")
    spec = read_text(tmp_path, text("{optuna: random, trials: 2, objective: validation_coverage}"))
    with pytest.raises(TrainingError, match=r"have no validation_coverage; they have .*validation_accuracy"):
        run_sweep(spec, tmp_path / "runs.db")


def test_a_dry_run_prints_the_space_of_a_search(tmp_path, capsys):
    from idwbench.cli.sweep_output import print_plan

    print_plan(read_text(tmp_path, text()), str(tmp_path / "runs.db"), (), False)
    out, err = capsys.readouterr()
    assert "prototypes: 2 to 8" in out.splitlines()
    assert "initialisation: mean, samples" in out.splitlines()
    assert err == "small: 6 trials of 2 seeds by tpe; each depends on the results before\n"
    assert not (tmp_path / "runs.db").exists()
