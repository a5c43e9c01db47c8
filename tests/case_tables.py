"""Tables of cases in `assets`: what is given, and what must come of it."""

from functools import cache
from pathlib import Path

import numpy as np
from ruamel.yaml import YAML

ASSETS = Path(__file__).parent / "assets"
PENGUINS = ASSETS / "penguins.csv"
VERSION_0_1_0 = ASSETS / "0.1.0"


@cache
def case_table(name):
    """Return the content of a YAML file by its name without the ending."""
    return YAML(typ="safe").load(ASSETS / f"{name}.yaml")


def arrays_in(given):
    """Return a mapping with an array in place of each {shape: …}, by default of zeros in float64."""
    return {
        name: np.full(**{"fill_value": 0.0, **value}) if isinstance(value, dict) and "shape" in value else value
        for name, value in given.items()
    }
