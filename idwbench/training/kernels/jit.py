"""Compilation of kernels, and the cache of machine code."""

import contextlib
import hashlib
import logging
import time
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import platformdirs
from numba.core.event import Listener, install_listener

from idwbench.errors import TrainingError
from idwbench.files import read_file, writable_folder

__all__ = [
    "EntryKernel",
    "cache_folder",
    "entry_kernel",
    "exact_kernel",
    "inlined_kernel",
    "kernel",
    "with_repaired_cache",
]

Function = TypeVar("Function", bound=Callable[..., Any])

# Without "nnan" and "ninf", so that divergence is detected.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp", "afn"}
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# Python prints its warnings on stderr where no handler is set up; unlike those of `warnings` they are never errors.
_log = logging.getLogger("idwbench")
_config = cast(Any, numba.config)
_njit = cast(Any, numba.njit)


@cache
def cache_folder() -> Path | None:
    """Return the folder for machine code of these sources, created if needed; None if it cannot be written.

    Its name has a checksum of all source files, since Numba checks only the file of the entry kernel. The parent folder
    is ``NUMBA_CACHE_DIR``, or the user's cache folder.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(read_file(source, TrainingError))
    base = Path(_config.CACHE_DIR or platformdirs.user_cache_dir("idwbench"))
    folder = base / f"kernels-{digest.hexdigest()[:16]}"
    return folder if writable_folder(folder) else None


class _Notice(Listener):
    """Logs that an entry kernel is compiled, and when it is; the kernels that it calls are compiled within.

    Numba tells it only where there is no code in the cache, for these files in their place and this processor.
    """

    def __init__(self) -> None:
        self._depth, self._started = 0, time.monotonic()

    def on_start(self, event: object) -> None:
        """Log the beginning of the first compilation."""
        if not self._depth:
            self._started = time.monotonic()
            often = "once for this installation" if cache_folder() else "in each process, as no cache can be written"
            _log.warning("compiling kernels, %s: about half a minute of one core", often)
        self._depth += 1

    def on_end(self, event: object) -> None:
        """Log the end of the first compilation."""
        self._depth -= 1
        if not self._depth:
            _log.warning("compiled in %.0f s", time.monotonic() - self._started)


def with_repaired_cache(first_call: Callable[[], None]) -> None:
    """Make the first call of an entry kernel; if the cache is damaged or cannot be saved, empty it and retry.

    What is compiled is logged.
    """
    with install_listener("numba:compile", _Notice()):
        for _ in range(2):
            try:
                return first_call()
            except Exception:  # a damaged file can raise any exception; a lasting error is raised by the last call
                folder = cache_folder()
                for file in folder.glob("*/*.nb?") if folder is not None else ():
                    with contextlib.suppress(OSError):
                        file.unlink()
        first_call()


class EntryKernel:
    """A function that Python calls: compiled at its first call, with the machine code in the cache.

    So that an import neither reads nor creates the cache.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def compiled(self) -> Any:
        """Numba's dispatcher."""
        folder, before = cache_folder(), _config.CACHE_DIR
        try:
            if folder is not None:
                _config.CACHE_DIR = str(folder)
            return _njit(cache=folder is not None, fastmath=FAST_MATH, **OPTIONS)(self._function)
        finally:
            _config.CACHE_DIR = before

    def __call__(self, *arguments: Any) -> Any:
        """Call the machine code."""
        return self.compiled(*arguments)


def entry_kernel(function: Function) -> Function:
    """Return the `EntryKernel` of a function."""
    return cast(Function, EntryKernel(function))


def kernel(function: Function) -> Function:
    """Compile a function that only kernels call, without the wrapper for Python."""
    return cast(Function, _njit(fastmath=FAST_MATH, **INNER, **OPTIONS)(function))


def exact_kernel(function: Function) -> Function:
    """Compile as `kernel`, without reordering and approximate division; products and sums may be fused."""
    return cast(Function, _njit(fastmath={"contract"}, **INNER, **OPTIONS)(function))


def inlined_kernel(function: Function) -> Function:
    """Compile as `kernel` and inline, so that the kernels it calls are compiled only once."""
    return cast(Function, _njit(fastmath=FAST_MATH, inline="always", **INNER, **OPTIONS)(function))
