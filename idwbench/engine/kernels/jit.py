"""How kernels are compiled, and where the machine code is kept."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import platformdirs

__all__ = ["cache_folder", "exact_kernel", "kernel"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Not `fastmath=True`: without "nnan" and "ninf" a NaN stays a NaN, and divergence is seen.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp", "afn"}


def cache_folder(root: str | None = None) -> Path | None:
    """Return the folder for machine code of exactly these sources, made if need be; None if it cannot be written.

    Numba looks at one source file to see whether its cache is stale, but kernels call each other across files. So
    the folder is named by a checksum of all of them.

    Args:
        root: Where that folder stands; ``NUMBA_CACHE_DIR`` or the user's cache folder if not given.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    base = Path(root or numba.config.CACHE_DIR or platformdirs.user_cache_dir("idwbench"))
    folder = base / f"kernels-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


CACHE_FOLDER = cache_folder()


def _compiled(function: Function, fastmath: set[str]) -> Function:
    before = numba.config.CACHE_DIR
    try:
        if CACHE_FOLDER is not None:
            numba.config.CACHE_DIR = str(CACHE_FOLDER)
        compiled = numba.njit(
            cache=CACHE_FOLDER is not None, nogil=True, error_model="numpy", fastmath=fastmath, boundscheck=False
        )(function)
    finally:
        numba.config.CACHE_DIR = before
    return cast(Function, compiled)


def kernel(function: Function) -> Function:
    """Compile `function` on its first call: no lock held, division as NumPy's, sums in any order."""
    return _compiled(function, FAST_MATH)


def exact_kernel(function: Function) -> Function:
    """The same for code that counts on the order of its operations; a product and a sum may still be one."""
    return _compiled(function, {"contract"})
