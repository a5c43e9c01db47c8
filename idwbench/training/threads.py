"""Limits on the number of threads."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

__all__ = ["available_cores", "limited_threads"]


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def limited_threads(n: int) -> Iterator[None]:
    """Limit BLAS, OpenMP and torch (if loaded) to `n` threads, and restore their settings at the end.

    With one thread results are bit-identical, since the order of summation does not depend on other runs.
    """
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    with threadpool_limits(limits=n):
        if torch:
            torch.set_num_threads(n)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(before)
