"""Models of runs in the results database."""

import re
from os import PathLike
from pathlib import Path

from idwbench.data.loading import load_dataset
from idwbench.errors import IdwbenchError, TrainingError
from idwbench.models.checkpoints import saved_model
from idwbench.models.saved import SavedModel
from idwbench.results.records import StoredRun
from idwbench.results.store import Results, results_to_read

__all__ = ["find_stored_run", "stored_model"]

_SUFFIXES = (".pt", ".safetensors")
_KEY = re.compile(r"[0-9a-fA-F]{1,64}")


def find_stored_run(
    model: str, results: Results | str | PathLike[str], failure: type[IdwbenchError]
) -> StoredRun | None:
    """Return the stored run of a key or its beginning, or None if `model` is the name of a model file.

    Raises:
        IdwbenchError: of class `failure`, if it is neither.
        ResultsError: no such run, or several.
    """
    if Path(model).suffix in _SUFFIXES:
        return None
    if not _KEY.fullmatch(model):
        problem = f"'{model}' is neither a model file ({', '.join(_SUFFIXES)}) nor the key of a stored run"
        raise failure(problem, location=("model",))
    return results_to_read(results).find_run(model)


def stored_model(results: Results, run: StoredRun, data_dir: Path | None = None) -> SavedModel:
    """Return the model of a stored run.

    Raises:
        TrainingError: the run is of a kind without a model, or is not complete.
        DatasetError: its data set, which has the scaling, cannot be loaded.
    """
    if run.config.model.kind != "prototypes":
        raise TrainingError(f"a run of kind {run.config.model.kind} has no model: it trains no prototype network")
    if run.state != "complete":
        epoch = f" in epoch {run.diverged_epoch}" if run.diverged_epoch else ""
        raise TrainingError(f"the run is {run.state}{epoch}: it has no model")
    return saved_model(
        run.config,
        load_dataset(run.config.dataset, data_dir),
        results.load_arrays(run.run_key),
        engine=run.engine or "",
        device=run.device or "",
        versions=run.versions,
        data_sha256=run.data_sha256,
        metrics=run.metrics,
    )
