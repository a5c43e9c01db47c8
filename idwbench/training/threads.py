"""How many threads one run may use, so that runs side by side do not compete for cores."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

__all__ = ["available_cores", "limited_threads"]


def available_cores() -> int:
    """Return how many cores this process may use, which on a shared machine is fewer than there are."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def limited_threads(n: int) -> Iterator[None]:
    """Let BLAS, OpenMP and torch (if it is loaded) use `n` threads a call, and restore their settings at the end.

    One thread is also what makes a run the same, bit for bit, however many runs train beside it: a sum that is split
    over threads is added in another order.
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
