import re
import tomllib
from contextlib import suppress
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
    queue, packages = [*project["dependencies"], *project["optional-dependencies"]["dev"]], set[str]()
    while queue:
        package = name(queue.pop())
        if package in packages or package.startswith(("nvidia", "cuda", "triton")):
            continue
        with suppress(PackageNotFoundError):  # for another platform
            queue += [line for line in requires(package) or [] if "extra ==" not in line]
            packages.add(package)
    return packages


def test_every_package_that_the_project_needs_is_pinned_as_installed():
    pinned, packages = pins(), needed()
    assert {"torch", "numpy", "pytest", "mako"} <= packages
    assert (pinned["torch"], pinned["torchvision"]) == ("2.13.0", "0.28.0")  # they belong together
    assert {key: pinned.get(key) for key in packages} == {key: version(key).partition("+")[0] for key in packages}
