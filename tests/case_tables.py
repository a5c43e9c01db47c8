"""Tables of cases in `assets`: what is given, and what must come of it."""

from functools import cache
from pathlib import Path

from ruamel.yaml import YAML


@cache
def case_table(name):
    """Return the content of a YAML file by its name without the ending."""
    return YAML(typ="safe").load(Path(__file__).parent / "assets" / f"{name}.yaml")
