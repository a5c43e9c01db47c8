"""Stored runs as a study of Optuna, for its dashboard and its plots: history, importance, parallel coordinates."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from idwbench.errors import OutputError
from idwbench.files import check_output, write_file
from idwbench.machine import require_package
from idwbench.report.labels import flat_settings, varying_settings
from idwbench.results.records import StoredRun
from idwbench.results.store import Results
from idwbench.runs.metrics import HEADLINES

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

__all__ = ["export_optuna"]

_LOG_RATIO = 10  # of the largest number of a setting to the smallest, from which its axis is one of logarithms


def export_optuna(results: Results, run_keys: Sequence[str], path: Path, *, overwrite: bool = False) -> int:
    """Write runs as a study of Optuna in an SQLite file, and return the number of runs.

    Each setting is a trial. Its parameters are the settings that vary, and its value is the mean over seeds of the
    metric of the task on the validation rows, or on the test rows if some runs have no others; it failed if one of its
    runs has no result, or diverged, and it waits or is running if none of them has ended. The study has the name of
    the file. ``optuna-dashboard sqlite:///PATH`` shows it.

    Args:
        results: The database.
        run_keys: The runs, such as those of a search; the order is that of the trials.
        path: The file.
        overwrite: Whether a file may be replaced.

    Raises:
        OutputError: the package ``optuna`` is missing, there are no runs, or runs of several tasks; or the file cannot
            be written.
        ResultsError: no run has one of the keys.
    """
    require_package("optuna", "search")
    import optuna
    from optuna.study import StudyDirection

    check_output(path, overwrite=overwrite)
    by_setting: dict[str, list[StoredRun]] = defaultdict(list)
    for run in results.load_runs(run_keys):
        by_setting[run.config.setting_key].append(run)
    metrics = {HEADLINES[run.config.dataset.task] for runs in by_setting.values() for run in runs}
    if len(metrics) != 1:
        problem = "runs of several tasks have no common metric" if metrics else "there are no runs"
        raise OutputError(problem, file=path)
    [metric] = metrics
    complete = [run for runs in by_setting.values() for run in runs if run.state == "complete"]
    is_validated = all(run.metric(metric.name, "validation") is not None for run in complete)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="idwbench-") as folder:
        file = Path(folder, "study.db")
        storage = optuna.storages.RDBStorage(f"sqlite:///{file}")
        direction = StudyDirection.MAXIMIZE if metric.higher_is_better else StudyDirection.MINIMIZE
        study = optuna.create_study(study_name=path.stem, storage=storage, direction=direction)
        split = "validation" if is_validated else "test"
        study.set_user_attr("metric", f"{split}_{metric.name}")
        study.add_trials(_trials([*by_setting.values()], metric.name, split))
        storage.remove_session()
        storage.engine.dispose()
        write_file(path, file.read_bytes(), overwrite=overwrite)
    return sum(map(len, by_setting.values()))


def _trials(groups: Sequence[Sequence[StoredRun]], metric: str, split: str) -> list[FrozenTrial]:
    """Return a trial for each group of runs, which differ in their seed alone."""
    from optuna.trial import create_trial

    settings = [flat_settings(runs[0].config) for runs in groups]
    varying = varying_settings(settings)
    axes = {name: _distribution([one[name] for one in settings if name in one]) for name in varying}
    trials = []
    for runs, own in zip(groups, settings, strict=True):
        values = [run.metric(metric, split) for run in runs if run.state == "complete"]
        numbers = [value for value in values if value is not None]
        state = _state(runs, len(numbers))
        names = [name for name in varying if name in own]
        trial = create_trial(
            state=state,
            value=fmean(numbers) if state == state.COMPLETE else None,
            params={name: str(own[name]) if hasattr(axes[name], "choices") else own[name] for name in names},
            distributions={name: axes[name] for name in names},
            user_attrs={"run_keys": [run.run_key for run in runs]},
        )
        ended = max((run.finished_at for run in runs if run.finished_at), default=None)
        started = min((run.started_at for run in runs if run.started_at), default=ended)
        # Optuna refuses a trial that waits or runs with an end, and one that waits with a beginning.
        trial.datetime_start = None if state == state.WAITING else started
        trial.datetime_complete = ended
        trials.append(trial)
    return trials


def _state(runs: Sequence[StoredRun], n_results: int) -> TrialState:
    """Return the state of the trial of runs of which `n_results` have the metric."""
    from optuna.trial import TrialState

    if n_results == len(runs):
        return TrialState.COMPLETE
    if any(run.finished_at for run in runs):
        return TrialState.FAIL
    return TrialState.RUNNING if any(run.state == "running" for run in runs) else TrialState.WAITING


def _distribution(values: Sequence[Any]) -> BaseDistribution:
    """Return numbers from the smallest to the largest, on a logarithmic axis if they span a wide range, or choices."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    kinds = {*map(type, values)}
    if not kinds <= {int, float}:
        return CategoricalDistribution([*dict.fromkeys(map(str, values))])
    low, high = min(values), max(values)
    is_wide = low > 0 and high / low >= _LOG_RATIO
    if kinds == {int}:
        return IntDistribution(low, high, log=is_wide)
    return FloatDistribution(low, high, log=is_wide)
