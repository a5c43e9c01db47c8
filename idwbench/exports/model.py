"""A stored run as a model file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from idwbench.errors import ConfigError
from idwbench.files import check_model_path, check_output
from idwbench.results.store import Results

__all__ = ["export_model"]


def export_model(
    results: Results, run_keys: Sequence[str], path: Path, data_dir: Path | None = None, *, overwrite: bool = False
) -> int:
    """Write the model of one run, the same bytes as after its training, and return 1.

    Args:
        results: The database.
        run_keys: One run, complete and of kind ``prototypes``.
        path: A name that ends in ``.pt`` or ``.safetensors``.
        data_dir: Folder of the image archives: the file has the scaling of the data.
        overwrite: Whether a file may be replaced.

    Raises:
        ConfigError: not exactly one run.
        TrainingError: the run has no model.
        OutputError: the file cannot be written.
    """
    check_model_path(path)
    check_output(path, overwrite=overwrite)
    if len(run_keys) != 1:
        raise ConfigError(f"a model file has one model, but {len(run_keys)} runs are selected", location=("runs",))
    from idwbench.models.checkpoints import save_model
    from idwbench.models.stored import stored_model

    run = results.load_runs(run_keys)[0]
    save_model(stored_model(results, run, data_dir), path, overwrite=overwrite)
    return 1
