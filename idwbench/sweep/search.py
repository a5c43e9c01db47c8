"""`run_search`: the runs of a sweep with a sampler, chosen by Optuna from the results of earlier ones.

Nothing but runs is stored: a search that is continued asks the same sampler with the same seed again, and finds the
answers in the database.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from idwbench.errors import ResultsError, TrainingError
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.metrics import METRICS
from idwbench.runs.protocol import Protocol, parse_protocol
from idwbench.runs.results import CurvePoint
from idwbench.sweep.sampler import Range, SamplerSettings, SearchBlock, rungs
from idwbench.sweep.spec import SweepSpec

if TYPE_CHECKING:
    import optuna

__all__ = ["Best", "largest_number_of_runs", "run_search", "searched_protocol"]

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


@dataclass
class _Trial:
    """One setting. `value` is None until it has ended, and stays so if one of its runs has no result."""

    asked: optuna.trial.Trial
    cell: dict[str, Any]
    configs: list[RunConfig] = field(default_factory=list)
    reported: int = 0  # epochs
    pruned: bool = False
    value: float | None = None


def run_search(
    spec: SweepSpec,
    results: Results,
    train: Callable[[Sequence[RunConfig], int], None],
    on_batch: Callable[[Best | None], None] = lambda best: None,
    *,
    retry: bool = False,
) -> Best | None:
    """Train the trials of a search and return the best one; its runs are the plan of the sweep.

    Args:
        spec: A sweep with a sampler.
        results: The database, in which the sweep is stored batch by batch.
        train: Trains the runs that are missing; called with runs that are in the database, and the number of other
            runs of this search that have ended.
        on_batch: Called after each batch with the best setting so far.
        retry: Whether `train` is also called for runs that have ended.

    Raises:
        ResultsError: Optuna is not installed, or the database cannot be written.
        TrainingError: the runs do not have the metric of the objective.
    """
    search = _Search(spec, results, train, retry)
    sampler = search.sampler
    for first in range(0, sampler.trials, sampler.batch):
        search.run_batch(min(sampler.batch, sampler.trials - first))
        on_batch(search.best)
    search.register()  # without the runs of another space
    return search.best


def largest_number_of_runs(spec: SweepSpec) -> int:
    """Return how many runs a search has if no trial is pruned and all are different."""
    assert spec.sampler is not None
    return spec.sampler.trials * len(spec.seeds) * len(rungs(spec.sampler, spec.datasets[0][1].epochs))


def searched_protocol(spec: SweepSpec) -> list[str]:
    """Return the settings of the protocol that differ between the runs of a search."""
    named = {name for block in spec.space for name in block}
    if spec.sampler is not None and spec.sampler.pruner is not None:
        named.add("epochs")
    return [name for name in Protocol.model_fields if name in named]


class _Search:
    def __init__(
        self, spec: SweepSpec, results: Results, train: Callable[[Sequence[RunConfig], int], None], retry: bool
    ) -> None:
        assert spec.sampler is not None
        self.spec, self.sampler, self.results, self.train, self.retry = spec, spec.sampler, results, train, retry
        self.study = _study(spec.sampler, spec.name, spec.datasets[0][1].epochs)
        self.stored = _stored_runs(results, spec.name)
        self.registered = set(self.stored)
        self.plan: dict[str, RunConfig] = {}
        self.best: Best | None = None
        self.n_trials = 0

    def run_batch(self, size: int) -> None:
        """Ask for trials, train them rung by rung, and report their values in order."""
        trials = [self._ask() for _ in range(size)]
        budgets = rungs(self.sampler, self.spec.datasets[0][1].epochs)
        for epochs in budgets:
            running = [trial for trial in trials if not trial.pruned]
            for trial in running:
                trial.configs = self._configs(trial.cell, epochs)
            self._train([config for trial in running for config in trial.configs])
            for trial in running:
                self._judge(trial, epochs, last=epochs == budgets[-1])
        for trial in trials:
            self._tell(trial)

    def register(self) -> None:
        """Store the runs of all trials so far as the plan of the sweep."""
        spec = self.spec
        keys = self.results.register_sweep(spec.name, spec.description, spec.source, list(self.plan.values()))
        self.registered = set(keys)

    def _ask(self) -> _Trial:
        asked = self.study.ask()
        space, index = self.spec.space, 0
        if len(space) > 1:
            index = asked.suggest_categorical("block", list(range(len(space))))
        prefix = f"{index}." if len(space) > 1 else ""
        return _Trial(asked, _suggested(asked, space[index], prefix))

    def _configs(self, cell: Mapping[str, Any], epochs: int) -> list[RunConfig]:
        spec = self.spec
        of_protocol = {name: value for name, value in cell.items() if name in Protocol.model_fields}
        if self.sampler.pruner is not None:
            of_protocol["epochs"] = epochs
        dataset, protocol = spec.datasets[0]
        if of_protocol:
            protocol = parse_protocol(of_protocol, protocol)
        model = parse_model({name: value for name, value in cell.items() if name not in of_protocol})
        seeds = spec.seeds[:1] if model.is_deterministic else spec.seeds
        return [RunConfig(dataset=dataset, model=model, protocol=protocol, seed=seed) for seed in seeds]

    def _train(self, configs: Sequence[RunConfig]) -> None:
        by_key = {config.run_key: config for config in configs}
        self.plan.update(by_key)
        if not self.registered.issuperset(by_key):
            self.register()
        missing = dict(by_key) if self.retry else self._unfinished(by_key)
        while missing:
            others = {key: config for key, config in self.plan.items() if key not in missing}
            self.train(list(missing.values()), len(others) - len(self._unfinished(others)))
            self.stored.update((key, self.results.find_run(key)) for key in missing)
            missing = self._unfinished(missing)
            if missing:  # another process trains them; it may also end, and leave them to this one
                time.sleep(_POLL_SECONDS)

    def _unfinished(self, by_key: Mapping[str, RunConfig]) -> dict[str, RunConfig]:
        ended = (*RESULT_STATES, "failed")
        return {
            key: config
            for key, config in by_key.items()
            if key not in self.stored or self.stored[key].state not in ended
        }

    def _judge(self, trial: _Trial, epochs: int, *, last: bool) -> None:
        """Take the value of the last rung, or report the learning curves of another and ask whether to go on."""
        runs = [self.stored[config.run_key] for config in trial.configs]
        if any(run.state != "complete" for run in runs):
            trial.pruned = True  # without a value
            return
        if last:
            trial.value = fmean(_metric(run, self.sampler.metric) for run in runs)
            return
        curves = self.results.load_curves([run.run_key for run in runs]).values()
        for epoch, value in _mean_curve(list(curves), self.sampler.metric).items():
            if epoch > trial.reported:
                trial.asked.report(value, epoch)
                trial.reported, trial.value = epoch, value
        trial.pruned = trial.asked.should_prune()

    def _tell(self, trial: _Trial) -> None:
        from optuna.trial import TrialState

        self.n_trials += 1
        if trial.value is None or not math.isfinite(trial.value):
            self.study.tell(trial.asked, state=TrialState.FAIL)
        elif trial.pruned:
            self.study.tell(trial.asked, state=TrialState.PRUNED)
        else:
            self.study.tell(trial.asked, trial.value)
            sign = 1 if METRICS[self.sampler.metric].higher_is_better else -1
            if self.best is None or sign * trial.value > sign * self.best.value:
                self.best = Best(trial.value, trial.configs[0], self.n_trials)
        if self.best is not None:
            self.best = Best(self.best.value, self.best.config, self.n_trials)


def _stored_runs(results: Results, name: str) -> dict[str, StoredRun]:
    if name not in {sweep.name for sweep in results.list_sweeps()}:
        return {}
    return {run.run_key: run for run in results.find_runs(sweep=name)}


def _study(sampler: SamplerSettings, name: str, max_epochs: int) -> optuna.Study:
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
    pruners: dict[str | None, Callable[[], optuna.pruners.BasePruner]] = {
        None: optuna.pruners.NopPruner,
        "asha": lambda: optuna.pruners.SuccessiveHalvingPruner(
            min_resource=sampler.min_epochs, reduction_factor=sampler.reduction
        ),
        "hyperband": lambda: optuna.pruners.HyperbandPruner(
            min_resource=sampler.min_epochs, max_resource=max_epochs, reduction_factor=sampler.reduction
        ),
    }
    higher = METRICS[sampler.metric].higher_is_better
    return optuna.create_study(
        # Hyperband divides trials among its brackets by the name.
        study_name=name,
        sampler=samplers[sampler.optuna](),
        pruner=pruners[sampler.pruner](),
        direction="maximize" if higher else "minimize",
    )


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


def _mean_curve(curves: Sequence[Sequence[CurvePoint]], metric: str) -> dict[int, float]:
    """Return the mean over runs by epoch, of the epochs in which all have the metric."""
    values = [
        {point.epoch: point.values[_SPLIT, metric] for point in curve if (_SPLIT, metric) in point.values}
        for curve in curves
    ]
    common = set(values[0]).intersection(*values[1:]) if values else set()
    means = {epoch: fmean(one[epoch] for one in values) for epoch in sorted(common)}
    return {epoch: mean for epoch, mean in means.items() if math.isfinite(mean)}
