"""Conversion of arrays to columns, and of rows to `StoredRun`."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Text, cast, select

from idwbench import __version__
from idwbench.errors import ResultsError
from idwbench.results.configurations import Configurations
from idwbench.results.records import RESULT_STATES, StoredRun
from idwbench.results.tables import Json, runs
from idwbench.runs.metrics import Metrics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "MOST_KEYS",
    "STORED_RUN_QUERY",
    "StoredRunReader",
    "chunks",
    "pack_array",
    "package_versions",
    "unpack_array",
]

_Key = TypeVar("_Key")
_SMALL_ARRAY = 2**16  # bytes; of the same shape as others in many runs
MOST_KEYS = 900  # SQLite may be limited to 999 parameters in one statement

_COLUMNS = tuple(field.name for field in fields(StoredRun) if field.name not in ("metrics", "retraining"))
# JSON is read as text: equal texts are parsed once, and an error of a configuration can name the run.
_TEXT_COLUMNS = tuple(name for name in _COLUMNS if isinstance(runs.c[name].type, Json))
_JSON_COLUMNS = tuple(name for name in _TEXT_COLUMNS if name != "config")
STORED_RUN_QUERY = select(
    *(cast(runs.c[name], Text).label(name) if name in _TEXT_COLUMNS else runs.c[name] for name in _COLUMNS),
    runs.c.seed,
    runs.c.previous_state,
)


def chunks(keys: Sequence[_Key]) -> Iterator[Sequence[_Key]]:
    """Yield `keys` in parts that are short enough for one statement."""
    for start in range(0, len(keys), MOST_KEYS):
        yield keys[start : start + MOST_KEYS]


class StoredRunReader:
    """Reads runs from rows of `STORED_RUN_QUERY`; what many runs share is parsed once."""

    def __init__(self) -> None:
        self._configurations = Configurations()
        self._parsed: dict[str, Any] = {}

    def run(self, row: Sequence[Any], metrics: Metrics) -> StoredRun:
        """Return the run of a row.

        Raises:
            ResultsError: the configuration is not valid.
        """
        *columns, seed, previous_state = row
        values = dict(zip(_COLUMNS, columns, strict=True))
        for name in _JSON_COLUMNS:
            values[name] = self._parse(values[name])
        config = self._configurations.read(values["run_key"], values.pop("config"), seed)
        if values["state"] == "running" and previous_state in RESULT_STATES:
            values |= {"state": previous_state, "retraining": True}
        return StoredRun(config=config, metrics=metrics, **values)

    def _parse(self, text: str | None) -> Any:
        if text is None:
            return None
        if text not in self._parsed:
            self._parsed[text] = json.loads(text)
        return self._parsed[text]


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on, without importing them."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {"idwbench": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "numba", "scikit-learn"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def pack_array(name: str, array: NDArray[np.generic]) -> bytes:
    """Return `array` as the bytes of a safetensors file with this one array."""
    import numpy as np
    from safetensors.numpy import save

    if 0 < array.nbytes <= _SMALL_ARRAY and array.dtype.isnative:
        return _array_header(name, array.dtype, array.shape) + array.tobytes()
    return save({name: np.ascontiguousarray(array)})


@lru_cache(maxsize=64)
def _array_header(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> bytes:
    """Return the bytes of a safetensors file before the numbers of its one array."""
    import numpy as np
    from safetensors.numpy import save

    zeros = np.zeros(shape, dtype)
    return save({name: zeros})[: -zeros.nbytes]


def unpack_array(name: str, data: bytes) -> NDArray[np.generic]:
    """Return the array that `pack_array` wrote.

    Raises:
        ResultsError: the bytes are not a safetensors file with an array of that name.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(data)[name]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"the stored array '{name}' cannot be read: {error}") from None
