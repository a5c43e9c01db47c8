"""A search chooses settings by validation rows, stores nothing but runs, and goes on where it was interrupted."""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from idwbench.errors import ResultsError, SpecError, TrainingError
from idwbench.results.store import Results
from idwbench.runs.results import RunResult
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.observer import Observer
from idwbench.sweep.runner import Runner
from idwbench.sweep.sampler import Range
from idwbench.sweep.search import run_search
from idwbench.sweep.spec import SweepSpec, read_sweep

DATA = "{name: two_moons, train_per_class: 10, test_per_class: 5, holdout_per_class: 0, validation: 6, noise: 0.3}"
SAMPLER = "{optuna: tpe, trials: 6, batch: 3, objective: validation_accuracy}"
GRID = """{method: idw, prototypes: {low: 2, high: 8}, power: {low: 1, high: 8, log: true},
  learning_rate: {low: 1.0e-3, high: 0.5, log: true}, initialisation: [mean, samples]}"""


def text(sampler: str = SAMPLER, grid: str = GRID, data: str = DATA, protocol: str = "{epochs: 2}") -> str:
    return f"name: s\ndataset: {data}\nprotocol: {protocol}\nseeds: 2\nsampler: {sampler}\ngrid: {grid}\n"


def read(folder: Path, content: str) -> SweepSpec:
    file = folder / "s.yaml"
    file.write_text(content, encoding="utf-8")
    return read_sweep(file)


def error_of(folder: Path, content: str) -> str:
    with pytest.raises(SpecError) as caught:
        read(folder, content)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message.removeprefix(f"{folder / 's.yaml'}:")


def planned_keys(db: Path) -> list[str]:
    return [run.run_key for run in Results(db).find_runs(sweep="s")]


