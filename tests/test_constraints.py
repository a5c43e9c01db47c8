from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
# What `venv` brings, ourselves, and what a CUDA build of torch brings along.
UNPINNED = re.compile(r"pip|wheel|idwbench|nvidia-.*|cuda-.*|triton")


def pins() -> dict[str, str]:
    lines = [line for line in CONSTRAINTS.read_text().splitlines() if line and not line.startswith("#")]
    return {name(key): version for key, _, version in (line.partition("==") for line in lines)}


def name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def test_every_installed_package_is_pinned_exactly():
    installed = {name(found.name): found.version.partition("+")[0] for found in distributions()}
    wanted = {key: version for key, version in installed.items() if not UNPINNED.fullmatch(key)}
    pinned = pins()
    assert {key: pinned.get(key) for key in wanted} == wanted


def test_torch_and_torchvision_are_the_pair_that_belongs_together():
    assert (pins()["torch"], pins()["torchvision"]) == ("2.13.0", "0.28.0")
