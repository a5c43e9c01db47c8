"""Provenance of results: the process, the versions, the commit of this package with its changes, and the processor."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from pathlib import Path
from typing import NotRequired, TypedDict

from idwbench.errors import ResultsError
from idwbench.files import file_sha256, read_file
from idwbench.results.processes import Owner
from idwbench.results.rows import package_versions

__all__ = [
    "Checkout",
    "Provenance",
    "changes_of",
    "checkout_of",
    "collect_provenance",
    "cpu_model",
    "own_changes",
    "own_checkout",
]

_CPU_INFO = Path("/proc/cpuinfo")
_TIMEOUT_SECONDS = 5.0
_PACKAGE = Path(__file__).parents[1]
_MOST_CHARACTERS = 100_000


class Checkout(TypedDict):
    """A commit, and whether the files of the package differ from it; `diff` is the SHA-256 of the differences."""

    commit: str
    dirty: bool
    diff: NotRequired[str]


class Provenance(TypedDict):
    """What produced results, apart from the settings; JSON.

    Attributes:
        host: The computer; with `pid` the process that trained.
        platform: Operating system, processor architecture and C library.
        cpu: Model of the processor.
        versions: Of Python and packages, by name.
        git: The checkout of this package, or None if it was installed.
        changes: The text whose SHA-256 is in `git`, or None; the middle of a long one is left out.
    """

    host: str
    pid: int
    platform: str
    cpu: str
    versions: dict[str, str]
    git: Checkout | None
    changes: str | None


def collect_provenance() -> Provenance:
    """Return the provenance of what this process trains; git is asked once in a process."""
    owner, git = Owner.current(), own_checkout()
    return {
        "host": owner.host,
        "pid": owner.pid,
        "platform": _platform(),
        "cpu": cpu_model(),
        "versions": package_versions(),
        "git": git,
        "changes": own_changes() if git is not None and "diff" in git else None,
    }


@cache
def _platform() -> str:
    return platform.platform()[:200]


@cache
def own_checkout() -> Checkout | None:
    """Return the checkout of this package, or None if it was installed."""
    checkout = checkout_of(_PACKAGE)
    if checkout is not None and checkout["dirty"] and (changes := own_changes()) is not None:
        checkout = {**checkout, "diff": hashlib.sha256(changes.encode()).hexdigest()}
    return checkout


@cache
def own_changes() -> str | None:
    """Return the differences between this package and its commit."""
    return changes_of(_PACKAGE)


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


def changes_of(package: Path) -> str | None:
    """Return the output of ``git diff`` for `package`, with the checksums of new files; None if git does not answer."""
    text = _git(package, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "--", ".")
    names = _git(package, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
    if text is None or names is None:
        return None
    new = [f"new file {name} {_checksum(package / name)}\n" for name in names.split("\0") if name]
    return _shortened(text.replace("\0", "") + "".join(new))


def _checksum(file: Path) -> str:
    try:
        return f"sha256 {file_sha256(file, ResultsError)}"
    except ResultsError:
        return "which cannot be read"


def _shortened(text: str) -> str:
    half, left_out = _MOST_CHARACTERS // 2, len(text) - _MOST_CHARACTERS
    if left_out <= 0:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[:half]}\n… {left_out} characters left out; the whole has the SHA-256 {digest} …\n{text[-half:]}"


def _git(folder: Path, *words: str) -> str | None:
    """Return what git prints, or None if it fails or takes too long; other bytes than UTF-8 are replaced."""
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
