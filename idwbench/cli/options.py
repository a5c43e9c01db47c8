"""What commands take: one table of options and arguments by the name of their parameter.

A command is a function with plain types and defaults. What a single command has, or declares otherwise, is in a table
`OPTIONS` of its module; options of the settings of a training follow from the declarations of these.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import idwbench
from idwbench.errors import ConfigError, IdwbenchError
from idwbench.results import DEFAULT_DATABASE

__all__ = [
    "DATASET_SETTINGS",
    "OPTIONS",
    "EngineName",
    "TableFormat",
    "argument",
    "check_format",
    "complete_table",
    "data_option",
    "dataset_names",
    "declared",
    "key_values",
    "model_option",
    "number",
    "option",
    "refuse",
    "selection_option",
    "storage_option",
    "training_option",
]

# Settings of data sets with an option of their own; the others are given as KEY=VALUE.
DATASET_SETTINGS = ("validation", "task", "label", "drop")

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
    "data_dir": storage_option(
        help="Folder of the image archives; IDWBENCH_DATA or the user's cache folder if not given."
    ),
    "plugin": storage_option(help="Python file that registers methods; may be repeated.", envvar="IDWBENCH_PLUGIN"),
    "force": storage_option("--force", help="Replace files that exist."),
}


_GIVEN_BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD
_PLUGINS = Annotated[list[Path] | None, OPTIONS["plugin"]]


def declared(command: Callable[..., None], name: str, own: Mapping[str, Any]) -> Callable[..., None]:
    """Return a command as Typer reads it, with the declarations in `own` and `OPTIONS` in its annotations.

    In `own`, ``name.parameter`` goes before ``parameter``, if a module has several commands.
    A command that reads data also takes plugins, whose methods are registered before it is called.
    ``**parameters`` in its signature stands for an option of each parameter of the methods, and ``**settings`` for one
    of each setting of a training. The command receives those that are given.
    """
    signature, known = inspect.signature(command, eval_str=True), {**OPTIONS, **own}
    parameters: list[inspect.Parameter] = []
    generated: set[str] = set()
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            options = [*_parameters(), *(_settings() if parameter.name == "settings" else ())]
            parameters += options
            generated = {one.name for one in options}
            continue
        if declaration := known.get(f"{name}.{parameter.name}", known.get(parameter.name)):
            parameter = parameter.replace(annotation=Annotated[parameter.annotation, declaration])
        parameters.append(parameter)  # without a declaration it is Typer's own, such as the context
        if parameter.name == "data_dir":
            parameters.append(inspect.Parameter("plugin", _GIVEN_BY_NAME, default=None, annotation=_PLUGINS))

    def run(**arguments: Any) -> None:
        if "data_dir" in arguments:
            from idwbench.attention.scores import FINDERS
            from idwbench.plugins import load_entry_points, load_plugin, load_project_plugins

            FINDERS.extend((load_entry_points, load_project_plugins))  # if a method is unknown
            for path in arguments.pop("plugin") or ():
                load_plugin(path)
        command(**{name: value for name, value in arguments.items() if value is not None or name not in generated})

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    # Help would keep the line ends of a docstring.
    paragraphs = (command.__doc__ or "").split("\n\n")
    run.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return run


def _parameter(name: str, kind: Any, declaration: Any) -> inspect.Parameter:
    return inspect.Parameter(name, _GIVEN_BY_NAME, default=None, annotation=Annotated[kind | None, declaration])


def _parameters() -> Iterator[inspect.Parameter]:
    """Yield an option for each parameter of the methods and of the weightings."""
    from idwbench.attention.scores import METHODS
    from idwbench.attention.weightings import WEIGHTINGS

    records = [*METHODS.values(), *WEIGHTINGS.values()]
    for name, parameter in {one.name: one for record in records for one in record.parameters}.items():
        *others, last = (record.name for record in records if record.takes(name))
        text = f"{parameter.help} For {', '.join(others)}{' and ' if others else ''}{last}."
        yield _parameter(name, str if parameter.choices else float, model_option(help=text))


def _settings() -> Iterator[inspect.Parameter]:
    """Yield an option for each setting of a training."""
    from idwbench.runs.datasets import CsvConfig
    from idwbench.runs.kinds.prototypes import PrototypesConfig
    from idwbench.runs.protocol import Protocol

    places: tuple[tuple[Any, Iterable[str], str], ...] = (
        (PrototypesConfig, ["initialisation", "key_bounds", "weighting", "slope_rank"], "Model"),
        (Protocol, Protocol.model_fields, "Protocol"),
        (CsvConfig, DATASET_SETTINGS, "Data"),
    )
    for settings, names, panel in places:
        properties = settings.model_json_schema()["properties"]
        for name in names:
            field = properties[name]
            kinds = {one["type"] for one in field.get("anyOf", [field])}
            kind: Any = float if "number" in kinds else int if "integer" in kinds else str
            kind = list[str] if "array" in kinds else kind
            parser = number if {"integer", "number"} <= kinds else None
            yield _parameter(name, kind, option(help=field["description"], rich_help_panel=panel, parser=parser))


def number(text: str) -> int | float:
    """Return a whole number as it is and any other as a float: 1 is one row, 1.0 is no fraction below 1."""
    return int(text) if text.strip().isdigit() else float(text)


def refuse(problem: str, **options: object) -> None:
    """Refuse options that would be ignored: the first that is given."""
    for name, value in options.items():
        if value not in (None, False, []):
            raise ConfigError(problem, location=(name,))


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


def check_format(given: str | None, output: Path | None, as_json: bool) -> str:
    """Return the format of a table: the one given, else that of the file, else that of the terminal.

    Raises:
        ConfigError: JSON on stdout is asked for beside another format or a file, or the suffix of the file contradicts
            the format or stands for none.
    """
    if as_json and given not in (None, "json"):
        raise ConfigError(f"--format is '{given}'", location=("json",))
    if output is None:
        return "json" if as_json else given or "rich"
    if as_json:
        raise ConfigError("prints to stdout", location=("json",), hint="--format json writes it to the file")

    from idwbench.report.render import format_of

    return format_of(output, given)
