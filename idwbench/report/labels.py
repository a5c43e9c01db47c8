"""Labels of numbers and settings in tables and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from idwbench.attention.records import Method, Parameter
from idwbench.attention.scores import BUILT_IN_METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.runs.metrics import METRICS
from idwbench.runs.protocol import Protocol

__all__ = [
    "count_label",
    "interval_label",
    "method_table",
    "metric_label",
    "plain_value",
    "protocol_label",
    "setting_label",
    "value_label",
    "weighting_table",
]

_SIGNIFICANT_DIGITS = 4


def count_label(count: int, noun: str) -> str:
    """Return ``1 run`` or ``2 runs``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def metric_label(metric: str) -> str:
    """Return ``accuracy in %``, or ``rmse (lower is better)``."""
    words = metric.replace("_", " ")
    definition = METRICS.get(metric)
    if definition is None:
        return words
    unit = " in %" if definition.percent else ""
    return words + unit + ("" if definition.higher_is_better else " (lower is better)")


def value_label(metric: str, mean: float, std: float | None = None) -> str:
    """Return ``97.50 ± 1.18`` for a metric in percent, four significant digits for another; `std` may be missing."""
    return _joined(" ± ", metric, (mean,) if std is None else (mean, std))


def interval_label(metric: str, low: float, high: float) -> str:
    """Return ``96.75 to 98.00``, with the digits of `value_label`."""
    return _joined(" to ", metric, (low, high))


def plain_value(value: object) -> str:
    """Return the value of a setting in tables: ``0.001``, ``2`` for 2.0, ``none`` for None, ``a, b`` for a list.

    Truth values are ``true`` and ``false``, as in YAML.
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(plain_value, value))
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def setting_label(name: str, value: object) -> str:
    """Return the name and the value of a setting: ``learning rate 0.001``."""
    return f"{name.replace('_', ' ')} {plain_value(value)}"


def protocol_label(protocol: Protocol) -> str:
    """Return ``epochs 50 · batch size 4 · learning rate 0.001`` and all settings that differ from their default."""
    shown = [
        (name, getattr(protocol, name))
        for name, field in type(protocol).model_fields.items()
        if field.is_required() or getattr(protocol, name) != field.default
    ]
    return " · ".join(setting_label(name, value) for name, value in shown)


def method_table() -> str:
    """Return the built-in methods as a Markdown table."""
    head = ["| method | score | weights | parameters | initialisation |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(_method_row(method) for method in BUILT_IN_METHODS.values())]) + "\n"


def weighting_table() -> str:
    """Return the weightings as a Markdown table."""
    lines = ["| weighting | w_j | ∂w_i/∂s_j | equal scores | parameters |", "|---|---|---|---|---|"]
    for weighting in WEIGHTINGS.values():
        formula = f"{weighting.formula} ({weighting.source})" if weighting.source else weighting.formula
        parameters = _parameters(weighting.parameters)
        lines.append(f"| `{weighting.name}` | {formula} | {weighting.gradient} | {weighting.ties} | {parameters} |")
    return "\n".join(lines) + "\n"


def _method_row(method: Method) -> str:
    parameters = _parameters(method.parameters)
    cells = (f"`{method.name}`", method.formula, method.weighting, parameters, f"`{method.initialisation}`")
    return f"| {' | '.join(cells)} |"


def _parameters(parameters: Sequence[Parameter]) -> str:
    return "; ".join(map(_parameter, parameters)) or "none"


def _parameter(parameter: Parameter) -> str:
    if parameter.choices:
        words = " or ".join(f"`{word}`" for word in parameter.choices)
        return f"`{parameter.name}`: {words} (`{parameter.default}`)"
    low = -parameter.maximum if parameter.minimum is None else parameter.minimum
    bounds = f"{'(' if parameter.exclusive else '['}{_plain(low)}, {_plain(parameter.maximum)}]"
    return f"`{parameter.name}` in {bounds} ({_plain(parameter.default)})"


def _joined(separator: str, metric: str, numbers: tuple[float, ...]) -> str:
    factor, form = 100, ".2f"
    if metric not in METRICS or not METRICS[metric].percent:
        factor, largest = 1, max(map(abs, numbers))
        form = f".{_SIGNIFICANT_DIGITS - 1}e" if largest else ".0f"
        if 1e-4 <= largest < 1e6:
            form = f".{max(0, _SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(largest)))}f"
    return separator.join(f"{factor * number:{form}}" for number in numbers)


def _plain(value: object) -> str:
    return (
        f"{value:g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
        if isinstance(value, float)
        else str(value)
    )
