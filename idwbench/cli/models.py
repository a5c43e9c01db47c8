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

_LONGEST_INPUT = 30

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
    facts = idwbench.model_card(model, db, data_dir=data_dir)
    if json:
        echo_json(facts, indent=2)
    else:
        print_facts(_card_facts(facts))


def _card_facts(card: dict[str, Any]) -> dict[str, Any]:
    """Return what a card has, by names for readers."""
    dataset = card["dataset"] or {}
    image = "x".join(map(str, card["image_shape"] or ()))
    return {
        "model": card["model"],
        "score": card["formula"],
        "prototypes": card["prototypes"],
        "features": f"{card['features']}{f' ({image} pixels)' if image else ''}",
        "columns": ", ".join(map(_column, card.get("columns", ()))),
        "classes" if card["classes"] else "outputs": ", ".join(card["classes"]) or card["outputs"],
        "dataset": dataset.get("label"),
        "sha256 of the data": dataset.get("sha256"),
        "protocol": _pairs(card["protocol"]),
        "seed": card["seed"],
        **{f"{split} metrics": _pairs(values) for split, values in card["metrics"].items()},
        "patches": len(card["patches"]),
        **{f"patch {number}": _patch(patch, card["classes"]) for number, patch in enumerate(card["patches"], start=1)},
        **{f"{split}, patched": _pairs(values) for split, values in (card["metrics_with_patches"] or {}).items()},
        "run key": card["run_key"],
        **{name: text for name, text in card["provenance"].items() if name != "versions"},
        "versions": _pairs(card["provenance"].get("versions")),
    }


def _column(column: dict[str, Any]) -> str:
    """Return ``island (Biscoe, Dream, Torgersen)`` of a column of categories, and the name of one of numbers."""
    categories = column.get("categories")
    return f"{column['name']} ({', '.join(categories)})" if categories else column["name"]


def _patch(record: dict[str, Any], classes: list[str]) -> str:
    """Return ``0.0,1.0 -> lower, radius 0.1, certified 0.08, reach 0.2`` of the record of a patch."""
    x = record["x"] if isinstance(record["x"], str) else _numbers(record["x"])
    wanted = classes[record["label"]] if classes else _numbers(record["wanted"])
    names = {"radius": "radius", "certified_radius": "certified", "reach": "reach"}
    solved = [f"{text} {record[name]:.4g}" for name, text in names.items() if name in record]
    return ", ".join([f"{x if len(x) <= _LONGEST_INPUT else x[: _LONGEST_INPUT - 3] + '...'} -> {wanted}", *solved])


def _numbers(numbers: list[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def _pairs(facts: dict[str, Any] | None) -> str:
    shown = {name: f"{fact:.6g}" if isinstance(fact, float) else fact for name, fact in (facts or {}).items()}
    return ", ".join(f"{name} {fact}" for name, fact in shown.items())


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
    card. Methods of plugins cannot be exported.
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
