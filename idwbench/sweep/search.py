"""`run_search`: the runs of a sweep with a sampler, chosen by Optuna from the results of earlier ones.

Nothing but runs is stored: a search that is continued asks the same sampler with the same seed again, and finds the
answers in the database.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from idwbench.errors import ResultsError, TrainingError
from idwbench.report.labels import setting_label
from idwbench.results.leases import ENDED_STATES
from idwbench.results.records import EndedState, StoredRun
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.models import parse_model
from idwbench.runs.metrics import METRICS
from idwbench.runs.protocol import Protocol, parse_protocol
from idwbench.sweep.runner import Runner, with_requirements
from idwbench.sweep.sampler import Range, SamplerSettings
from idwbench.sweep.spec import SweepSpec

if TYPE_CHECKING:
    import optuna

__all__ = ["run_search"]

_SPLIT = "validation"
_DIGITS = 4


def run_search(spec: SweepSpec, runner: Runner, retried: Sequence[EndedState] = ()) -> None:
    """Train the trials of a search batch by batch; its runs are the plan of the sweep.

    It waits for runs that other processes train, and ends after the failures that the runner allows.

    Args:
        spec: A sweep with a sampler.
        runner: Trains the runs that are missing; its observer receives the best setting after each batch.
        retried: Runs that are stored in these states are trained again.

    Raises:
        ResultsError: Optuna is not installed, or the database cannot be written.
        TrainingError: the runs do not have the metric of the objective.
    """
    assert spec.sampler is not None
    search = _Search(spec, spec.sampler, runner, retried)
    for first in range(0, search.sampler.trials, search.sampler.batch):
        trials = [search.ask() for _ in range(min(search.sampler.batch, search.sampler.trials - first))]
        stored = search.train({config.run_key: config for _, configs in trials for config in configs})
        if runner.has_failed:
            return
        for asked, configs in trials:
            search.tell(asked, [stored[config.run_key] for config in configs])
        search.report()
    search.register()  # without the runs of another space


class _Search:
    """The state of a search.

    Attributes:
        plan: The runs of all trials so far, by key.
        registered: The keys of the runs in the stored plan of the sweep.
    """

    def __init__(
        self, spec: SweepSpec, sampler: SamplerSettings, runner: Runner, retried: Sequence[EndedState]
    ) -> None:
        self.spec, self.sampler, self.runner, self.retried = spec, sampler, runner, retried
        self.results, self.study = runner.results, _study(sampler)
        self.plan: dict[str, RunConfig] = {}
        is_stored = spec.name in self.results.names()[0]
        runs = self.results.find_runs(sweep=spec.name, metrics=()) if is_stored else []
        self.registered = {run.run_key for run in runs}
        self.is_announced = False

    def ask(self) -> tuple[optuna.trial.Trial, list[RunConfig]]:
        """Return a new trial and its runs, one for each seed."""
        asked, space, prefix = self.study.ask(), self.spec.space, ""
        block = space[0]
        if len(space) > 1:
            index = asked.suggest_categorical("block", list(range(len(space))))
            block, prefix = space[index], f"{index}."
        cell = {name: _suggested(asked, prefix + name, block[name]) for name in sorted(block)}
        of_protocol = {name: value for name, value in cell.items() if name in Protocol.model_fields}
        dataset, protocol = self.spec.datasets[0]
        protocol = parse_protocol(of_protocol, protocol) if of_protocol else protocol
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
        # A setting that is drawn again has been trained again.
        self.results.reset([key for key in batch if key not in self.plan], self.retried)
        self.plan.update(batch)
        if not self.registered.issuperset(batch):
            self.register()
        if pending := self.results.pending(list(batch)):
            if not self.is_announced:
                total, n_ended = self.sampler.trials * len(self.spec.seeds), len(self.plan) - len(pending)
                self.runner.observer.planned(total, total - n_ended, 0, 0)
                self.is_announced = True
            self.runner.observer.pending(list(batch.values()), list(batch), set(pending))
            self.runner.train_all(with_requirements([batch[key] for key in pending], self.results))
        ended = [run.run_key for run in self.results.load_runs(list(batch)) if run.state in ENDED_STATES]
        self.runner.wait_for_others({key: config for key, config in batch.items() if key not in ended})
        return {run.run_key: run for run in self.results.load_runs(list(batch))}

    def tell(self, asked: optuna.trial.Trial, runs: Sequence[StoredRun]) -> None:
        """Tell the sampler the value of a trial, which has none if one of its runs has no result."""
        from optuna.trial import TrialState

        config, value = runs[0].config, math.nan
        searched = (setting_label(name, getattr(config.protocol, name)) for name in self.spec.searched_protocol)
        asked.set_user_attr("label", " · ".join([config.model.label, *searched]))
        if all(run.state == "complete" for run in runs):
            value = fmean(_metric(run, self.sampler.metric) for run in runs)
        if math.isfinite(value):
            self.study.tell(asked, value)
        else:
            self.study.tell(asked, state=TrialState.FAIL)

    def report(self) -> None:
        """Say the best setting so far, if there is one."""
        trials, sampler = self.study.trials, self.sampler
        if all(trial.value is None for trial in trials):
            return
        best, metric = self.study.best_trial, METRICS[sampler.metric]
        number = f"{100 * best.values[0]:.2f} %" if metric.percent else f"{best.values[0]:.4g}"
        words = f"{sampler.objective.replace('_', ' ')} {number} with {best.user_attrs['label']}"
        self.runner.observer.note(f"trial {len(trials)} of {sampler.trials}: best {words}")


def _study(sampler: SamplerSettings) -> optuna.Study:
    try:
        import optuna
    except ModuleNotFoundError as error:
        problem, hint = f"a search needs the Python package '{error.name}'", "pip install 'idwbench[search]'"
        raise ResultsError(problem, hint=hint) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    options: dict[str, dict[str, Any]] = {"TPE": {"constant_liar": True}, "GP": {"deterministic_objective": False}}
    name = {"tpe": "TPE", "random": "Random", "gp": "GP"}[sampler.optuna]
    chosen = getattr(optuna.samplers, f"{name}Sampler")(seed=sampler.seed, **options.get(name, {}))
    higher = METRICS[sampler.metric].higher_is_better
    return optuna.create_study(sampler=chosen, direction="maximize" if higher else "minimize")


def _suggested(trial: optuna.trial.Trial, label: str, axis: Range | tuple[Any, ...]) -> Any:
    """Return the value of a setting that the sampler chooses."""
    if not isinstance(axis, Range):
        return axis[0] if len(axis) == 1 else trial.suggest_categorical(label, list(axis))
    if axis.whole:
        return trial.suggest_int(label, int(axis.low), int(axis.high), step=int(axis.step or 1), log=axis.log)
    drawn = trial.suggest_float(label, axis.low, axis.high, step=axis.step, log=axis.log)
    # Sixteen digits would fill tables, and the difference is far below that of two seeds.
    return min(max(float(f"{drawn:.{_DIGITS}g}"), axis.low), axis.high)


def _metric(run: StoredRun, metric: str) -> float:
    value = run.metric(metric, _SPLIT)
    if value is None:
        names = sorted(f"{_SPLIT}_{name}" for split, name in run.metrics if split == _SPLIT)
        found = f"; they have {', '.join(names)}" if names else ""
        raise TrainingError(f"the runs of this search have no {_SPLIT}_{metric}{found}")
    return value
