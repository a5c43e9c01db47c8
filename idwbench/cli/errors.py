"""Errors as one line and an exit code, with settings replaced by their options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from idwbench.cli.output import echo
from idwbench.errors import (
    DatasetError,
    IdwbenchError,
    OutputExistsError,
    SpecError,
    did_you_mean,
    dotted,
    printable,
    shortened,
)

__all__ = ["OneLineCommand", "OneLineGroup", "error_line", "usage_line"]

# Options of `idwbench report` in version 0.1.0 that are commands now.
_COMMANDS = {
    **{f"--{name}": f"publish {name}" for name in ("paper", "family", "dual")},
    **{"--figure": "figure NAME", "--claims": "claims", "--html": "page FILE"},
}


class _PlainFlags:
    """Help of a command or group that names no type of flags."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters."""
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class OneLineGroup(_PlainFlags, TyperGroup):
    """A group of commands that `make` makes from their names when they are used."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Any], **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": dict.fromkeys(names)})
        self.make = make

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None if there is none of this name."""
        return self.make(cmd_name) if cmd_name in self.commands else None


class OneLineCommand(_PlainFlags, TyperCommand):
    """A command whose errors are one line on stderr, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; the exit code follows the error's class."""
        try:
            return super().invoke(ctx)
        except IdwbenchError as error:
            options = {str(p.name): max(p.opts, key=len) for p in self.params if p.param_type_name == "option"}
            echo(error_line(error, options), err=True)
            raise typer.Exit(error.exit_code) from None
        except EOFError as error:  # which Typer would take for the end of a user's input, and so for Ctrl-C
            echo(f"idwbench: a file ends before its content does ({str(error) or 'EOFError'})", err=True)
            raise typer.Exit(1) from None


def error_line(error: IdwbenchError, options: dict[str, str]) -> str:
    """Return the error as one line, with the options of a command in place of settings."""
    if isinstance(error, OutputExistsError) and "force" in options:
        error.hint = "--force replaces it"
    if isinstance(error, SpecError):
        return printable(error.render(dotted(error.location)), kept="")
    return f"idwbench: {printable(error.render(_option(error, options) or dotted(error.location)), kept='')}"


def usage_line(message: str, commands: Iterable[str] = ()) -> str:
    """Return Typer's message on a command line that it cannot parse as one line, with the nearest valid word."""
    line = shortened(printable(" ".join(message.split()).replace("Value error, ", ""), kept=""))
    hint = ""
    if choice := re.search("'([^']*)' is not one of (.*)\\.$", line):  # the line lists the valid words
        hint = did_you_mean(choice[1], re.findall("'([^']*)'", choice[2]))
        hint = hint if hint.startswith("did") else ""
    elif (option := re.match(r"No such option: (--\w+)", line)) and option[1] in _COMMANDS:
        return f"No such option: {option[1]}. It is a command: idwbench {_COMMANDS[option[1]]}"
    elif command := re.search(r"No such command '(.*)'\.$", line):
        hint = did_you_mean(command[1], commands)
    return f"{line} {hint[:1].upper()}{hint[1:]}" if hint else line


def _option(error: IdwbenchError, options: dict[str, str]) -> str:
    location = error.location
    if isinstance(error, DatasetError) and location:  # the location is a setting of the data set
        location = ("dataset", *location)
    first, *rest = location or ("",)
    key = str(rest[-1]) if first in ("dataset", "protocol", "parameters") and rest else str(first)
    if key in options and (first != "dataset" or key in ("validation", "task")):
        return options[key]
    if first == "dataset":
        is_pair = rest and key != "name" and "dataset_option" in options
        return f"{options['dataset_option']} {key}" if is_pair else options.get(first, "")
    if len(location) == 1 and "parameter" in options and key.isidentifier():
        return f"{options['parameter']} {key}"
    return ""
