"""What pyproject.toml, constraints.txt, CITATION.cff and CHANGES.md say of the package."""

import re
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from oldest import PINNED, extra, requirements
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

import idwbench

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def needed():
    """The packages that the project asks for, and what they ask for in turn, as far as it is installed."""
    queue, packages = [*PROJECT["dependencies"], *extra("dev")], set[str]()
    while queue:
        package = canonicalize_name(Requirement(queue.pop()).name)
        if package in packages or package.startswith(("nvidia", "cuda", "triton")):
            continue
        with suppress(PackageNotFoundError):  # for another platform
            queue += [line for line in requires(package) or [] if "extra ==" not in line]
            packages.add(package)
    return packages


def test_every_package_that_the_project_needs_is_pinned_as_installed():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    pinned = {canonicalize_name(name): pin for name, _, pin in (line.partition("==") for line in lines)}
    packages = needed()
    assert {"torch", "numpy", "pytest", "mako"} <= packages
    assert (pinned["torch"], pinned["torchvision"]) == ("2.13.0", "0.28.0")  # they belong together
    assert {key: pinned.get(key) for key in packages} == {key: version(key).partition("+")[0] for key in packages}


def test_the_development_environment_has_all_extras_and_the_oldest_one_the_lower_bound_of_each_dependency():
    extras = {name: set(extra(name)) for name in PROJECT["optional-dependencies"]}
    assert {"cluster", "docs", "postgres", "search"} <= set(extras)
    for name, requirements_of_extra in extras.items():
        assert requirements_of_extra <= extras["dev"], name
        assert name in ("docs", "dev") or requirements_of_extra <= extras["all"], name
    lines = [Requirement(line) for line in [*PROJECT["dependencies"], *extra("dev")]]
    bounds = {line.name: [(one.operator, one.version) for one in line.specifier] for line in lines}
    assert all(len(bound) == 1 and bound[0][0] == ">=" for bound in bounds.values())
    oldest = {line.name: str(line.specifier) for line in map(Requirement, requirements())}
    assert {"numpy", "pandas", "scikit-learn", "sqlalchemy", "typer", "numba", "pytest"} <= set(oldest)
    for name, pin in oldest.items():
        assert name in PINNED or pin == f"=={bounds[name][0][1]}"


def test_the_citation_names_this_version_and_the_paper():
    citation = YAML(typ="safe", pure=True).load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)  # what the format requires
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    assert citation["version"] == PROJECT["version"] == idwbench.__version__
    assert citation["license"] == PROJECT["license"] == "MIT"
    [paper] = citation["references"]
    assert {"type", "title", "authors"} <= set(paper)
    assert paper["url"] == "https://arxiv.org/abs/2310.18805"
    assert {"type": "other", "value": "arXiv:2310.18805"} in paper["identifiers"]


def test_the_licence_the_changes_and_the_python_versions_are_those_of_this_version():
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    changes = (ROOT / "CHANGES.md").read_text(encoding="utf-8")
    assert re.search(rf"^## .*\b{re.escape(idwbench.__version__)}\b", changes, flags=re.MULTILINE)
    named = {text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)}
    assert min(named, key=lambda version: int(version[2:])) == PROJECT["requires-python"].removeprefix(">=") == "3.11"
