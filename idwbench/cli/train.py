"""`idwbench train`: train and store one run, and write its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import idwbench
from idwbench.attention.scores import METHODS
from idwbench.cli.interruption import interruptible
from idwbench.cli.options import (
    DATASET_SETTINGS,
    EngineName,
    data_option,
    dataset_names,
    key_values,
    model_option,
    option,
    training_option,
)
from idwbench.cli.output import echo, print_model
from idwbench.files import check_model_path, check_output
from idwbench.results import DEFAULT_DATABASE
from idwbench.runs.advice import training_advice
from idwbench.runs.dataset_base import FileConfig, LanguageConfig
from idwbench.runs.datasets import DATASETS

__all__ = ["OPTIONS", "train"]

# Without the user's own files, and without texts: this command trains prototype networks.
_NAMES = [name for name, kind in DATASETS.items() if not issubclass(kind, FileConfig | LanguageConfig)]

OPTIONS = {
    "dataset": data_option(
        help=f"{', '.join(_NAMES)}, or the path of a .npz, .csv or .tsv file.", autocompletion=dataset_names
    ),
    "method": model_option(help=f"{', '.join(METHODS)}, or a plugin's.", autocompletion=lambda: list(METHODS)),
    "prototypes": model_option(help="Number of prototypes."),
    "seed": option(help="Seed of initialisation and batch order.", rich_help_panel="Protocol"),
    "output": option("-o", "--output", help="Model file to write: .pt or .safetensors."),
    "dataset_option": data_option(help="A setting of the data set, KEY=VALUE (noise=0.2, seed=1); may be repeated."),
    "retrain": training_option("--retrain", help="Train even if the database has this run."),
}


def train(
    dataset: str,
    method: str = "idw",
    prototypes: int = 16,
    seed: int = 0,
    output: Path | None = None,
    parameter: list[str] | None = None,
    dataset_option: list[str] | None = None,
    engine: EngineName = "auto",
    device: str = "cpu",
    db: str = DEFAULT_DATABASE,
    data_dir: Path | None = None,
    retrain: bool = False,
    force: bool = False,
    json: bool = False,
    **settings: Any,
) -> None:
    """Train one run, store it, and write its model.

    Each data set has a default protocol. A run that the database already has is not trained again: the same
    configuration and seed give the same result.
    """
    if output is not None:
        check_model_path(output)
        check_output(output, overwrite=force)
    own_options = {name: settings.pop(name) for name in DATASET_SETTINGS if name in settings}
    options = key_values("dataset_option", dataset_option, beside=own_options)
    settings = key_values("parameter", parameter, beside=settings)
    settings = {"method": method, "prototypes": prototypes, **settings}

    config = idwbench.run_config({"name": dataset, **options} if options else dataset, seed=seed, **settings)

    from idwbench.cli.progress import SweepProgress

    with interruptible(lambda: "nothing new was stored"), SweepProgress() as progress:
        run = idwbench.train(
            config, db, engine=engine, device=device, data_dir=data_dir, retrain=retrain, observer=progress
        )
    if progress.done == 0:
        note = f"run {run.run_key[:12]} is in the database already (engine {run.engine}); --retrain trains it again"
        echo(note, err=True)
    if output is not None:
        from idwbench.models.model_file import save_model
        from idwbench.models.saved_model import stored_model

        save_model(stored_model(idwbench.Results(db, read_only=True), run, data_dir), output, overwrite=force)
    if run.state == "diverged" and not json:
        echo(f"diverged in epoch {run.diverged_epoch}")
    if advice := training_advice(run.config, run.metrics):
        echo(advice, err=True)
    print_model(run.metrics, output, {"run_key": run.run_key, "state": run.state} if json else None)
