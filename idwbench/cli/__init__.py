"""The command line: one file a command; parsing, printing and exit codes, nothing else."""

from __future__ import annotations

import gc
import os

__all__ = ["main"]


def main() -> None:
    """Run the command line, with what makes a short command start a third faster.

    To look for plugins of its own, pydantic reads the metadata of every installed package. And the garbage collector
    scans what is being imported again and again; it starts when training starts.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()

    from idwbench.cli.app import run

    run()
