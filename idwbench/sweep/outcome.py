"""`Outcome`: what became of the runs that a process was to train."""

import threading
from dataclasses import dataclass, field
from typing import Self

__all__ = ["Outcome"]


@dataclass
class Outcome:
    """Number of runs by outcome; `elsewhere` were leased by another process."""

    complete: int = 0
    diverged: int = 0
    failed: int = 0
    elsewhere: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, state: str, n: int) -> None:
        """Add `n` runs to a state; thread-safe."""
        with self._lock:
            setattr(self, state, getattr(self, state) + n)

    @property
    def ended(self) -> int:
        """Number of runs that were trained, with or without success."""
        return self.complete + self.diverged + self.failed

    def include(self, other: Self) -> None:
        """Add all numbers of another outcome."""
        for state in ("complete", "diverged", "failed", "elsewhere"):
            self.add(state, getattr(other, state))
