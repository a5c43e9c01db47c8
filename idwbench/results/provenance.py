"""Provenance of results: the process, the versions, the commit of this package with its changes, and the processor."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from functools import cache
from pathlib import Path
from typing import Any

from idwbench import __version__
from idwbench.errors import ResultsError
from idwbench.files import file_sha256
from idwbench.results.leases import this_process

__all__ = ["Provenance", "checkout_of", "collect_provenance", "cpu_model", "package_versions"]

_CPU_INFO = Path("/proc/cpuinfo")
_TIMEOUT_SECONDS = 5.0
_PACKAGE = Path(__file__).parents[1]


# What produced results, apart from the settings, as the columns of a run; JSON.
Provenance = dict[str, Any]


def collect_provenance() -> Provenance:
    """Return the provenance of what this process trains; git is asked once in a process.

    Returns:
        ``host`` and ``pid`` of this process, ``platform`` (operating system, processor architecture and C library),
        ``cpu`` (the model of the processor), ``versions`` of Python and packages by name, and ``git``, the
        `checkout_of` this package, or None if it was installed.
    """
    host, pid = this_process()
    return {
        "host": host,
        "pid": pid,
        "platform": platform.platform()[:200],
        "cpu": cpu_model(),
        "versions": package_versions(),
        "git": checkout_of(),
    }


@cache
def checkout_of(package: Path = _PACKAGE) -> dict[str, str | bool | int] | None:
    """Return the checkout of a package, or None if it is not under version control; new files count as changes.

    Returns:
        ``commit``, its SHA-1, and ``dirty``, whether files of the package differ from it; if so also
        ``changed_files``, how many, and ``diff``, the SHA-256 of their names and contents.
    """
    # A virtual environment may be in the checkout of another project, where the package is not tracked.
    is_tracked = bool(_git(package, "ls-files", "--", "__init__.py"))
    place = _git(package, "rev-parse", "--show-toplevel", "HEAD") if is_tracked else None
    entries = _git(package, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", ".")
    if place is None or entries is None:
        return None
    root, commit = place.splitlines()
    names = (entry[3:] for entry in entries.split("\0") if entry)
    changed = [f"{name} {_content_of(Path(root, name))}" for name in sorted(names)]
    if not changed:
        return {"commit": commit, "dirty": False}
    diff = hashlib.sha256("\n".join(changed).encode()).hexdigest()
    return {"commit": commit, "dirty": True, "changed_files": len(changed), "diff": diff}


def _content_of(file: Path) -> str:
    try:
        return file_sha256(file, ResultsError)
    except ResultsError:
        return "cannot be read"  # or was deleted


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
        text = _CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    named = re.search(r"^model name\s*:[^\S\n]*(\S.*)", text, re.MULTILINE)
    return named[1].strip() if named else platform.processor() or platform.machine()


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on, without importing them."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {"idwbench": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "numba", "scikit-learn"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
