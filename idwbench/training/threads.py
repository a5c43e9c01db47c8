"""Limits on the number of threads."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from threadpoolctl import threadpool_limits

__all__ = ["SpareCores", "available_cores", "limited_threads", "machine_is_busy"]


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine_is_busy() -> bool:
    """Return whether more threads than cores wanted to run in the last minute; False if the system does not say."""
    try:
        return os.getloadavg()[0] > (os.cpu_count() or 1) + 1
    except (AttributeError, OSError):
        return False


class SpareCores:
    """The cores that no run in work uses: large runs may claim them for some time, unless other programs use them.

    Args:
        free: Number of cores that can be claimed; it is negative while one of them is needed elsewhere.
        is_busy: Whether other programs keep the machine busy.
    """

    def __init__(self, free: int = 0, is_busy: Callable[[], bool] = machine_is_busy) -> None:
        self.free, self.is_busy = free, is_busy
        self._changing = Lock()

    def add(self, cores: int) -> None:
        """Add cores that became free, or take some away."""
        with self._changing:
            self.free += cores

    @contextmanager
    def claimed(self, most: int) -> Iterator[int]:
        """Claim the free cores, at most `most`, and give their number: 0 on a busy machine."""
        is_busy = self.is_busy()
        with self._changing:
            claimed = 0 if is_busy else min(most, max(0, self.free))
            self.free -= claimed
        try:
            yield claimed
        finally:
            self.add(claimed)


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
