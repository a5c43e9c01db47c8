"""The `idwbench` command: its commands joined, and what may go wrong outside of them.

Exit codes: 0 done; 1 it failed (a run, the data, the database); 2 wrong input (an option, a sweep file, a model file,
an impossible patch); 130 interrupted.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

import idwbench
from idwbench.cli.errors import OneLineCommand
from idwbench.cli.patch import patch
from idwbench.cli.report import report
from idwbench.cli.sweep import sweep
from idwbench.cli.train import train

__all__ = ["app", "run"]


class OneLineErrors(TyperGroup):
    """A group of commands whose usage errors are one line on stderr."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except TyperException as error:
            if message := " ".join(error.format_message().split()):
                typer.echo(f"idwbench: {message}", err=True)
            code = error.exit_code
        except typer.Abort:
            code = 130
        except BrokenPipeError:
            # The reader of our output has gone (`idwbench report | head`), which is no error.
            _discard_stdout()
            code = 1
        except OSError as error:
            # A full disk, a folder without permission: the system's message, with the file's name if there is one.
            where = f"{error.filename}: " if error.filename else ""
            typer.echo(f"idwbench: {where}{error.strerror or error}", err=True)
            _discard_stdout()
            code = 1
        sys.exit(code if isinstance(code, int) else 0)


def _discard_stdout() -> None:
    """Drop what is still buffered, so that the interpreter does not fail to write it at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="idwbench",
    cls=OneLineErrors,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"idwbench {idwbench.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train, sweep, report and patch prototype attention: small classifiers that can be read and repaired."""


for command in (train, sweep, report, patch):
    app.command(cls=OneLineCommand)(command)


def run() -> None:
    """Run the command line with any streams and locale."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `idwbench … >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            # ε and ± where the locale has none: a question mark beats a traceback.
            stream.reconfigure(errors="replace")
    app()
