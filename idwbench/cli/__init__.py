"""The command line: one file per command."""

from __future__ import annotations

import gc
import os

__all__ = ["main"]


def main() -> None:
    """Run the command line without garbage collection and plugins of pydantic, which slow down the start."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()

    from idwbench.cli.app import run

    run()
