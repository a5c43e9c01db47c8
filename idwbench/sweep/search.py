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
from typing import TYPE_CHECKING, Any

from idwbench.errors import ResultsError, TrainingError
from idwbench.report.labels import setting_label
from idwbench.results.records import RESULT_STATES, EndedState, StoredRun
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.metrics import METRICS
from idwbench.runs.protocol import Protocol, parse_protocol
from idwbench.sweep.runner import Runner, missing_requirements
from idwbench.sweep.sampler import Range, SamplerSettings, SearchBlock
from idwbench.sweep.spec import SweepSpec

if TYPE_CHECKING:
    import optuna

__all__ = ["Best", "run_search", "searched_protocol"]

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


def run_search(spec: SweepSpec, runner: Runner, retried: tuple[EndedState, ...] = ()) -> Best | None:
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
        search.train([config for _, configs in trials for config in configs])
        if runner.has_failed:
            return search.best
        for asked, configs in trials:
            search.tell(asked, configs)
        search.report()
    search.register()  # without the runs of another space
    return search.best


def searched_protocol(spec: SweepSpec) -> list[str]:
    """Return the settings of the protocol that differ between the runs of a search."""
    named = {name for block in spec.space for name in block}
    return [name for name in Protocol.model_fields if name in named]


class _Search:
    """The state of a search.

    Attributes:
        stored: The runs of the sweep that are known to be in the database, by key.
        plan: The runs of all trials so far, by key.
    """

    def __init__(self, spec: SweepSpec, runner: Runner, retried: tuple[EndedState, ...]) -> None:
        assert spec.sampler is not None
        self.spec, self.sampler, self.runner, self.retried = spec, spec.sampler, runner, retried
        self.results = runner.results
        self.study = _study(spec.sampler)
        self.stored = _stored_runs(self.results, spec.name)
        self.registered = set(self.stored)
        self.plan: dict[str, RunConfig] = {}
        self.reset: set[str] = set()
        self.best: Best | None = None
        self.n_trials, self.is_planned = 0, False

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

    def train(self, configs: Sequence[RunConfig]) -> None:
        """Train runs that have not ended, here or in other processes."""
        by_key = {config.run_key: config for config in configs}
        self.plan.update(by_key)
        if not self.registered.issuperset(by_key):
            self.register()
        missing = dict(by_key) if self.retried else self._unfinished(by_key)
        while missing:
            self._train_missing(missing)
            if self.runner.has_failed:
                return
            self.stored.update((key, self.results.find_run(key)) for key in missing)
            missing = self._unfinished(missing)
            if missing:  # another process trains them; it may also end, and leave them to this one
                time.sleep(_POLL_SECONDS)

    def _train_missing(self, missing: Mapping[str, RunConfig]) -> None:
        results, observer = self.results, self.runner.observer
        # A setting that is drawn again has been trained again.
        results.reset([key for key in missing if key not in self.reset], self.retried)
        self.reset.update(missing)
        pending = set(results.pending(list(missing)))
        to_do = [config for key, config in missing.items() if key in pending]
        if not to_do:
            if elsewhere := [key for key, state in results.run_states(list(missing)).items() if state == "running"]:
                observer.waiting(len(elsewhere))
            return
        if not self.is_planned:
            others = {key: config for key, config in self.plan.items() if key not in missing}
            total = self.sampler.trials * len(self.spec.seeds)
            ended = len(others) - len(self._unfinished(others)) + len(missing) - len(to_do)
            observer.planned(total, total - ended, 0, 0)
            self.is_planned = True
        observer.pending(list(missing.values()), list(missing), pending)
        self.runner.train_all([*missing_requirements(to_do, results), *to_do])

    def _unfinished(self, by_key: Mapping[str, RunConfig]) -> dict[str, RunConfig]:
        ended = (*RESULT_STATES, "failed")
        return {
            key: config
            for key, config in by_key.items()
            if key not in self.stored or self.stored[key].state not in ended
        }

    def tell(self, asked: optuna.trial.Trial, configs: Sequence[RunConfig]) -> None:
        """Tell the sampler the value of a trial, which has none if one of its runs has no result."""
        from optuna.trial import TrialState

        self.n_trials += 1
        runs = [self.stored[config.run_key] for config in configs]
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
        named = searched_protocol(self.spec)
        words = [self.best.config.model.label, *(setting_label(name, getattr(protocol, name)) for name in named)]
        best = f"{sampler.objective.replace('_', ' ')} {number} with {' · '.join(words)}"
        self.runner.observer.note(f"trial {self.best.trials} of {sampler.trials}: best {best}")


def _stored_runs(results: Results, name: str) -> dict[str, StoredRun]:
    if name not in {sweep.name for sweep in results.list_sweeps()}:
        return {}
    return {run.run_key: run for run in results.find_runs(sweep=name)}


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
