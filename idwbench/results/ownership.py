"""Who trains a run, and whether that process still lives."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

__all__ = ["HEARTBEAT_LIMIT", "Owner", "is_stale", "process_is_alive"]

HEARTBEAT_LIMIT = timedelta(minutes=10)
# The system tells a process's start to 10 ms and the boot time to a second.
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
    """Return whether a running run has lost its process.

    On the observer's host the process itself is asked for; of another host only the heartbeat tells.
    """
    if host is None or pid is None or heartbeat_at is None:
        return True
    if host == observer.host and os.name == "posix":
        return not process_is_alive(pid, heartbeat_at)
    return now - heartbeat_at > HEARTBEAT_LIMIT


def process_is_alive(pid: int, seen_at: datetime) -> bool:
    """Return whether the process that had this number at `seen_at` still runs (POSIX only).

    After a restart of the machine the number may belong to another process: on Linux one that started after
    `seen_at` does not count, and neither does a zombie.
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it lives, and is someone else's
    try:
        # The second field, the name in brackets, may hold spaces: read from behind it.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    except (OSError, StopIteration):
        return True
    if fields[0] == "Z":
        return False
    seconds = int(boot.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(seconds, UTC) <= seen_at + _START_TOLERANCE
