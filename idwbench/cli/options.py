"""Options that several commands share; importing them loads nothing but Typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from idwbench.errors import ConfigError

__all__ = [
    "DEFAULT_DATABASE",
    "DataDir",
    "Database",
    "Device",
    "Engine",
    "Force",
    "Jobs",
    "Json",
    "Plugins",
    "key_values",
    "load_plugins",
]

DEFAULT_DATABASE = "results/idwbench.db"

Database = Annotated[
    str,
    typer.Option("--db", envvar="IDWBENCH_DB", help="Results database: a path, or an SQLAlchemy URL."),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder of the image archives; otherwise IDWBENCH_DATA, otherwise the user's cache.",
        show_default=False,
    ),
]
Engine = Annotated[
    Literal["auto", "fused", "torch"],
    typer.Option("--engine", help="auto: fused on the CPU for the methods it knows, torch for the rest."),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "-j",
        "--jobs",
        min=1,
        help="How many threads train, each a run or a stack; otherwise one a core.",
        show_default=False,
    ),
]
Device = Annotated[str, typer.Option("--device", help="Device of the torch engine: cpu, cuda, mps.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to stdout.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="Python file that registers methods; may be given again.", show_default=False),
]


def load_plugins(paths: list[Path] | None) -> None:
    """Register the methods of installed packages, then those of the files given."""
    from idwbench.plugins import load_entry_points, load_plugin

    load_entry_points()
    for path in paths or []:
        load_plugin(path)


def key_values(option: str, pairs: list[str] | None) -> dict[str, Any]:
    """Return ``["noise=0.2"]`` as ``{"noise": 0.2}``; values are read as YAML reads them.

    Raises:
        ConfigError: a pair without ``=``, or one key twice.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    values: dict[str, Any] = {}
    for pair in pairs or []:
        key, sign, text = pair.partition("=")
        if not sign or not key:
            raise ConfigError(f"{option}: expected KEY=VALUE, got '{pair}'")
        if key in values:
            raise ConfigError(f"{option}: '{key}' is given twice")
        try:
            values[key] = YAML(typ="safe", pure=True).load(text)
        except YAMLError:
            raise ConfigError(f"{option} {key}: '{text}' is not a value") from None
    return values
