"""Reading of stored rows: what cannot be read is a `ResultsError` that names the run and the column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, Text, case, cast, func, literal_column

from idwbench.errors import ConfigError, ResultsError
from idwbench.results.tables import runs
from idwbench.runs.config import RunConfig

__all__ = ["SettingReader", "check_numbers", "setting_text", "unreadable"]

_SHORT = 12


def unreadable(run_key: str, column: str, problem: str) -> ResultsError:
    """Return the error of a damaged value of a run."""
    return ResultsError(f"run {run_key[:_SHORT]}: its {column} cannot be read: {problem}")


def check_numbers(run_keys: Sequence[str], column: str, values: Sequence[Any]) -> Sequence[Any]:
    """Return the values of a column of numbers; a column of SQLite may hold text, too.

    Raises:
        ResultsError: one is not a number.
    """
    if not {*map(type, values)} <= {int, float, type(None)}:
        place = next(i for i, value in enumerate(values) if not isinstance(value, int | float | None))
        raise unreadable(run_keys[place], column, f"expected a number, got {values[place]!r}")
    return values


def setting_text(connection: Connection) -> ColumnElement[str]:
    """Return the JSON of a configuration with seed 0, which runs of one setting share."""
    config = runs.c.config
    if connection.dialect.name == "postgresql":
        return cast(func.jsonb_set(config, literal_column("'{seed}'"), literal_column("'0'::jsonb")), Text)
    with_seed = func.json_set(config, "$.seed", 0, type_=Text)
    return case((func.json_valid(config) == 1, with_seed), else_=cast(config, Text))


class SettingReader:
    """Reads configurations from `setting_text`; that of a setting is parsed once."""

    def __init__(self) -> None:
        self._settings: dict[str, RunConfig] = {}

    def read(self, run_key: str, text: str, seed: int) -> RunConfig:
        """Return the configuration of a run, which shares its data set, model and protocol with others of its setting.

        Raises:
            ResultsError: it is not valid.
        """
        if text not in self._settings:
            self._settings[text] = _parsed(run_key, text)
        setting = self._settings[text]
        return setting if setting.seed == seed else setting.with_seed(seed)


def _parsed(run_key: str, text: str) -> RunConfig:
    try:
        return RunConfig.model_validate_json(text)
    except ConfigError as error:
        raise unreadable(run_key, "configuration", str(error)) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        reason = ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])
        raise unreadable(run_key, "configuration", reason) from None
