"""`run_search`: the runs of a sweep with a sampler, chosen by Optuna from the results of earlier ones.

Nothing but runs is stored: a search that is continued asks the same sampler with the same seed again, and finds the
answers in the database.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any, get_args

from idwbench.errors import ResultsError, TrainingError
from idwbench.report.labels import setting_label
from idwbench.results.records import EndedState, StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.metrics import METRICS
from idwbench.runs.protocol import Protocol, parse_protocol
from idwbench.sweep.runner import Runner, missing_requirements
from idwbench.sweep.sampler import Range, SamplerSettings, SearchBlock
from idwbench.sweep.spec import SweepSpec

if TYPE_CHECKING:
    import optuna

__all__ = ["Best", "run_search"]

_SPLIT = "validation"
_POLL_SECONDS = 1.0
_DIGITS = 4


@dataclass(frozen=True)
class Best:
    """The best setting of a search so far.

    Attributes:
        value: Mean of the objective over seeds.
        config: The run of the first seed.
        trials: Number of trials that have ended.
    """

    value: float
    config: RunConfig
    trials: int


def run_search(spec: SweepSpec, runner: Runner, retried: Sequence[EndedState] = ()) -> Best | None:
    """Train the trials of a search batch by batch, and return the best one; its runs are the plan of the sweep.

    It waits for runs that other processes train, and ends after the failures that the runner allows.

    Args:
        spec: A sweep with a sampler.
        runner: Trains the runs that are missing; its observer receives the best setting after each batch.
        retried: Runs that are stored in these states are trained again.

    Raises:
        ResultsError: Optuna is not installed, or the database cannot be written.
        TrainingError: the runs do not have the metric of the objective.
    """
    search = _Search(spec, runner, retried)
    sampler = search.sampler
    for first in range(0, sampler.trials, sampler.batch):
        trials = [search.ask() for _ in range(min(sampler.batch, sampler.trials - first))]
        stored = search.train({config.run_key: config for _, configs in trials for config in configs})
        if runner.has_failed:
            return search.best
        for asked, configs in trials:
            search.tell(asked, configs, stored)
        search.report()
    search.register()  # without the runs of another space
    return search.best


class _Search:
    """The state of a search.

    Attributes:
        plan: The runs of all trials so far, by key.
        registered: The keys of the runs in the stored plan of the sweep.
        is_announced: Whether the observer knows the number of runs.
    """

    def __init__(self, spec: SweepSpec, runner: Runner, retried: Sequence[EndedState]) -> None:
        assert spec.sampler is not None
        self.spec, self.sampler, self.runner, self.retried = spec, spec.sampler, runner, retried
        self.results = runner.results
        self.study = _study(spec.sampler)
        self.plan: dict[str, RunConfig] = {}
        is_stored = spec.name in {sweep.name for sweep in self.results.list_sweeps()}
        runs = self.results.find_runs(sweep=spec.name, metrics=()) if is_stored else []
        self.registered = {run.run_key for run in runs}
        self.best: Best | None = None
        self.n_trials, self.is_announced = 0, False

    def ask(self) -> tuple[optuna.trial.Trial, list[RunConfig]]:
        """Return a new trial and its runs, one for each seed."""
        asked = self.study.ask()
        space, index = self.spec.space, 0
        if len(space) > 1:
            index = asked.suggest_categorical("block", list(range(len(space))))
        cell = _suggested(asked, space[index], f"{index}." if len(space) > 1 else "")
        of_protocol = {name: value for name, value in cell.items() if name in Protocol.model_fields}
        dataset, protocol = self.spec.datasets[0]
        if of_protocol:
            protocol = parse_protocol(of_protocol, protocol)
        model = parse_model({name: value for name, value in cell.items() if name not in of_protocol})
        seeds = self.spec.seeds[:1] if model.is_deterministic else self.spec.seeds
        return asked, [RunConfig(dataset=dataset, model=model, protocol=protocol, seed=seed) for seed in seeds]

    def register(self) -> None:
        """Store the runs of all trials so far as the plan of the sweep."""
        spec = self.spec
        keys = self.results.register_sweep(spec.name, spec.description, spec.source, list(self.plan.values()))
        self.registered = set(keys)

    def train(self, batch: Mapping[str, RunConfig]) -> dict[str, StoredRun]:
        """Train the runs of a batch that have not ended, and return all of them once they have, here or elsewhere."""
        results, runner = self.results, self.runner
        # A setting that is drawn again has been trained again.
        results.reset([key for key in batch if key not in self.plan], self.retried)
        self.plan.update(batch)
        if not self.registered.issuperset(batch):
            self.register()
        while True:
            pending = set(results.pending(list(batch)))
            if to_do := [config for key, config in batch.items() if key in pending]:
                self._announce(batch, pending)
                runner.train_all([*missing_requirements(to_do, results), *to_do])
            if runner.has_failed:
                return {}
            stored = {run.run_key: run for run in results.load_runs(list(batch))}
            left = sum(run.state not in get_args(EndedState) for run in stored.values())
            if not left:
                return stored
            runner.observer.waiting(left)  # for another process, which may also end, and leave its runs to this one
            time.sleep(_POLL_SECONDS)

    def _announce(self, batch: Mapping[str, RunConfig], pending: set[str]) -> None:
        if not self.is_announced:
            total, n_ended = self.sampler.trials * len(self.spec.seeds), len(self.plan) - len(pending)
            self.runner.observer.planned(total, total - n_ended, 0, 0)
            self.is_announced = True
        self.runner.observer.pending(list(batch.values()), list(batch), pending)

    def tell(self, asked: optuna.trial.Trial, configs: Sequence[RunConfig], stored: Mapping[str, StoredRun]) -> None:
        """Tell the sampler the value of a trial, which has none if one of its runs has no result."""
        from optuna.trial import TrialState

        self.n_trials += 1
        runs = [stored[config.run_key] for config in configs]
        value = math.nan
        if all(run.state == "complete" for run in runs):
            value = fmean(_metric(run, self.sampler.metric) for run in runs)
        if not math.isfinite(value):
            self.study.tell(asked, state=TrialState.FAIL)
        else:
            self.study.tell(asked, value)
            sign = 1 if METRICS[self.sampler.metric].higher_is_better else -1
            if self.best is None or sign * value > sign * self.best.value:
                self.best = Best(value, configs[0], self.n_trials)
        if self.best is not None:
            self.best = replace(self.best, trials=self.n_trials)

    def report(self) -> None:
        """Say the best setting so far, if there is one."""
        if self.best is None:
            return
        value, protocol, sampler = self.best.value, self.best.config.protocol, self.sampler
        number = f"{100 * value:.2f} %" if METRICS[sampler.metric].percent else f"{value:.4g}"
        named = self.spec.searched_protocol
        words = [self.best.config.model.label, *(setting_label(name, getattr(protocol, name)) for name in named)]
        best = f"{sampler.objective.replace('_', ' ')} {number} with {' · '.join(words)}"
        self.runner.observer.note(f"trial {self.best.trials} of {sampler.trials}: best {best}")


def _study(sampler: SamplerSettings) -> optuna.Study:
    try:
        import optuna
    except ModuleNotFoundError as error:
        problem, hint = f"a search needs the Python package '{error.name}'", "pip install 'idwbench[search]'"
        raise ResultsError(problem, hint=hint) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers: dict[str, Callable[[], optuna.samplers.BaseSampler]] = {
        "tpe": lambda: optuna.samplers.TPESampler(seed=sampler.seed, constant_liar=True),
        "random": lambda: optuna.samplers.RandomSampler(seed=sampler.seed),
        "gp": lambda: optuna.samplers.GPSampler(seed=sampler.seed, deterministic_objective=False),
    }
    higher = METRICS[sampler.metric].higher_is_better
    return optuna.create_study(sampler=samplers[sampler.optuna](), direction="maximize" if higher else "minimize")


def _suggested(trial: optuna.trial.Trial, block: SearchBlock, prefix: str) -> dict[str, Any]:
    cell: dict[str, Any] = {}
    for name in sorted(block):
        axis, label = block[name], prefix + name
        if isinstance(axis, Range):
            if axis.whole:
                step = 1 if axis.step is None else int(axis.step)
                cell[name] = trial.suggest_int(label, int(axis.low), int(axis.high), step=step, log=axis.log)
            else:
                drawn = trial.suggest_float(label, axis.low, axis.high, step=axis.step, log=axis.log)
                # Sixteen digits would fill tables, and the difference is far below that of two seeds.
                cell[name] = min(max(float(f"{drawn:.{_DIGITS}g}"), axis.low), axis.high)
        else:
            cell[name] = axis[0] if len(axis) == 1 else trial.suggest_categorical(label, list(axis))
    return cell


def _metric(run: StoredRun, metric: str) -> float:
    value = run.metric(metric, _SPLIT)
    if value is None:
        names = sorted(f"{_SPLIT}_{name}" for split, name in run.metrics if split == _SPLIT)
        found = f"; they have {', '.join(names)}" if names else ""
        raise TrainingError(f"the runs of this search have no {_SPLIT}_{metric}{found}")
    return value
