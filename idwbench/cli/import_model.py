"""`idwbench import`: prototypes that were made elsewhere as a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from idwbench.attention.scores import METHODS
from idwbench.cli.options import DATA, MODEL, DataDir, Force, Json, Parameters, Plugins, key_values, load_plugins
from idwbench.cli.output import echo, echo_json, print_metrics
from idwbench.cli.settings import with_parameters

if TYPE_CHECKING:
    from idwbench.models.saved_model import SavedModel

__all__ = ["import_model"]


@with_parameters
def import_model(
    file: Annotated[
        Path,
        typer.Argument(help="An .npz file with prototypes (or keys), and values or labels, and class_names if any."),
    ],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Model file to write: .pt or .safetensors.", show_default=False),
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Data set of the prototypes: gives the scaling, the classes and, if the file has none, the values.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None,
    dataset_option: Annotated[
        list[str] | None,
        typer.Option(help="A setting of the data set, KEY=VALUE; may be repeated.", rich_help_panel=DATA),
    ] = None,
    scaled: Annotated[
        bool,
        typer.Option(
            "--scaled", help="The prototypes are in scaled units, not in the data's own.", rich_help_panel=DATA
        ),
    ] = False,
    method: Annotated[str, typer.Option(help=f"{', '.join(METHODS)}, or a plugin's.", rich_help_panel=MODEL)] = "idw",
    parameter: Parameters = None,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    force: Force = False,
    json: Json = False,
    **parameters: Any,
) -> None:
    """Make a model of prototypes from elsewhere, such as the centres of k-means, to explain, patch and export it.

    A label becomes the value 1 for its class and 0 for the others. Without values and labels, the values are the class
    frequencies, or the mean target, of the training inputs nearest to each prototype. With a data set the accuracies
    are measured.
    """
    from idwbench.errors import ConfigError
    from idwbench.files import check_model_path, check_output

    load_plugins(plugin)
    check_model_path(output)
    check_output(output, overwrite=force)
    options, extra = key_values("dataset_option", dataset_option), key_values("parameter", parameter)
    for name in extra.keys() & parameters.keys():
        raise ConfigError("is given twice", location=(name,))
    if options and dataset is None:
        raise ConfigError("needs a data set", location=("dataset_option",))

    from idwbench.models.imported import import_prototypes

    named = {"name": dataset, **options} if options else dataset
    model = import_prototypes(
        file, dataset=named, method=method, scaled=scaled, data_dir=data_dir, **parameters, **extra
    )
    model.save(output, overwrite=force)
    _print_model(model, output, json)


def _print_model(model: SavedModel, output: Path, as_json: bool) -> None:
    metrics = {(split, name): value for split, found in model.metrics.items() for name, value in found.items()}
    if as_json:
        named = {f"{split}_{name}": value for (split, name), value in metrics.items()}
        facts = {"prototypes": len(model.network.keys), "features": model.n_features, "outputs": model.n_outputs}
        echo_json({**facts, "classes": list(model.class_names), **named, "model": str(output)})
        return
    print_metrics(metrics)
    echo(f"model {output}")
