"""What defines a method: a score with its parameters, a weighting, and how keys and values begin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from idwbench.errors import ConfigError, did_you_mean

__all__ = ["Initialisation", "Method", "Parameter", "ParameterValue", "Weighting"]

ParameterValue = float | str
Initialisation = Literal["mean", "samples", "kmeans", "kaiming"]
Weighting = Literal["softmax", "relu"]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method: its default and its valid values (numbers in a range, or words).

    Attributes:
        name: The word used in code, YAML, database, command line and docs.
        default: Its value if it is not given.
        symbol: What tables show: ``p`` gives ``p=2``, and for words ``1/√`` gives ``1/√features``.
        help: One line for the command line and the docs.
        minimum: The smallest number, or None.
        exclusive: Whether the minimum itself is refused.
        maximum: The largest absolute number.
        choices: The valid words; empty for a number.
        special: Numbers at which the score takes a simpler form; runs with and without it do not share a stack.
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

    def parse(self, value: object) -> ParameterValue:
        """Return `value` as this parameter holds it.

        Raises:
            ConfigError: `value` is of the wrong type, not finite, out of range, or not a valid word.
        """
        location = (self.name,)
        if self.choices:
            if value not in self.choices:
                hint = did_you_mean(str(value), self.choices)
                raise ConfigError(f"{value!r} is not valid", location=location, hint=hint)
            return str(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"expected a number, got {value!r}", location=location)
        number = float(value) if abs(value) < 1e300 else math.inf
        if not math.isfinite(number):
            raise ConfigError(f"expected a finite number, got {value!r}", location=location)
        if self.minimum is not None and (number < self.minimum or (self.exclusive and number == self.minimum)):
            relation = ">" if self.exclusive else ">="
            raise ConfigError(f"must be {relation} {self.minimum:g}, got {value!r}", location=location)
        if abs(number) > self.maximum:
            raise ConfigError(f"must be <= {self.maximum:g}, got {value!r}", location=location)
        return number

    def label(self, value: ParameterValue) -> str:
        """Return what tables show for a value: ``p=2``, ``1/√features``."""
        if isinstance(value, str):
            return f"{self.symbol}{value}" if self.symbol else f"{self.name}={value}"
        return f"{self.symbol or self.name}={repr(value).removesuffix('.0')}"


@dataclass(frozen=True)
class Method:
    """How inputs and keys give weights.

    Attributes:
        name: The word used in code, YAML, database, command line and docs.
        formula: The score, for humans.
        score: The function ``(inputs, keys, **parameters) -> scores``.
        parameters: What the formula leaves open.
        initialisation: The method's own way to begin, see `idwbench.models.initialisation`.
        weighting: ``softmax`` over prototypes, or ``relu`` without normalisation.
        sha256: Checksum of the plugin file that defines it; None if built in.
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
