from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


def pins() -> dict[str, str]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    return {name(key): pinned for key, _, pinned in (line.partition("==") for line in lines)}


def name(text: str) -> str:
    found = REQUIREMENT.match(text)
    assert found is not None, text
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def needed() -> set[str]:
    """The packages that the project asks for, and what they ask for in turn, as far as it is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    queue = [name(line) for line in [*project["dependencies"], *project["optional-dependencies"]["dev"]]]
    found: set[str] = set()
    while queue:
        package = queue.pop()
        if package in found or package.startswith(("nvidia", "cuda", "triton")):
            continue
        try:
            wanted = requires(package) or []
        except PackageNotFoundError:  # for another platform
            continue
        found.add(package)
        queue += [name(line) for line in wanted if "extra ==" not in line]
    return found


def test_every_package_that_the_project_needs_is_pinned_as_installed():
    pinned, packages = pins(), needed()
    assert {"torch", "numpy", "pytest", "mako"} <= packages
    assert {key: pinned.get(key) for key in packages} == {key: version(key).partition("+")[0] for key in packages}


def test_torch_and_torchvision_are_the_pair_that_belongs_together():
    assert (pins()["torch"], pins()["torchvision"]) == ("2.13.0", "0.28.0")