class Interruption(Observer):
    """Interrupts a search after some stacks."""

    def __init__(self, stacks: int) -> None:
        self.left = stacks

    def finished(self, results: object) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_ranges_have_whole_numbers_where_the_setting_has(tmp_path):
    (block,) = read(tmp_path, text()).space
    assert block["prototypes"] == Range(2, 8, log=False, step=None, whole=True)
    assert block["power"] == Range(1, 8, log=True, step=None, whole=False)
    assert block["initialisation"] == ("mean", "samples")
    grid = "{kind: scikit_learn, method: random_forest, max_depth: {low: 2, high: 8}}"
    (block,) = read(tmp_path, text(grid=grid)).space
    assert block["max_depth"] == Range(2, 8, log=False, step=None, whole=True)
    grid = "{kind: network, encoder: vit_tiny, heads: {low: 1, high: 1.5}, width: 4}"
    assert "grid.heads.high: " in error_of(tmp_path, text(grid=grid))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            text("{optuna: tpe, trials: 5, objective: test_accuracy}"),
            "chooses by validation rows, not by test rows (did",
        ),
        (text("{optuna: tpe, trials: 5, objective: accuracy}"), "unknown objective 'accuracy' (did you mean 'valid"),
        (text("{optuna: tpe, trials: 5, objective: validation_rmse}"), "rmse is a metric of regression"),
        (text("{optuna: tpe, trails: 5, objective: validation_accuracy}"), "did you mean 'trials'?"),
        (text(data="two_moons"), "the data set has no validation rows (set validation"),
        (text(data="[digits, two_moons]"), "a search needs one data set, got 2"),
        (text("{optuna: tpe, trials: 600000, objective: validation_accuracy}"), "at most 1,000,000 runs, got 1,200"),
        (text(grid="{method: idw, prototypes: {low: 2}}"), "grid.prototypes: 'high' is missing"),
        (text(grid="{method: idw, prototypes: {low: 8, high: 2}}"), "expected more than low (8), got 2"),
        (text(grid="{method: idw, prototypes: {low: 0, high: 2}}"), "grid.prototypes.low: "),
        (text(grid="{method: idw, prototypes: {low: 2, high: 2.5}}"), "grid.prototypes.high: "),
        (text(grid="{method: idw, prototypes: 4, power: {low: 0, high: 2, log: true}}"), "needs numbers above 0"),
        (text(grid="{method: idw, prototypes: 4, power: {low: 1, high: 2, log: true, step: 1}}"), "no meaning with"),
        (text().replace(f"sampler: {SAMPLER}\n", ""), "a range needs a sampler (list the values, or add a sampler)"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_one_line(tmp_path, content, expected):
    assert expected in error_of(tmp_path, content)


@pytest.mark.slow
def test_an_interrupted_search_ends_with_the_same_runs_and_more_trials_continue_it(tmp_path):
    spec = read(tmp_path, text())
    whole, part = tmp_path / "whole.db", tmp_path / "part.db"
    run_sweep(spec, whole)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(spec, part, jobs=1, observer=Interruption(4))
    before = {run.run_key: run.finished_at for run in Results(part).find_runs(states=("complete",))}
    assert 0 < len(before) < len(planned_keys(whole))
    status = run_sweep(spec, part)
    after = {run.run_key: run for run in Results(part).find_runs()}
    assert planned_keys(part) == planned_keys(whole)
    assert status.complete == status.total == len(after)
    assert {key: after[key].finished_at for key in before} == before
    first = planned_keys(part)
    run_sweep(read(tmp_path, text(SAMPLER.replace("trials: 6", "trials: 9"))), part)
    assert planned_keys(part)[: len(first)] == first
    assert len(planned_keys(part)) == len(first) + 6
    assert all(run.attempt == 1 or run.run_key not in before for run in Results(part).find_runs())


def test_a_search_reports_the_setting_with_the_best_mean_on_validation_rows(tmp_path):
    spec = read(tmp_path, text("{optuna: random, trials: 6, objective: validation_accuracy}"))
    results = Results(tmp_path / "runs.db")
    counts = Counts()
    runner = Runner(results, counts)
    run_search(spec, runner)
    by_setting: dict[str, list[float]] = {}
    for run in results.find_runs(sweep="s"):
        found = run.metric("accuracy", "validation")
        assert found is not None
        by_setting.setdefault(run.config.model_copy(update={"seed": 0}).run_key, []).append(found)
    means = {key: sum(values) / len(values) for key, values in by_setting.items()}
    best = max(means, key=means.__getitem__)
    label = results.find_run(best).config.model.label
    assert counts.lines[-1].startswith(
        f"trial 6 of 6: best validation accuracy {100 * means[best]:.2f} % with {label} "
    )
    assert runner.outcome["complete"] == 2 * len(means)


class Counts(Observer):
    """Counts runs, and keeps the lines."""

    def __init__(self) -> None:
        self.numbers, self.ended, self.lines = (0, 0), 0, list[str]()

    def planned(self, total: int, to_do: int, running: int, failed: int) -> None:
        self.numbers = total, to_do

    def finished(self, results: Sequence[RunResult]) -> None:
        self.ended += len(results)

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_runs_of_a_search_that_are_trained_again_are_to_do(tmp_path):
    grid = "{method: idw, prototypes: 4, epsilon: {low: 1.0e-4, high: 0.1}, learning_rate: {low: 0.001, high: 0.1}}"
    spec = read(tmp_path, text("{optuna: random, trials: 4, batch: 2, objective: validation_accuracy}", grid))
    for retry in (None, "all"):
        counts = Counts()
        run_sweep(spec, tmp_path / "runs.db", retry=retry, observer=counts)
        assert (counts.numbers, counts.ended) == ((8, 8), 8)
    assert sum("best" in line and "learning rate" in line for line in counts.lines) == 2  # once for each batch


@pytest.mark.parametrize("retry", ["all", "failed"])
def test_a_setting_that_is_drawn_twice_is_trained_again_once(tmp_path, monkeypatch, retry):
    grid = "{method: idw, prototypes: [2, 3], initialisation: mean}"
    spec = read(tmp_path, text("{optuna: random, trials: 6, batch: 2, objective: validation_accuracy}", grid))
    db = tmp_path / "runs.db"
    error = Mock(side_effect=TrainingError("no room"))
    monkeypatch.setattr("idwbench.sweep.threads._measured", error)
    run_sweep(spec, db)
    run_sweep(spec, db, retry=retry)
    keys, results = planned_keys(db), Results(db)
    assert [(run.state, run.attempt) for run in results.load_runs(keys)] == [("failed", 2)] * 4


def test_a_search_waits_for_stored_runs_that_another_process_trains_again(tmp_path, monkeypatch):
    spec = read(tmp_path, text("{optuna: random, trials: 2, objective: validation_accuracy}"))
    db = tmp_path / "runs.db"
    run_sweep(spec, db)
    other, key = Results(db), planned_keys(db)[0]
    other.reset([key], ("complete",))
    assert other.lease([key]) == [key]
    assert run_sweep(spec, db).running == 1
    released: list[float] = []

    def sleep(seconds: float) -> None:
        released.append(seconds)
        other.release([key])

    monkeypatch.setattr("idwbench.sweep.runner.time", SimpleNamespace(sleep=sleep))
    status = run_sweep(spec, db, wait=True)
    assert (status.running, status.complete) == (0, status.total)
    assert len(released) == 1


def test_a_search_waits_for_a_run_that_another_process_trains_for_the_first_time(tmp_path, monkeypatch):
    spec = read(tmp_path, text("{optuna: random, trials: 2, objective: validation_accuracy}"))
    run_sweep(spec, tmp_path / "first.db")
    other, (run, *_) = Results(tmp_path / "runs.db"), Results(tmp_path / "first.db").find_runs(sweep="s")
    other.lease(other.plan([run.config]))
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        other.release([run.run_key])

    monkeypatch.setattr("idwbench.sweep.runner.time", SimpleNamespace(sleep=sleep))
    status = run_sweep(spec, tmp_path / "runs.db")
    assert (status.complete, len(pauses)) == (status.total, 1)


def test_blocks_of_a_search_are_alternatives(tmp_path):
    grid = "\n  - {method: idw, prototypes: {low: 2, high: 8}}"
    grid += "\n  - {kind: kernel_regression, kernel: gaussian, bandwidth: {low: 0.1, high: 2}}"
    spec = read(tmp_path, text("{optuna: random, trials: 8, objective: validation_accuracy}", grid))
    run_sweep(spec, tmp_path / "runs.db")
    kinds = [run.config.model.kind for run in Results(tmp_path / "runs.db").find_runs()]
    # Kernel regression does not depend on the seed.
    assert set(kinds) == {"prototypes", "kernel_regression"}
    assert kinds.count("prototypes") % 2 == 0


def test_runs_without_the_metric_of_the_objective_end_the_search_in_one_line(tmp_path):
    spec = read(tmp_path, text("{optuna: random, trials: 2, objective: validation_coverage}"))
    with pytest.raises(TrainingError, match=r"have no validation_coverage; they have .*validation_accuracy"):
        run_sweep(spec, tmp_path / "runs.db")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ResultsError, match=r"needs the Python package 'optuna' \(pip install 'idwbench\[search\]'\)"):
        run_sweep(read(tmp_path, text()), tmp_path / "runs.db")


def test_a_dry_run_prints_the_space_of_a_search(tmp_path, capsys):
    from idwbench.cli.sweep_output import print_plan

    print_plan(read(tmp_path, text()), str(tmp_path / "runs.db"), (), False)
    out, err = capsys.readouterr()
    assert "prototypes: 2 to 8" in out.splitlines()
    assert "initialisation: mean, samples" in out.splitlines()
    assert err == "s: 6 trials of 2 seeds by tpe; each depends on the results before\n"
    assert not (tmp_path / "runs.db").exists()
