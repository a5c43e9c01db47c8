"""Compilation of kernels, and the cache of machine code."""

import contextlib
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import platformdirs

from idwbench.errors import TrainingError
from idwbench.files import read_file, writable_folder

__all__ = [
    "cache_folder",
    "cache_holds_code",
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

_config = cast(Any, numba.config)
_njit = cast(Any, numba.njit)


def cache_folder(root: str | None = None) -> Path | None:
    """Return the folder for machine code of these sources, created if needed; None if it cannot be written.

    Its name has a checksum of all source files, since Numba checks only the file of the entry kernel. The parent folder
    is `root`, or ``NUMBA_CACHE_DIR``, or the user's cache folder.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(read_file(source, TrainingError))
    base = Path(root or _config.CACHE_DIR or platformdirs.user_cache_dir("idwbench"))
    folder = base / f"kernels-{digest.hexdigest()[:16]}"
    return folder if writable_folder(folder) else None


CACHE_FOLDER = cache_folder()


def cache_holds_code() -> bool:
    """Return whether machine code of these sources is in the cache."""
    if getattr(numba.config, "DISABLE_JIT", False):
        return True
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    return CACHE_FOLDER is not None and any(CACHE_FOLDER.glob(f"*/*.{version}.nbi"))


def with_repaired_cache(first_call: Callable[[], None]) -> None:
    """Make the first call of an entry kernel; if the cache is damaged or cannot be saved, empty it and retry."""
    for _ in range(2):
        try:
            return first_call()
        except Exception:  # a damaged file can raise any exception; a lasting error is raised by the last call
            for file in CACHE_FOLDER.glob("*/*.nb?") if CACHE_FOLDER is not None else ():
                with contextlib.suppress(OSError):
                    file.unlink()
    first_call()


def entry_kernel(function: Function) -> Function:
    """Compile a function that Python calls, at its first call, and cache the machine code."""
    before = _config.CACHE_DIR
    try:
        if CACHE_FOLDER is not None:
            _config.CACHE_DIR = str(CACHE_FOLDER)
        compiled = _njit(cache=CACHE_FOLDER is not None, fastmath=FAST_MATH, **OPTIONS)(function)
    finally:
        _config.CACHE_DIR = before
    return cast(Function, compiled)


def kernel(function: Function) -> Function:
    """Compile a function that only kernels call, without the wrapper for Python."""
    return cast(Function, _njit(fastmath=FAST_MATH, **INNER, **OPTIONS)(function))


def exact_kernel(function: Function) -> Function:
    """Compile as `kernel`, without reordering and approximate division; products and sums may be fused."""
    return cast(Function, _njit(fastmath={"contract"}, **INNER, **OPTIONS)(function))


def inlined_kernel(function: Function) -> Function:
    """Compile as `kernel` and inline, so that the kernels it calls are compiled only once."""
    return cast(Function, _njit(fastmath=FAST_MATH, inline="always", **INNER, **OPTIONS)(function))
