"""The command line: one file per command."""

from __future__ import annotations

import gc
import os

__all__ = ["main"]


def main() -> None:
    """Run the command line without garbage collection and plugins of pydantic, which take time."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()
    try:
        from idwbench.cli.app import run

        run()
    except KeyboardInterrupt:  # while a command is imported; the commands print what was done
        os.write(2, b"interrupted\n")
        raise SystemExit(130) from None
    finally:
        gc.freeze()  # at exit the interpreter searches for garbage in spite of `disable`
