"""`idwbench card`, `export` and `import`: what a model says of itself, and models from and for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import idwbench
from idwbench.attention.scores import METHODS
from idwbench.cli.options import argument, data_option, key_values, model_option, option
from idwbench.cli.output import echo, echo_json, print_facts, print_model
from idwbench.errors import ConfigError
from idwbench.files import check_model_path, check_output
from idwbench.machine import readable_bytes
from idwbench.results import DEFAULT_DATABASE

__all__ = ["OPTIONS", "card", "export_model", "import_model"]

OPTIONS = {
    "export.output": option("-o", "--output", help="File to write: .onnx, .py, .skops, .pt or .safetensors."),
    "import.output": option("-o", "--output", help="Model file to write: .pt or .safetensors."),
    "file": argument(help="An .npz file with prototypes (or keys), and values or labels, and class_names if any."),
    "dataset": data_option(
        help="Data set of the prototypes: gives the scaling, the classes and, if the file has none, the values."
    ),
    "scaled": data_option("--scaled", help="The prototypes are in scaled units, not in the data's own."),
    "method": model_option(help=f"{', '.join(METHODS)}, or a plugin's."),
}


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
