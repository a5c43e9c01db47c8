"""From the parameters of an estimator to the configuration of a run of the fused engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from idwbench.attention.scores import BUILT_IN_METHODS
from idwbench.errors import ConfigError
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.protocol import Protocol
from idwbench.runs.settings import Settings

__all__ = ["AUTO_BATCH", "ArraysConfig", "EstimatorTask", "engine_config", "plain", "seed_of", "with_automatic"]

EstimatorTask = Literal["classification", "regression"]

# Rows of a batch with batch_size="auto"; as many distinct rows or fewer are one batch.
AUTO_BATCH = 200
# With epochs="auto": so many steps, within a range of epochs.
_AUTO_STEPS = 2000
_FEWEST_EPOCHS, _MOST_EPOCHS = 20, 500


class ArraysConfig(Settings):
    """The data set of an estimator: arrays of the caller."""

    name: Literal["arrays"] = "arrays"
    task: EstimatorTask


def with_automatic(parameters: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """Return the parameters with numbers in place of "auto".

    ``batch_size``: 200, or the number of rows if that is smaller. ``epochs``: for about 2,000 steps, from 20 to 500.
    """
    found = {name: plain(value) for name, value in parameters.items()}
    if found["batch_size"] == "auto":
        found["batch_size"] = min(AUTO_BATCH, n_rows)
    batch_size = found["batch_size"]
    if found["epochs"] == "auto" and isinstance(batch_size, int) and batch_size > 0:
        steps = math.ceil(n_rows / batch_size)
        found["epochs"] = min(max(math.ceil(_AUTO_STEPS / steps), _FEWEST_EPOCHS), _MOST_EPOCHS)
    return found


def engine_config(task: EstimatorTask, seed: int, parameters: Mapping[str, Any]) -> RunConfig:
    """Return the run for the parameters of an estimator; see also `with_automatic`.

    Raises:
        ValueError: a parameter is unknown, of the wrong type or out of range; the message begins with its name.
    """
    given = {name: plain(value) for name, value in parameters.items()}
    settings = {name: given[name] for name in Protocol.model_fields if name in given}
    settings |= {"prototypes": given["n_prototypes"]} | {name: given[name] for name in ("method", "initialisation")}
    extra = given["parameters"]
    if not (extra is None or isinstance(extra, Mapping)):
        raise ValueError(f"parameters: expected a dict or None, got {extra!r}")
    of_method = {name: plain(value) for name, value in (extra or {}).items()}
    for name in ("power", "epsilon"):
        if given[name] is not None:
            if name in of_method:
                raise ValueError(f"{name}: also in `parameters`; give it once")
            of_method[name] = given[name]
    if settings["method"] not in BUILT_IN_METHODS:
        expected = ", ".join(sorted(BUILT_IN_METHODS))
        raise ValueError(f"method: expected one of {expected}, got {settings['method']!r}")
    if twice := [name for name in of_method if name in settings or name in ("kind", "dataset", "seed")]:
        raise ValueError(f"parameters: {twice[0]!r} is no parameter of a method")
    try:
        return run_config(ArraysConfig(task=task), seed=seed, **settings, **of_method)
    except ConfigError as error:
        location = ["n_prototypes" if step == "prototypes" else step for step in error.location]
        raise ValueError(error.render(".".join(map(str, location)))) from None


def seed_of(random_state: Any) -> int:
    """Return the seed of a run: a whole number itself, otherwise one drawn by scikit-learn's rule.

    Raises:
        ValueError: neither a number from 0 to 2³² − 1, None nor a `RandomState`.
    """
    from sklearn.utils import check_random_state

    generator = check_random_state(random_state)
    number = plain(random_state)
    return number if isinstance(number, int) else int(generator.randint(2**32, dtype=np.uint64))


def plain(value: Any) -> Any:
    """Return a NumPy scalar as a number of Python, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value
