"""The command line: one file per command."""

from __future__ import annotations

import gc
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line with any streams and locale, without garbage collection and plugins of pydantic."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()  # it takes time, as do the plugins
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: `idwbench … >&-`
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # ε and ± may not exist in the locale's encoding
    try:
        from idwbench.cli.app import app

        app()
    except KeyboardInterrupt:  # while a command is imported; the commands print what was done
        os.write(2, b"interrupted\n")
        raise SystemExit(130) from None
    finally:
        gc.freeze()  # at exit the interpreter searches for garbage in spite of `disable`
