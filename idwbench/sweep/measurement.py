"""`measure_runs`: the metrics of prototype quality for stored runs, from their keys and values, without training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from idwbench.errors import ResultsError
from idwbench.results.records import StoredRun
from idwbench.results.store import Results
from idwbench.runs.datasets import DigitsConfig, ImageConfig, dataset_identity
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.metrics import Metrics

__all__ = ["measure_runs", "unmeasured_runs"]

_AT_ONCE = 50


def unmeasured_runs(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return the complete runs with keys and values that lack metrics of prototype quality.

    These are old runs, or runs on images that are older than the correlation of keys with them.
    """
    return [
        run
        for run in runs
        if run.state == "complete"
        and {"keys", "values"} <= set(MODELS[run.config.model.kind].array_names)
        and any(run.metric(name, "train") is None for name in _telling_metrics(run))
    ]


def _telling_metrics(run: StoredRun) -> tuple[str, ...]:
    """Return the metrics of quality that every measured run with such data has."""
    is_image = isinstance(run.config.dataset, ImageConfig | DigitsConfig)
    return ("coverage", "key_correlation") if is_image else ("coverage",)


def measure_runs(
    results: Results,
    runs: Sequence[StoredRun],
    data_dir: Path | None = None,
    on_measured: Callable[[int], None] = lambda done: None,
) -> int:
    """Store the metrics of prototype quality of the runs that lack them, and return the number of these runs.

    Args:
        results: The database of the runs.
        runs: Runs in any state.
        data_dir: Folder of the image archives.
        on_measured: Called with the number of runs measured so far; an exception in it keeps what is stored.

    Raises:
        DatasetError: a data set cannot be loaded.
        ResultsError: it is not the data that a run was trained on, or the database cannot be written.
    """
    groups: dict[str, list[StoredRun]] = {}
    for run in unmeasured_runs(runs):
        groups.setdefault(dataset_identity(run.config.dataset), []).append(run)
    done = 0
    for group in groups.values():
        from idwbench.data.loading import load_dataset
        from idwbench.models.neighbours import PrototypeQuality

        dataset = load_dataset(group[0].config.dataset, data_dir)
        quality = PrototypeQuality(dataset.splits, are_images=dataset.image_shape is not None)
        for start in range(0, len(group), _AT_ONCE):
            measured: dict[str, Metrics] = {}
            for run in group[start : start + _AT_ONCE]:
                if run.data_sha256 not in (None, dataset.sha256):
                    raise ResultsError(f"run {run.run_key[:12]} was trained on other data: the checksums differ")
                stored = results.load_arrays(run.run_key)
                keys, values = (stored[name].astype("float32") for name in ("keys", "values"))
                measured[run.run_key] = quality.metrics(keys, values)
            results.add_metrics(measured)
            done += len(measured)
            on_measured(done)
    return done
