"""What commands take: one table of options and arguments by the name of their parameter.

A command is a function with plain types and defaults. What a single command has, or declares otherwise, is in a table
`OPTIONS` of its module; options of the settings of a training follow from the declarations of these. What does not
belong together is in a table `REFUSED` of the module, by command.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import typer

import idwbench
from idwbench.errors import ConfigError, IdwbenchError
from idwbench.results import DEFAULT_DATABASE

__all__ = [
    "DATASET_SETTINGS",
    "NOT_WITH",
    "ONLY_WITH",
    "OPTIONS",
    "EngineName",
    "Refused",
    "TableFormat",
    "argument",
    "complete_table",
    "data_option",
    "dataset_names",
    "key_values",
    "model_option",
    "option",
    "selection_option",
    "storage_option",
    "training_option",
]

# Settings of data sets with an option of their own; the others are given as KEY=VALUE.
DATASET_SETTINGS = ("validation", "task", "label", "drop")

# Why options are refused, the options that it depends on, and the refused ones in the order of messages.
Refused = tuple[str, str, str]
ONLY_WITH, NOT_WITH = "only with", "cannot be combined with"

argument, option = typer.Argument, typer.Option
# Those of a panel of a command's help, below the options without one.
data_option = partial(option, rich_help_panel="Data")
model_option = partial(option, rich_help_panel="Model")
selection_option = partial(option, rich_help_panel="Selection of runs")
training_option = partial(option, rich_help_panel="Training")
storage_option = partial(option, rich_help_panel="Storage")

EngineName = Literal["auto", "fused", "torch"]
TableFormat = Literal["rich", "markdown", "latex", "csv", "json"]


def dataset_names() -> list[str]:
    """Return the names of the data sets that are no files of the user, for the completion by a shell."""
    from idwbench.runs.dataset_base import FileConfig
    from idwbench.runs.datasets import DATASETS

    return sorted(name for name, kind in DATASETS.items() if not issubclass(kind, FileConfig))


def complete_table(ctx: typer.Context) -> list[str]:
    """Return the names of the sweeps in the database of the command line, and of data sets, for a shell."""
    try:
        sweeps, _ = idwbench.Results(ctx.params.get("db") or DEFAULT_DATABASE, read_only=True).names()
    except IdwbenchError:
        return []
    return sorted({*sweeps, *dataset_names()})


OPTIONS = {
    "model": argument(help="A model file (.pt or .safetensors), or the key of a stored run or its beginning."),
    "run": argument(help="Key of a run, or its beginning."),
    "runs": argument(help="Keys of runs, or their beginnings."),
    "json": option("--json", help="Print JSON to stdout."),
    "output": option("-o", "--output", help="File to write: .csv, .md, .tex, .json or .txt."),
    "format": option(help="Format of the table (default: the format of the file -o, or rich)."),
    "x": data_option(
        help="Input in the data's own units: numbers (0.0,1.0), columns of a table by name (width=1.5,kind=oak), "
        "an .npy or image file, or DATASET:SPLIT:INDEX (mnist:test:17)."
    ),
    "parameter": model_option(help="A parameter of a plugin's method, KEY=VALUE; may be repeated."),
    "table": option(help="Name of a sweep or data set; all runs if not given.", autocompletion=complete_table),
    "method": selection_option(help="Only this method; may be repeated."),
    "prototypes": selection_option(help="Only this number of prototypes; may be repeated."),
    "where": selection_option(
        help="Only runs for which an expression holds, such as 'prototypes == 16 and test_accuracy > 0.95'.",
        metavar="EXPRESSION",
    ),
    "sweep": selection_option(help="Only the runs of this sweep."),
    "state": selection_option(
        help="planned, running, stale (without its process), retraining, complete, diverged, failed; may be repeated."
    ),
    "engine": training_option(help="auto: fused on the CPU for the methods it supports, torch for others."),
    "device": training_option(help="Device of the torch engine: cpu, cuda, mps."),
    "db": storage_option("--db", help="Results database: a path, or an SQLAlchemy URL.", envvar="IDWBENCH_DB"),
    # What these are is said once, below the commands in the help of the whole.
    "data_dir": storage_option(help="Folder of data, see 'idwbench --help'."),
    "plugin": storage_option(
        help="File of methods, see 'idwbench --help'.", envvar="IDWBENCH_PLUGIN", show_envvar=False
    ),
    "force": storage_option("--force", help="Replace files that exist."),
}


def key_values(name: str, pairs: list[str] | None, beside: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the settings `beside` with ``["noise=0.2"]`` as ``{"noise": 0.2}``; values are parsed as YAML.

    Raises:
        ConfigError: a pair without ``=``, a duplicate key, or a value that is not YAML; `location` is `name`. Or a key
            that is in `beside` too, which is the `location`.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    values: dict[str, Any] = {}
    for pair in pairs or []:
        key, sign, text = pair.partition("=")
        if not sign or not key:
            raise ConfigError(f"expected KEY=VALUE, got '{pair}'", location=(name,))
        if key in values:
            raise ConfigError(f"'{key}' is given twice", location=(name,))
        if key in (beside or {}):
            raise ConfigError("is given twice", location=(key,))
        try:
            values[key] = YAML(typ="safe", pure=True).load(text)
        except YAMLError:
            raise ConfigError(f"'{key}={text}' has no value that can be read", location=(name,)) from None
    return {**(beside or {}), **values}
