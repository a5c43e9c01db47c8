"""The status of a sweep in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from idwbench.results.records import SweepStatus

__all__ = ["status_line"]


def status_line(name: str, status: SweepStatus) -> str:
    """Return ``two_moons: 178 of 180 runs complete, 2 failed (--retry failed trains them again)``."""
    hints = {"failed": " (--retry failed trains them again)", "stale": " (their process is gone)"}
    parts = [f"{status.complete} of {status.total} runs complete"]
    for word in ("running", "stale", "diverged", "failed"):
        n = getattr(status, word)
        if n:
            parts.append(f"{n} {word}{hints.get(word, '')}")
    return f"{name}: {', '.join(parts)}"
