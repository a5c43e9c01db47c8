"""The registry of methods; importing it does not load torch."""

from collections.abc import Callable, Mapping
from typing import Any

from idwbench.attention.definitions import Method, Parameter, ParameterValue
from idwbench.attention.scores import BUILT_IN_METHODS
from idwbench.errors import ConfigError, did_you_mean

__all__ = ["METHODS", "all_parameters", "find_unknown_methods", "get_method", "register_method", "resolve_parameters"]

# In the order of tables; plugins come after the built-in methods.
METHODS: dict[str, Method] = {method.name: method for method in BUILT_IN_METHODS}
_finders: list[Callable[[], object]] = []


def register_method(method: Method) -> None:
    """Add a method to the registry.

    Raises:
        ConfigError: another method already has that name.
    """
    present = METHODS.get(method.name)
    if present is not None and present.sha256 != method.sha256:
        raise ConfigError(f"method '{method.name}' is already registered")
    METHODS[method.name] = method


def find_unknown_methods(finder: Callable[[], object]) -> None:
    """Call `finder` to register further methods when a name is not found."""
    _finders.append(finder)


def get_method(name: str) -> Method:
    """Return the method of that name.

    Raises:
        ConfigError: unknown method.
    """
    while name not in METHODS and _finders:
        _finders.pop()()
    try:
        return METHODS[name]
    except KeyError:
        hint = did_you_mean(name, METHODS)
        raise ConfigError(f"unknown method '{name}'", location=("method",), hint=hint) from None


def all_parameters() -> dict[str, Parameter]:
    """Return the parameters of all registered methods by name."""
    return {parameter.name: parameter for method in METHODS.values() for parameter in method.parameters}


def resolve_parameters(method: Method, given: Mapping[str, Any]) -> dict[str, ParameterValue]:
    """Return all parameters of `method`: the given values, and defaults for the others.

    Raises:
        ConfigError: `method` does not have a parameter, or a value is not valid; `location` is the parameter.
    """
    names = {parameter.name for parameter in method.parameters}
    for name in given:
        if name not in names:
            takes = f"it takes {', '.join(sorted(names))}" if names else "it takes no parameters"
            raise ConfigError(f"method '{method.name}' does not take '{name}'", location=(name,), hint=takes)
    return {p.name: p.parse(given.get(p.name, p.default)) for p in method.parameters}
