"""Filters of runs: ``method=idw``, ``prototypes>=16``, ``test_accuracy>0.95``, on the columns of `Results.to_frame`."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from idwbench.errors import ConfigError

__all__ = ["OPERATORS", "Condition", "parse_filters"]

_FORM = re.compile(r"\s*([A-Za-z_]\w*)\s*(!=|>=|<=|==|=|>|<)(.*)", re.DOTALL)
_NOTHING = ("", "none", "null")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """A comparison of a column with a value, or with alternatives separated by commas.

    Attributes:
        name: A column of `Results.to_frame`.
        operator: A key of `OPERATORS`; ``=`` holds for any of the alternatives, ``!=`` for none.
        value: The text after the operator; ``none`` stands for a missing value.
    """

    name: str
    operator: str
    value: str

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The whole value, and its parts between commas."""
        parts = [part.strip() for part in self.value.split(",")]
        return (self.value,) if len(parts) == 1 else (self.value, *parts)

    @property
    def is_equality(self) -> bool:
        """Whether the operator is ``=`` or ``!=``."""
        return self.operator in ("=", "!=")

    @property
    def accepts_nothing(self) -> bool:
        """Whether ``none`` is among the alternatives."""
        return any(word.lower() in _NOTHING for word in self.alternatives)

    def numbers(self) -> list[float]:
        """Return the alternatives as numbers, without ``none``.

        Raises:
            ConfigError: one is not a number.
        """
        found = [_number(word) for word in self._given()]
        for word, number in zip(self._given(), found, strict=True):
            if number is None:
                raise ConfigError(f"{self.name}: expected a number, got '{word}'", location=("where",))
        return [number for number in found if number is not None]

    def moments(self) -> list[datetime]:
        """Return the alternatives as times in UTC, without ``none``.

        Raises:
            ConfigError: one is not a date or time.
        """
        found = []
        for word in self._given():
            try:
                moment = datetime.fromisoformat(word)
            except ValueError:
                problem = f"{self.name}: expected a date or time such as 2026-01-31T12:00, got '{word}'"
                raise ConfigError(problem, location=("where",)) from None
            found.append(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC))
        return found

    def words(self) -> list[str]:
        """Return the alternatives as text, without ``none``.

        Raises:
            ConfigError: the operator compares numbers.
        """
        if not self.is_equality:
            raise ConfigError(f"{self.name} is no number: only = and != compare it", location=("where",))
        return [word for word in self.alternatives if word.lower() not in _NOTHING]

    def holds(self, value: Any) -> bool:
        """Return whether the condition holds for a setting: a value of JSON."""
        if self.is_equality:
            return any(_equal(value, word) for word in self.alternatives) == (self.operator == "=")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return all(OPERATORS[self.operator](value, number) for number in self.numbers())

    def _given(self) -> list[str]:
        words = self.alternatives[1:] or self.alternatives
        return [word for word in words if word.lower() not in _NOTHING]


def parse_filters(texts: Sequence[str | Condition]) -> tuple[Condition, ...]:
    """Return conditions from texts such as ``method=idw``, ``method=idw,neg_dist``, ``epsilon!=0`` or ``seed<5``.

    Names are checked against the columns when a database is searched.

    Raises:
        ConfigError: a text is not a name, an operator and a value; `location` is ``("where",)``.
    """
    return tuple(text if isinstance(text, Condition) else _parsed(text) for text in texts)


def _parsed(text: str) -> Condition:
    found = _FORM.fullmatch(text)
    if found is None:
        hint = "such as method=idw or prototypes>=16"
        raise ConfigError(f"expected NAME=VALUE, got '{text}'", location=("where",), hint=hint)
    name, sign, value = found.groups()
    condition = Condition(name, "=" if sign == "==" else sign, value.strip())
    if not condition.is_equality and (len(condition.alternatives) > 1 or condition.accepts_nothing):
        raise ConfigError(f"'{sign}' compares with one value, got '{text}'", location=("where",))
    return condition


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _equal(value: Any, word: str) -> bool:
    match value:
        case None:
            return word.lower() in _NOTHING
        case bool():
            return word.lower() == str(value).lower()
        case int() | float():
            return _number(word) == value
        case str():
            return value == word
    try:
        return bool(json.loads(word) == value)
    except ValueError:
        return False
