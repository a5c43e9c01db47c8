"""The registry of methods: how inputs and keys give weights, told without importing torch.

A method is a name, a formula, its parameters, and three facts: which function computes its scores, how
scores become weights, and how keys and values begin. Built-in methods name their function as
``"module:function"``, so that planning a sweep or printing a table needs no tensor library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from idwbench.errors import ConfigError, did_you_mean

__all__ = [
    "METHODS",
    "Method",
    "Parameter",
    "ParameterValue",
    "get_method",
    "parameter_names",
    "register_method",
    "resolve_parameters",
]

ParameterValue = float | str
Initialisation = Literal["data", "kaiming"]
Weighting = Literal["softmax", "relu"]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method: its default and what it may be (a number in a range, or one of some words)."""

    name: str
    default: ParameterValue
    minimum: float | None = None
    exclusive: bool = False
    maximum: float = 1e30
    choices: tuple[str, ...] = ()

    def parse(self, value: object) -> ParameterValue:
        """Return `value` as this parameter holds it.

        Raises:
            ConfigError: `value` is of the wrong type, not finite, below the minimum, or no valid word.
        """
        if self.choices:
            if value not in self.choices:
                raise ConfigError(f"{self.name}: {value!r} is not valid" + did_you_mean(str(value), self.choices))
            return str(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{self.name}: expected a number, got {value!r}")
        number = float(value) if abs(value) < 1e300 else math.inf
        if not math.isfinite(number):
            raise ConfigError(f"{self.name}: expected a finite number, got {value!r}")
        if self.minimum is not None and (number < self.minimum or (self.exclusive and number == self.minimum)):
            relation = ">" if self.exclusive else ">="
            raise ConfigError(f"{self.name}: must be {relation} {self.minimum:g}, got {value!r}")
        if abs(number) > self.maximum:
            raise ConfigError(f"{self.name}: must be <= {self.maximum:g}, got {value!r}")
        return number


@dataclass(frozen=True)
class Method:
    """How inputs and keys give weights.

    Attributes:
        name: The word used in code, YAML, database, command line and docs.
        formula: The score, for humans.
        score: The function ``(inputs, keys, **parameters) -> scores``, or where to find it.
        parameters: What the formula leaves open.
        initialisation: ``data``: keys from N(mean, (0.1 std)²) of the training data, values zero;
            ``kaiming``: both uniform with bound √(6/columns).
        weighting: ``softmax`` over prototypes, or ``relu`` without normalisation.
        sha256: Checksum of the plugin file that brought it; None if built in.
    """

    name: str
    formula: str
    score: str | Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
    initialisation: Initialisation = "data"
    weighting: Weighting = "softmax"
    sha256: str | None = None


# The ranges are those in which scores and their gradients stay within float32.
_POWER = Parameter("power", 2.0, minimum=0.0, exclusive=True, maximum=1e12)
_EPSILON = Parameter("epsilon", 1e-3, minimum=0.0)

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("fc_relu", "x·k", "idwbench.scores:dot", (), "kaiming", "relu"),
        Method(
            "scaled_dot",
            "x·k / √features, or x·k / √prototypes",
            "idwbench.scores:scaled_dot",
            (Parameter("scale", "features", choices=("features", "prototypes")),),
            "kaiming",
        ),
        Method(
            "cosine",
            "x·k / (‖x‖ ‖k‖ temperature)",
            "idwbench.scores:cosine",
            (Parameter("temperature", 1.0, minimum=1e-12, maximum=1e12),),
            "kaiming",
        ),
        Method("neg_dist", "−d^p", "idwbench.scores:neg_dist", (_POWER,)),
        Method(
            "gaussian",
            "exp(−d²/σ²)",
            "idwbench.scores:gaussian",
            (Parameter("sigma_squared", 2.0, minimum=1e-12, maximum=1e12),),
        ),
        Method("inv_dist", "1/(ε + d^p)", "idwbench.scores:inv_dist", (_POWER, _EPSILON)),
        Method("idw", "−log(ε + d^p)", "idwbench.scores:idw", (_POWER, _EPSILON)),
    )
}


def register_method(method: Method) -> None:
    """Add a method to the registry.

    Raises:
        ConfigError: another method already has that name.
    """
    present = METHODS.get(method.name)
    if present is not None and present.sha256 != method.sha256:
        raise ConfigError(f"method '{method.name}' is already registered")
    METHODS[method.name] = method


def get_method(name: str) -> Method:
    """Return the method of that name.

    Raises:
        ConfigError: no method has it.
    """
    try:
        return METHODS[name]
    except KeyError:
        raise ConfigError(f"unknown method '{name}'" + did_you_mean(name, METHODS), location=("method",)) from None


def parameter_names() -> set[str]:
    """Return the names of all parameters that some registered method takes."""
    return {parameter.name for method in METHODS.values() for parameter in method.parameters}


def resolve_parameters(method: Method, given: dict[str, Any]) -> dict[str, ParameterValue]:
    """Return all parameters of `method`, those not given at their defaults.

    Raises:
        ConfigError: `method` does not take one of them, or a value is not valid.
    """
    names = {parameter.name for parameter in method.parameters}
    for name in given:
        if name not in names:
            takes = f"it takes {', '.join(sorted(names))}" if names else "it takes no parameters"
            raise ConfigError(f"method '{method.name}' does not take '{name}' ({takes})", location=(name,))
    values = {}
    for parameter in method.parameters:
        try:
            values[parameter.name] = parameter.parse(given.get(parameter.name, parameter.default))
        except ConfigError as error:
            raise ConfigError(str(error), location=(parameter.name,)) from None
    return values
