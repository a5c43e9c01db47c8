"""`docs/cli.md`, written from the command line itself: ``python -m idwbench.cli.reference docs/cli.md``."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import typer.main

from idwbench.cli.app import app

__all__ = ["reference"]

_HEAD = """\
# Command line

<!-- Written by `make docs` from the command line itself; a test fails when it is out of date. -->

`idwbench COMMAND --help` prints the same. Data goes to stdout, progress and warnings to stderr. Exit codes: `0` done;
`1` it failed (a run, the data, the database); `2` what was typed is wrong (an option, a sweep file, a model file, an
impossible patch); `130` interrupted.
"""


def reference() -> str:
    """Return the reference of all commands as Markdown."""
    group: Any = typer.main.get_command(app)
    return "\n".join([_HEAD, *(_section(name, command) for name, command in group.commands.items())])


def _section(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    usage = " ".join(["idwbench", name, *(argument.name.upper() for argument in arguments), "[OPTIONS]"])
    rows = [f"| `{parameter.name.upper()}` | {parameter.help} | |" for parameter in arguments]
    rows += [_row(option) for option in options if option.name != "help"]
    lines = [f"## `idwbench {name}`", "", inspect.cleandoc(command.help or ""), "", "```", usage, "```", ""]
    return "\n".join([*lines, "| option | meaning | default |", "|---|---|---|", *rows, ""])


def _row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    default = option.default
    shown = "required" if option.required else "" if default in (None, False) or callable(default) else f"`{default}`"
    environment = f" Environment: `{option.envvar}`." if option.envvar else ""
    return f"| {names} | {(option.help or '').strip()}{environment} | {shown} |".replace("  ", " ")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
