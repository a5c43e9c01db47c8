"""Settings as the plain values that other programs store."""

from __future__ import annotations

import json
from typing import Any

from idwbench.results.comparison import run_settings
from idwbench.runs.config import RunConfig

__all__ = ["flat_settings"]


def flat_settings(config: RunConfig) -> dict[str, bool | int | float | str]:
    """Return the settings of a run without those that are None; lists and mappings are JSON."""
    return {name: _plain(value) for name, value in run_settings(config).items() if value is not None}


def _plain(value: Any) -> bool | int | float | str:
    if isinstance(value, bool | int | float | str):
        return value
    try:
        return json.dumps(value)
    except TypeError:  # settings in settings, such as those of the parts of a data set
        return str(value)
