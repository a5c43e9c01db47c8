"""What a run keeps besides its row: learning curves and arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, Float, Text, cast, select

from idwbench.errors import ResultsError
from idwbench.results.reading import converted, converted_column, stored_id
from idwbench.results.tables import arrays, chunks, curves, runs
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.results import CurvePoint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["array_facts", "load_arrays", "load_curve", "load_curves"]

_SHORT = 12
_SHAPE = TypeAdapter(tuple[int, ...])


def load_curves(connection: Connection, run_keys: Sequence[str]) -> dict[str, list[CurvePoint]]:
    """Return the learning curves of many runs by run key, as `load_curve`; those of unknown runs are empty."""
    query = select(runs.c.run_key, curves.c.epoch, curves.c.split, curves.c.name, curves.c.value)
    query = query.join(curves, curves.c.run_id == runs.c.id)
    query = query.order_by(runs.c.id, curves.c.epoch, curves.c.split, curves.c.name)
    points: dict[str, dict[int, dict[tuple[str, str], float]]] = {key: {} for key in run_keys}
    for part in chunks(list(points)):
        rows = connection.execute(query.where(runs.c.run_key.in_(part))).all()
        keys, *columns = zip(*rows, strict=True) if rows else [()] * 5
        epochs, values = (converted_column(keys, "curve", Float(), [*columns[place]]) for place in (0, 3))
        for key, epoch, split, name, value in zip(keys, epochs, *columns[1:3], values, strict=True):
            points[key].setdefault(epoch, {})[split, name] = math.nan if value is None else value
    return {key: [CurvePoint(epoch, values) for epoch, values in by_epoch.items()] for key, by_epoch in points.items()}


def load_curve(connection: Connection, run_key: str) -> list[CurvePoint]:
    """Return the learning curve of a run, which may be empty; values that were not finite are NaN.

    Raises:
        ResultsError: no run has that key.
    """
    stored_id(connection, run_key)
    return load_curves(connection, [run_key])[run_key]


def load_arrays(connection: Connection, run_key: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a run by name, such as ``keys`` (prototypes, features) and ``values``.

    Raises:
        ResultsError: no run has that key, or an array is missing or cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    run_id = stored_id(connection, run_key)
    query = select(arrays.c.name, arrays.c.data).where(arrays.c.run_id == run_id).order_by(arrays.c.name)
    by_name = {}
    for name, data in connection.execute(query):
        try:
            by_name[name] = load(data)[name]
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ResultsError(f"run {run_key[:_SHORT]}: the stored array '{name}' cannot be read: {error}") from None
    state, model = connection.execute(select(runs.c.state, runs.c.model).where(runs.c.id == run_id)).one()
    required: Sequence[str] = MODELS[model].array_names if model in MODELS else ()
    missing = [name for name in required if name not in by_name]
    if state == "complete" and missing:
        problem = f"run {run_key[:_SHORT]} is complete, but the database lacks its {' and '.join(missing)}"
        raise ResultsError(problem, hint="train it again")
    return by_name


def array_facts(connection: Connection, run_key: str) -> dict[str, dict[str, Any]]:
    """Return ``dtype`` and ``shape`` of the arrays of a run by name, without reading them.

    Raises:
        ResultsError: no run has that key.
    """
    of_run = arrays.c.run_id == stored_id(connection, run_key)
    query = select(arrays.c.name, arrays.c.dtype, cast(arrays.c.shape, Text)).where(of_run).order_by(arrays.c.name)
    return {
        name: {"dtype": dtype, "shape": converted(run_key, f"array {name}", _SHAPE.validate_json, shape)}
        for name, dtype, shape in connection.execute(query)
    }
