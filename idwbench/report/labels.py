"""Short words for numbers and settings, the same in every table and figure."""

from __future__ import annotations

from collections.abc import Sequence

from idwbench.config import Protocol
from idwbench.methods import ParameterValue

__all__ = ["count_label", "parameters_label", "percent_label", "protocol_label", "spread_label"]

_SYMBOLS = {"power": "p", "epsilon": "ε", "sigma_squared": "σ²", "temperature": "T"}


def parameters_label(parameters: Sequence[tuple[str, ParameterValue]]) -> str:
    """Return ``p=2, ε=0.001``; a parameter without a letter keeps its name, a scale is ``1/√features``."""
    return ", ".join(_parameter(name, value) for name, value in parameters)


def percent_label(fraction: float) -> str:
    """Return a fraction in percent with two decimals: 0.975 is ``97.50``."""
    return f"{100 * fraction:.2f}"


def spread_label(mean: float, std: float | None) -> str:
    """Return ``97.50 ± 1.18``, in percent; without a standard deviation the mean alone."""
    return percent_label(mean) if std is None else f"{percent_label(mean)} ± {percent_label(std)}"


def protocol_label(protocol: Protocol) -> str:
    """Return ``50 epochs · batch 4 · learning rate 0.001``, and the schedule unless it is cosine."""
    words = [
        count_label(protocol.epochs, "epoch"),
        f"batch {protocol.batch_size}",
        f"learning rate {_plain(protocol.learning_rate)}",
    ]
    if protocol.schedule != "cosine":
        words.append(f"{protocol.schedule} schedule")
    return " · ".join(words)


def count_label(count: int, noun: str) -> str:
    """Return ``1 run`` or ``2 runs``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _parameter(name: str, value: ParameterValue) -> str:
    if name == "scale" and isinstance(value, str):
        return f"1/√{value}"
    return f"{_SYMBOLS.get(name, name)}={_plain(value)}"


def _plain(value: ParameterValue) -> str:
    return value if isinstance(value, str) else repr(value).removesuffix(".0")
