"""The `idwbench` application and its errors.

Exit codes: 0 success; 1 failure (of a run, the data, the database); 2 invalid input (an option, a sweep file, a model
file, an impossible patch); 3 runs that other processes have not ended; 129, 130 or 143 by SIGHUP, Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.exceptions import TyperException

import idwbench
from idwbench.cli.errors import OneLineCommand, OneLineGroup, usage_line
from idwbench.cli.options import declared
from idwbench.cli.output import echo

__all__ = ["COMMANDS", "RUNS", "app", "run"]

# The function of each command as MODULE.FUNCTION of this package, whose module is imported when it is used; of `runs`,
# a group, its help.
COMMANDS = {
    **{name: f"{name}.{name}" for name in ("train", "sweep", "report", "figure")},
    "runs": "List, show, watch, compare, tag, remove, export and repeat the runs of a results database.",
    **{name: f"{name}.{name}" for name in ("explain", "patch")},
    **{"card": "models.card", "export": "models.export_model", "import": "models.import_model"},
    **{name: f"publish.{name}" for name in ("claims", "page", "publish")},
}
RUNS = {
    **{name: f"runs_{name}.runs_{name}" for name in ("list", "show", "watch", "diff")},
    **{name: f"runs.runs_{name}" for name in ("tag", "note", "rm", "export")},
    "replay": "runs_diff.runs_replay",
}


@cache
def _command(name: str, place: str) -> Any:
    if name == "runs":
        return OneLineGroup(RUNS, lambda one: _command(one, RUNS[one]), name=name, help=place, no_args_is_help=True)
    module_name, _, function = place.partition(".")
    module = import_module(f"idwbench.cli.{module_name}")
    made = typer.Typer(add_completion=False)
    made.command(name, cls=OneLineCommand)(declared(getattr(module, function), name, getattr(module, "OPTIONS", {})))
    return typer.main.get_command(made)


class OneLineErrors(OneLineGroup):
    """The group of all commands, whose usage errors are one line on stderr."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(COMMANDS, lambda name: _command(name, COMMANDS[name]), **attributes)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line."""
        problem = ""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except TyperException as error:
            context, code = getattr(error, "ctx", None), error.exit_code
            commands = getattr(context.command, "commands", ()) if context is not None else ()
            problem = usage_line(error.format_message(), commands)
        except typer.Abort:
            code = 130
        except OSError as error:
            code = 1
            if not isinstance(error, BrokenPipeError):  # that of a reader that has closed the pipe: `… | head`
                problem = f"{error.filename}: " if error.filename else ""
                problem += error.strerror or str(error)
            # The interpreter would fail to write what is buffered at exit.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except MemoryError as error:
            code, problem = 1, f"out of memory{f' ({error})' if str(error) else ''}"
        if problem:
            echo(f"idwbench: {problem}", err=True)
        sys.exit(code if isinstance(code, int) else 0)


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
