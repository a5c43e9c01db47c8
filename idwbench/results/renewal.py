"""Renewal of leases in a thread."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Protocol

from idwbench.errors import ResultsError

__all__ = ["RENEWAL_SECONDS", "renewed"]

RENEWAL_SECONDS = 30.0


class _Renewable(Protocol):
    def renew(self, run_keys: Sequence[str]) -> None: ...


@contextmanager
def renewed(results: _Renewable, run_keys: Collection[str], *, interval: float = RENEWAL_SECONDS) -> Iterator[None]:
    """Renew the leases of `run_keys` every `interval` seconds in a thread, until the block ends.

    An epoch may take longer than a lease lasts. `run_keys` may change meanwhile. A renewal that fails is retried after
    the next interval.
    """
    stop = Event()

    def renew() -> None:
        while not stop.wait(interval):
            with suppress(ResultsError):
                results.renew(list(run_keys))

    thread = Thread(target=renew, name="idwbench-leases", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
