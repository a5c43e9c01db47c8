"""Limits on the number of threads."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_info, threadpool_limits

__all__ = ["available_cores", "blas_threads", "limited_threads"]


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def blas_threads() -> int:
    """Return the number of threads that matrix products may use now."""
    numbers = [int(library["num_threads"]) for library in threadpool_info() if library["user_api"] == "blas"]
    return max(numbers, default=1)


@contextmanager
def limited_threads(n: int) -> Iterator[None]:
    """Limit BLAS, OpenMP and torch (if loaded) to `n` threads, and restore their settings at the end.

    Results have the same bytes for the same number of threads only, on which the order of summation depends.
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
