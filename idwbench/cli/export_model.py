"""`idwbench export`: a trained model as a file that other programs use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from idwbench.cli.options import DEFAULT_DATABASE, Database, DataDir, Force, Json, ModelOrRun, Plugins, load_plugins
from idwbench.cli.output import echo, echo_json

__all__ = ["export_model"]


def export_model(
    model: ModelOrRun,
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="File to write: .onnx, .py, .skops, .pt or .safetensors.", show_default=False
        ),
    ],
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a trained model as ONNX, as a Python module that needs only NumPy, or as a scikit-learn estimator.

    The ending of the file decides: .onnx, .py or .skops. All take inputs in the data's own units and hold the model
    card. Methods of plugins cannot be exported.
    """
    from idwbench.exports.model import export_model as write_model
    from idwbench.exports.model import model_format

    format = model_format(output)
    load_plugins(plugin)
    write_model(model, output, overwrite=force, results=db, data_dir=data_dir)
    if json:
        echo_json({"output": str(output), "format": format, "bytes": output.stat().st_size})
        return
    from idwbench.machine import readable_bytes

    echo(f"{format}, {readable_bytes(output.stat().st_size)}", err=True)
    echo(str(output))
