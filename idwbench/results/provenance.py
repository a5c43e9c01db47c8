"""Provenance of results: the commit of this package, and the processor."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from typing import TypedDict

from idwbench.errors import ResultsError
from idwbench.files import read_file

__all__ = ["Checkout", "checkout_of", "cpu_model", "own_checkout"]

_CPU_INFO = Path("/proc/cpuinfo")
_TIMEOUT_SECONDS = 5.0


class Checkout(TypedDict):
    """A commit, and whether the files of the package differ from it."""

    commit: str
    dirty: bool


@cache
def own_checkout() -> Checkout | None:
    """Return the checkout of this package, or None if it was installed."""
    return checkout_of(Path(__file__).parents[1])


def checkout_of(package: Path) -> Checkout | None:
    """Return the checkout of `package`, or None if it is not under version control; new files count as changes."""
    # A virtual environment may be in the checkout of another project, where the package is not tracked.
    if not _git(package, "ls-files", "--", "__init__.py"):
        return None
    status = _git(package, "status", "--porcelain=v2", "--branch", "--", ".")
    if status is None:
        return None
    lines = status.splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "(initial)")
    if commit == "(initial)":
        return None
    return {"commit": commit, "dirty": any(not line.startswith("#") for line in lines)}


def _git(folder: Path, *words: str) -> str | None:
    """Return what git prints, or None if it fails or takes too long."""
    import subprocess

    # In a git hook these variables refer to the repository of the hook.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        answer = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.decode("utf-8", "replace")


@cache
def cpu_model() -> str:
    """Return the model of the processor, such as ``AMD EPYC 9R14``, from ``/proc/cpuinfo`` or `platform`."""
    try:
        text = read_file(_CPU_INFO, ResultsError).decode("utf-8", "replace")
    except ResultsError:
        text = ""
    named = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
