"""Prints the oldest supported version of each direct dependency, from the lower bounds of pyproject.toml.

PyTorch and torchvision stay at the versions of constraints.txt: older ones have other wheels on each platform. The
programs that check and build (ruff, mypy, Sphinx, …) are not needed to run the tests, and are left out.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINNED = ("torch", "torchvision")
TOOLS = {"build", "import-linter", "mypy", "ruff"}


def extra(name):
    """Return the requirements of an extra, with those of the extras that it names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = []
    for line in project["optional-dependencies"][name]:
        others = re.fullmatch(rf"{project['name']}\[(.*)\]", line)
        lines += [one for other in others[1].split(",") for one in extra(other)] if others else [line]
    return lines


def requirements():
    """Return lines such as ``numpy==2.0``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE))
    lines = []
    for line in [*project["dependencies"], *extra("dev")]:
        name, _, version = line.partition(">=")
        bare = name.partition("[")[0]
        if bare not in TOOLS and line not in extra("docs") and not bare.startswith("types-"):
            lines.append(f"{name}=={pins[bare] if bare in PINNED else version}")
    return lines


if __name__ == "__main__":
    print("\n".join(requirements()))
