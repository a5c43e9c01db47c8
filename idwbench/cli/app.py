"""The `idwbench` command: its commands joined, and the one place where an error becomes a line and an exit code.

Exit codes: 0 done; 1 it failed (a run, the data, the database); 2 what was typed is wrong (an option, a sweep file,
a model file, an impossible patch); 130 interrupted.
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
from idwbench.cli.patch import patch
from idwbench.cli.report import report
from idwbench.cli.sweep import sweep
from idwbench.cli.train import train
from idwbench.errors import IdwbenchError, SpecError

__all__ = ["app", "main"]


class OneLineErrors(TyperGroup):
    """Tells what a user did wrong in one line on stderr, without a traceback."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; the exit code follows the error's class."""
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
            sys.stdout.flush()
        except SpecError as error:
            _say(str(error))
            code = error.exit_code
        except IdwbenchError as error:
            _say(f"idwbench: {error}")
            code = error.exit_code
        except TyperException as error:
            _say(f"idwbench: {' '.join(error.format_message().split())}")
            code = error.exit_code
        except typer.Abort:
            code = 130
        except BrokenPipeError:
            # The reader of our output has gone (`idwbench report | head`): not an error of ours.
            _discard_stdout()
            code = 1
        except OSError as error:
            # A full disk, a folder that may not be entered: the system's word, with the file's name if it has one.
            _say(f"idwbench: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
            _discard_stdout()
            code = 1
        sys.exit(code if isinstance(code, int) else 0)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _discard_stdout() -> None:
    """Let what is still buffered go nowhere, so that the interpreter does not complain of it at its end."""
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
    app.command()(command)


def main() -> None:
    """Run the command line, whatever streams and locale it is given."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `idwbench … >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            # ε and ± where the locale has none: a question mark beats a traceback.
            stream.reconfigure(errors="replace")
    app()
