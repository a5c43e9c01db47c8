"""Definition of a method: a score with its parameters, a weighting, and an initialisation; and that of a weighting."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from idwbench.errors import ConfigError, did_you_mean

__all__ = ["Initialisation", "Method", "Parameter", "ParameterValue", "Weighting", "WeightingDefinition"]

ParameterValue = float | str
Initialisation = Literal["mean", "samples", "kmeans", "kaiming"]
Weighting = Literal["softmax", "relu"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a method: a number in a range, or one of several words.

    Attributes:
        symbol: Label in tables: ``p`` gives ``p=2``, and for words ``1/√`` gives ``1/√features``.
        minimum: Lower bound of a number, or None.
        exclusive: Whether the lower bound is excluded.
        maximum: Upper bound of the absolute value.
        choices: The valid words; empty for a number.
        words: Words that are valid beside numbers.
        special: Numbers for which the score has a simpler form; such runs have stacks of their own.
        whole: Whether a number must be whole.
    """

    name: str
    default: ParameterValue
    symbol: str = ""
    help: str = ""
    minimum: float | None = None
    exclusive: bool = False
    maximum: float = 1e30
    choices: tuple[str, ...] = ()
    special: tuple[float, ...] = ()
    whole: bool = False
    words: tuple[str, ...] = ()

    def parse(self, value: object) -> ParameterValue:
        """Return `value` as a float or a word.

        Raises:
            ConfigError: `value` is of the wrong type, not finite, out of range, or not a valid word.
        """
        if self.choices:
            if value not in self.choices:
                hint = did_you_mean(str(value), self.choices)
                raise ConfigError(f"{value!r} is not valid", location=(self.name,), hint=hint)
            return str(value)
        if self.words and isinstance(value, str):
            if value not in self.words:
                hint = did_you_mean(value, self.words)
                raise ConfigError(f"{value!r} is no number and not valid", location=(self.name,), hint=hint)
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"expected a number, got {value!r}", location=(self.name,))
        number = float(value) if abs(value) < 1e300 else math.inf
        expected = ""
        if not math.isfinite(number):
            expected = "expected a finite number"
        elif self.whole and not number.is_integer():
            expected = "expected a whole number"
        elif self.minimum is not None and (number < self.minimum or (self.exclusive and number == self.minimum)):
            expected = f"must be {'>' if self.exclusive else '>='} {self.minimum:g}"
        elif abs(number) > self.maximum:
            expected = f"must be <= {self.maximum:g}"
        if expected:
            raise ConfigError(f"{expected}, got {value!r}", location=(self.name,))
        return number

    def label(self, value: ParameterValue) -> str:
        """Return the label of a value in tables: ``p=2``, ``1/√features``."""
        if isinstance(value, str):
            return f"{self.symbol}{value}" if self.symbol else f"{self.name}={value}"
        return f"{self.symbol or self.name}={repr(value).removesuffix('.0')}"


@dataclass(frozen=True)
class Method:
    """A score with its parameters and a weighting.

    Attributes:
        formula: The score as text.
        score: The function ``(inputs, keys, **parameters) -> scores``.
        initialisation: Default initialisation, see `idwbench.models.initialisation`.
        weighting: ``softmax`` over prototypes, or ``relu`` without normalisation.
        sha256: Checksum of the plugin file that defines the method; None if built in.
    """

    name: str
    formula: str
    score: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
    initialisation: Initialisation = "mean"
    weighting: Weighting = "softmax"
    sha256: str | None = None

    def label(self, values: Mapping[str, ParameterValue]) -> str:
        """Return ``p=2, ε=0.001`` for the values of its parameters, in their order."""
        known = {parameter.name: parameter for parameter in self.parameters}
        names = [*(name for name in known if name in values), *sorted(values.keys() - known.keys())]
        return ", ".join(known.get(name, Parameter(name, 0.0)).label(values[name]) for name in names)


@dataclass(frozen=True)
class WeightingDefinition:
    """A function from scores to weights, over the last axis.

    Attributes:
        formula: The weight of key j as text, for scores s.
        gradient: The derivative of the weights by the scores as text.
        ties: What equal scores do, as text.
        function: The function ``(scores, **parameters) -> weights``; it gets finite scores and −∞.
        parameters: Its parameters, named differently from those of the built-in scores.
        source: Where it was published; empty for a definition that needs none.
        own_score: The function ``(inputs, keys) -> scores`` that replaces the score, or None.
    """

    name: str
    formula: str
    gradient: str
    ties: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
    source: str = ""
    own_score: Callable[..., Any] | None = None
