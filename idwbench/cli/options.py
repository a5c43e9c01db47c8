"""Options of several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from idwbench.errors import ConfigError
from idwbench.results import DEFAULT_DATABASE

__all__ = [
    "DATA",
    "DEFAULT_DATABASE",
    "MODEL",
    "PROTOCOL",
    "SELECTION",
    "STORAGE",
    "TRAINING",
    "DataDir",
    "Database",
    "Device",
    "Engine",
    "Force",
    "Jobs",
    "Json",
    "Measure",
    "Methods",
    "ModelOrRun",
    "Parameters",
    "Plugins",
    "Prototypes",
    "Query",
    "TableFormat",
    "TableOutput",
    "check_format",
    "key_values",
    "load_plugins",
    "refuse",
]


# The panels of a command's help, in this order; options without one come first.
DATA, MODEL, PROTOCOL, SELECTION = "Data", "Model", "Protocol", "Selection of runs"
TRAINING, STORAGE = "Training", "Storage"

Database = Annotated[
    str,
    typer.Option(
        "--db",
        envvar="IDWBENCH_DB",
        help="Results database: a path, or an SQLAlchemy URL.",
        rich_help_panel=STORAGE,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder of the image archives; IDWBENCH_DATA or the user's cache folder if not given.",
        show_default=False,
        rich_help_panel=STORAGE,
    ),
]
Engine = Annotated[
    Literal["auto", "fused", "torch"],
    typer.Option(
        "--engine",
        help="auto: fused on the CPU for the methods it supports, torch for others.",
        rich_help_panel=TRAINING,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "-j",
        "--jobs",
        min=1,
        help="Number of threads that train; one for each core if not given.",
        show_default=False,
        rich_help_panel=TRAINING,
    ),
]
Device = Annotated[
    str, typer.Option("--device", help="Device of the torch engine: cpu, cuda, mps.", rich_help_panel=TRAINING)
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.", rich_help_panel=STORAGE)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")]
ModelOrRun = Annotated[
    str, typer.Argument(help="A model file (.pt or .safetensors), or the key of a stored run or its beginning.")
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        help="Python file that registers methods; may be repeated.",
        show_default=False,
        rich_help_panel=STORAGE,
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", help="Only this method; may be repeated.", rich_help_panel=SELECTION),
]
Prototypes = Annotated[
    list[int] | None,
    typer.Option("--prototypes", help="Only this number of prototypes; may be repeated.", rich_help_panel=SELECTION),
]
Measure = Annotated[
    bool,
    typer.Option(
        "--measure",
        help="First store the quality of prototypes of selected runs that lack it.",
        rich_help_panel=STORAGE,
    ),
]
TableOutput = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="File to write: .csv, .md, .tex, .json or .txt.", show_default=False),
]
TableFormat = Annotated[
    Literal["rich", "markdown", "latex", "csv", "json"] | None,
    typer.Option("--format", help="Format of the table (default: that of the file -o, or rich).", show_default=False),
]

Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--parameter", help="A parameter of a plugin's method, KEY=VALUE; may be repeated.", rich_help_panel=MODEL
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        "--x",
        help="Input in the data's own units: numbers (0.0,1.0), an .npy or image file, or DATASET:SPLIT:INDEX "
        "(mnist:test:17).",
        show_default=False,
        rich_help_panel=DATA,
    ),
]


def load_plugins(paths: list[Path] | None) -> None:
    """Register the methods of the given files, and later, if a method is unknown, those of installed packages."""
    from idwbench.attention.scores import find_unknown_methods
    from idwbench.plugins import load_entry_points, load_plugin

    find_unknown_methods(load_entry_points)
    for path in paths or ():
        load_plugin(path)


def refuse(problem: str, **options: object) -> None:
    """Refuse options that would be ignored: the first that is given."""
    for name, value in options.items():
        if value not in (None, False, []):
            raise ConfigError(problem, location=(name,))


def key_values(option: str, pairs: list[str] | None) -> dict[str, Any]:
    """Return ``["noise=0.2"]`` as ``{"noise": 0.2}``; values are parsed as YAML.

    Raises:
        ConfigError: a pair without ``=``, a duplicate key, or a value that is not YAML; `location` is `option`.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    values: dict[str, Any] = {}
    for pair in pairs or []:
        key, sign, text = pair.partition("=")
        if not sign or not key:
            raise ConfigError(f"expected KEY=VALUE, got '{pair}'", location=(option,))
        if key in values:
            raise ConfigError(f"'{key}' is given twice", location=(option,))
        try:
            values[key] = YAML(typ="safe", pure=True).load(text)
        except YAMLError:
            raise ConfigError(f"'{key}={text}' has no value that can be read", location=(option,)) from None
    return values


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

    from idwbench.report.render import TABLE_SUFFIXES, format_of

    if given is None:
        return format_of(output)
    if TABLE_SUFFIXES.get(output.suffix.lower(), given) != given:
        suffix = next(suffix for suffix, kind in TABLE_SUFFIXES.items() if kind == given)
        problem = f"{output.suffix} is not the suffix of the format {given}"
        raise ConfigError(problem, location=("output",), hint=f"expected {suffix}")
    return given
