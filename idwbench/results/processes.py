"""Processes that train runs."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

__all__ = ["LEASE_DURATION", "Owner", "is_stale", "process_is_alive"]

LEASE_DURATION = timedelta(minutes=10)
# Start times of processes are computed from the boot time, which is rounded to seconds.
_START_TOLERANCE = timedelta(seconds=5)


@dataclass(frozen=True)
class Owner:
    """A process on a host."""

    host: str
    pid: int

    @classmethod
    def current(cls) -> Owner:
        """Return this process."""
        return cls(socket.gethostname(), os.getpid())


def is_stale(
    host: str | None, pid: int | None, heartbeat_at: datetime | None, *, observer: Owner, now: datetime
) -> bool:
    """Return whether the process of a running run has ended or, on another host, its lease was not renewed in time."""
    if host is None or not isinstance(pid, int) or heartbeat_at is None:  # SQLite may hold a damaged number
        return True
    if host == observer.host:
        return not process_is_alive(pid, heartbeat_at)
    return now - heartbeat_at > LEASE_DURATION


def process_is_alive(pid: int, seen_at: datetime) -> bool:
    """Return whether the process with this ID at `seen_at` is still running; a zombie is not."""
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return datetime.fromtimestamp(process.create_time(), UTC) <= seen_at + _START_TOLERANCE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True  # the process of another user
