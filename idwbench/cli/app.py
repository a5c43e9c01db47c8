"""The `idwbench` application and its errors.

Exit codes: 0 success; 1 failure (of a run, the data, the database); 2 invalid input (an option, a sweep file, a model
file, an impossible patch); 3 runs that other processes have not ended; 129, 130 or 143 by SIGHUP, Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperGroup
from typer.exceptions import TyperException

import idwbench
from idwbench.cli.errors import OneLineCommand, usage_line
from idwbench.cli.output import echo

__all__ = ["COMMANDS", "FUNCTIONS", "app", "run"]

# Each is a function in the module of its name, which is imported when the command is used.
COMMANDS = (
    *("train", "sweep", "report", "figure", "runs", "explain", "patch"),
    *("card", "export", "import", "claims", "page", "publish"),
)
# Those whose functions have another name: Python keeps the word import for itself.
FUNCTIONS = {"export": "export_model", "import": "import_model"}


class LazyCommands(Mapping[str, Any]):
    """Commands by name, made when first used; `prefix` begins the names of their modules and functions."""

    def __init__(self, names: Sequence[str], prefix: str = "") -> None:
        self.names, self.prefix = names, prefix

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(name)
        return _command(self.prefix + name, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@cache
def _command(function: str, name: str) -> Any:
    function = FUNCTIONS.get(function, function)
    module = import_module(f"idwbench.cli.{function}")
    made = typer.Typer(add_completion=False)
    if names := getattr(module, "SUBCOMMANDS", None):
        made.callback(no_args_is_help=True)(getattr(module, function))
        group = typer.main.get_group(made)
        group.name = function
        group.commands = LazyCommands(names, f"{function}_")  # type: ignore[assignment]  # it is only read
        return group
    made.command(name, cls=getattr(module, "COMMAND_CLASS", OneLineCommand))(getattr(module, function))
    return typer.main.get_command(made)


class OneLineErrors(TyperGroup):
    """A group of commands whose usage errors are one line on stderr."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": LazyCommands(COMMANDS)})

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except TyperException as error:
            if message := usage_line(error.format_message(), _commands_beside(error)):
                echo(f"idwbench: {message}", err=True)
            code = error.exit_code
        except typer.Abort:
            code = 130
        except BrokenPipeError:
            _discard_stdout()  # the reader has closed the pipe: `idwbench report | head`
            code = 1
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            echo(f"idwbench: {where}{error.strerror or error}", err=True)
            _discard_stdout()
            code = 1
        except MemoryError as error:
            echo(f"idwbench: out of memory{f' ({error})' if str(error) else ''}", err=True)
            code = 1
        sys.exit(code if isinstance(code, int) else 0)


def _commands_beside(error: TyperException) -> Sequence[str]:
    """Return the commands of the group in which an error occurred."""
    context = getattr(error, "ctx", None)
    return [*getattr(context.command, "commands", ())] if context is not None else []


def _discard_stdout() -> None:
    """Discard buffered output, which the interpreter would fail to write at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="idwbench",
    cls=OneLineErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(is_given: bool) -> None:
    if is_given:
        echo(f"idwbench {idwbench.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train, sweep, report, explain and patch prototype attention: small models that can be read and repaired."""


def run() -> None:
    """Run the command line with any streams and locale."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `idwbench … >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # ε and ± may not exist in the locale's encoding
    app()
