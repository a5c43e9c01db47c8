"""What this machine has: memory, of which too much is refused before it is allocated, and packages of the extras."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

from idwbench.errors import IdwbenchError, Location, OutputError, first_line

__all__ = ["allocation_problem", "check_memory", "free_memory", "readable_bytes", "require_package"]

# Less is not compared with the free memory, which takes time to find out.
_SMALL = 2**30
# Limits of containers, in the two versions of Linux's control groups.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def check_memory(needed: int, what: str, failure: type[IdwbenchError], location: Location = ()) -> None:
    """Check that this machine has so many free bytes of memory.

    Args:
        needed: A lower bound of the bytes.
        what: What needs them, for the message.
        failure: Class of the error.
        location: Location of the error.

    Raises:
        IdwbenchError: of class `failure`, if it has not.
    """
    if needed < _SMALL:
        return
    free = free_memory()
    if needed > free:
        problem = f"{what} needs {readable_bytes(needed)} of memory, and {readable_bytes(free)} are free"
        raise failure(problem, location=location)


# What torch and NumPy say of an allocation that is not possible, in errors of several classes.
_ALLOCATION = re.compile(
    r"can't allocate|out of memory|[Ss]torage size calculation overflowed|array is too big|maximum possible size"
)


def allocation_problem(error: BaseException) -> str | None:
    """Return in one line that an error is due to memory which could not be allocated; None for other errors."""
    words = first_line(error)
    if not isinstance(error, MemoryError) and _ALLOCATION.search(words) is None:
        return None
    return f"out of memory ({words})" if words else "out of memory"


def free_memory() -> int:
    """Return the bytes that this process can still allocate: free memory and swap, within the limits of a container."""
    import psutil

    free: int = psutil.virtual_memory().available + psutil.swap_memory().free
    return min([free, *_limits()])


def _limits() -> list[int]:
    limits = []
    for path in map(Path, _LIMITS):
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no such file, or the word "max"
            continue
    if sys.platform != "win32":
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        limits += [limit] if limit != resource.RLIM_INFINITY else []
    return limits


def readable_bytes(number: int) -> str:
    """Return a number of bytes as text, such as ``6.2 GB``."""
    if number > 10**15:
        return "more than 1,000 TB"
    for power, unit in ((12, "TB"), (9, "GB"), (6, "MB")):
        if number >= 10**power:
            return f"{number / 10**power:,.1f} {unit}"
    return f"{max(1, round(number / 1000))} kB"


def require_package(package: str, extra: str) -> None:
    """Raise `OutputError` unless a package of an extra is installed."""
    if find_spec(package) is None:
        raise OutputError(f"needs the Python package '{package}'", hint=f"pip install 'idwbench[{extra}]'")
