"""`idwbench train`, `card`, `export` and `import`: models of prototypes and what they say of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import idwbench
from idwbench.attention.scores import METHODS
from idwbench.cli.interruption import interruptible
from idwbench.cli.options import (
    DATASET_SETTINGS,
    EngineName,
    argument,
    data_option,
    dataset_names,
    key_values,
    model_option,
    option,
    training_option,
)
from idwbench.cli.output import echo, echo_json, print_facts, print_model
from idwbench.cli.progress import SweepProgress
from idwbench.errors import ConfigError
from idwbench.files import check_model_path, check_output
from idwbench.machine import readable_bytes
from idwbench.results import DEFAULT_DATABASE
from idwbench.runs.advice import training_advice
from idwbench.runs.dataset_base import FileConfig, LanguageConfig
from idwbench.runs.datasets import DATASETS

__all__ = ["OPTIONS", "card", "export_model", "import_model", "train"]

# Without the user's own files, and without texts: `train` trains prototype networks.
_NAMES = [name for name, kind in DATASETS.items() if not issubclass(kind, FileConfig | LanguageConfig)]

OPTIONS = {
    "train.dataset": data_option(
        help=f"{', '.join(_NAMES)}, or the path of a .npz, .csv or .tsv file.", autocompletion=dataset_names
    ),
    "import.dataset": data_option(
        help="Data set of the prototypes: gives the scaling, the classes and, if the file has none, the values."
    ),
    "method": model_option(help=f"{', '.join(METHODS)}, or a plugin's.", autocompletion=lambda: list(METHODS)),
    "prototypes": model_option(help="Number of prototypes."),
    "seed": option(help="Seed of initialisation and batch order.", rich_help_panel="Protocol"),
    "dataset_option": data_option(help="A setting of the data set, KEY=VALUE (noise=0.2, seed=1); may be repeated."),
    "retrain": training_option("--retrain", help="Train even if the database has this run."),
    "output": option("-o", "--output", help="Model file to write: .pt or .safetensors."),
    "export.output": option("-o", "--output", help="File to write: .onnx, .py, .skops, .pt or .safetensors."),
    "file": argument(help="An .npz file with prototypes (or keys), and values or labels, and class_names if any."),
    "scaled": data_option("--scaled", help="The prototypes are in scaled units, not in the data's own."),
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


def card(model: str, db: str = DEFAULT_DATABASE, data_dir: Path | None = None, json: bool = False) -> None:
    """Print the card of a model: its data, protocol, accuracies, patches, versions and run key."""
    from idwbench.models.model_card import readable_card

    facts = idwbench.model_card(model, db, data_dir=data_dir)
    if json:
        echo_json(facts, indent=2)
    else:
        print_facts(readable_card(facts))


def export_model(
    model: str,
    output: Path,
    db: str = DEFAULT_DATABASE,
    data_dir: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write a trained model as ONNX, as a Python module that needs only NumPy, or as a scikit-learn estimator.

    The ending of the file decides: .onnx, .py or .skops. All take inputs in the data's own units and hold the model
    card. Methods of plugins can be exported as ONNX, if their score is a sequence of operators.
    """
    from idwbench.exports.model import model_format

    format = model_format(output)
    idwbench.export_model(model, output, overwrite=force, results=db, data_dir=data_dir)
    size = output.stat().st_size
    if json:
        echo_json({"output": str(output), "format": format, "bytes": size})
        return
    echo(f"{format}, {readable_bytes(size)}", err=True)
    echo(str(output))


def import_model(
    file: Path,
    output: Path,
    dataset: str | None = None,
    dataset_option: list[str] | None = None,
    scaled: bool = False,
    method: str = "idw",
    parameter: list[str] | None = None,
    data_dir: Path | None = None,
    force: bool = False,
    json: bool = False,
    **parameters: Any,
) -> None:
    """Make a model of prototypes from elsewhere, such as the centres of k-means, to explain, patch and export it.

    A label becomes the value 1 for its class and 0 for the others. Without values and labels, the values are the class
    frequencies, or the mean target, of the training inputs nearest to each prototype. With a data set the accuracies
    are measured.
    """
    check_model_path(output)
    check_output(output, overwrite=force)
    options = key_values("dataset_option", dataset_option)
    parameters = key_values("parameter", parameter, beside=parameters)
    if options and dataset is None:
        raise ConfigError("needs a data set", location=("dataset_option",))

    named = {"name": dataset, **options} if options else dataset
    settings = {"method": method, **parameters}
    model = idwbench.import_prototypes(file, dataset=named, scaled=scaled, data_dir=data_dir, **settings)
    model.save(output, overwrite=force)
    metrics = {(split, name): value for split, found in model.metrics.items() for name, value in found.items()}
    facts = {"prototypes": len(model.network.keys), "features": model.n_features, "outputs": model.n_outputs}
    print_model(metrics, output, {**facts, "classes": list(model.class_names)} if json else None)
