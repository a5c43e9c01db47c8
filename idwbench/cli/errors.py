"""Errors as one line, with settings replaced by their options."""

from __future__ import annotations

import re
from collections.abc import Iterable

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

__all__ = ["error_line", "usage_line"]

# Options of `idwbench report` in version 0.1.0 that are commands now.
_COMMANDS = {
    **{f"--{name}": f"publish {name}" for name in ("paper", "family", "dual")},
    **{"--figure": "figure NAME", "--claims": "claims", "--html": "page FILE"},
}


def error_line(error: IdwbenchError, options: dict[str, str]) -> str:
    """Return the error as one line, with the options of a command in place of settings."""
    if isinstance(error, OutputExistsError) and "force" in options:
        error.hint = "--force replaces it"
    if "plugin" in options:
        error.hint = error.hint.replace("load the plugin first", "give its file with --plugin")
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
    if key in options and (first != "dataset" or key in ("validation", "task", "label")):
        return options[key]
    if first == "dataset":
        is_pair = rest and key != "name" and "dataset_option" in options
        return f"{options['dataset_option']} {key}" if is_pair else options.get(first, "")
    if len(location) == 1 and "parameter" in options and key.isidentifier():
        return f"{options['parameter']} {key}"
    return ""
