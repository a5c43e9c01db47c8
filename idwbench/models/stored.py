"""Models of runs in the results database."""

from pathlib import Path

from idwbench.data.loading import load_dataset
from idwbench.errors import TrainingError
from idwbench.models.checkpoints import saved_model
from idwbench.models.saved import SavedModel
from idwbench.results.records import StoredRun
from idwbench.results.store import Results

__all__ = ["stored_model"]


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
    )
