"""The capacity of a lookup: how many items it recalls, and how that number grows with the dimensions.

The capacity of one seed at d dimensions is the number of items at which its recall falls below a threshold t (0.99),
by linear interpolation of recall against log(items) between the last number above and the first below. A seed whose
recall is below t at the smallest number of items, or at least t at the largest, has no capacity: it is *censored*.

Two laws are fitted by least squares to log(capacity) of all seeds: C = a · d^b (``power``) and C = a · exp(b·d)
(``exponential``). The one with the larger R² is chosen. The interval of b is the 95 % percentile bootstrap over seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["LAWS", "Capacity", "CapacityFit", "Law", "capacity", "fit_capacity", "law_label", "predicted_capacity"]

Law = Literal["power", "exponential"]
LAWS: tuple[Law, ...] = ("power", "exponential")
_RESAMPLES = 2000
_FEWEST_DIMENSIONS = 3


@dataclass(frozen=True)
class Capacity:
    """The capacity of one seed; if it is ``below`` or ``above`` what was measured, `items` is that bound."""

    items: float
    censored: Literal["", "below", "above"] = ""


@dataclass(frozen=True)
class CapacityFit:
    """A law of capacity C against dimensions d.

    Attributes:
        law: ``power``, C = factor · d^exponent, or ``exponential``, C = factor · exp(exponent · d).
        interval: 95 % bootstrap interval of the exponent over seeds.
        r_squared: R² of log C by law.
        dimensions: The dimensions that were fitted: those at which no seed is censored.
        n_seeds: Number of seeds.
    """

    law: Law
    factor: float
    exponent: float
    interval: tuple[float, float]
    r_squared: Mapping[Law, float]
    dimensions: tuple[int, ...]
    n_seeds: int


def capacity(recalls: Mapping[int, float], threshold: float = 0.99) -> Capacity:
    """Return the capacity for the recall by number of items.

    Raises:
        ValueError: no recall, or a threshold that is not between 0 and 1.
    """
    if not recalls or not 0 < threshold <= 1:
        raise ValueError("expected at least one recall, and a threshold above 0 and at most 1")
    items = sorted(recalls)
    for place, n in enumerate(items):
        if recalls[n] >= threshold:
            continue
        if place == 0:
            return Capacity(float(n), "below")
        before = items[place - 1]
        share = (recalls[before] - threshold) / (recalls[before] - recalls[n])
        return Capacity(before * (n / before) ** share)
    return Capacity(float(items[-1]), "above")


def fit_capacity(capacities: Mapping[int, Mapping[int, Capacity]]) -> CapacityFit | None:
    """Return the better law for capacities by dimensions and seed; None with fewer than 3 dimensions to fit.

    Only seeds that exist at every dimension are used, and dimensions at which none of them is censored.
    """
    seeds = sorted(set.intersection(*(set(found) for found in capacities.values()))) if capacities else []
    fitted = [d for d in sorted(capacities) if seeds and not any(capacities[d][seed].censored for seed in seeds)]
    if len(fitted) < _FEWEST_DIMENSIONS:
        return None
    logs = np.array([[math.log(capacities[d][seed].items) for d in fitted] for seed in seeds])
    fits = {law: _least_squares(_abscissa(law, fitted), logs.mean(0)) for law in LAWS}
    r_squared = {law: _r_squared(_abscissa(law, fitted), logs, *fits[law]) for law in LAWS}
    law = max(LAWS, key=lambda name: r_squared[name])
    intercept, slope = fits[law]
    interval = _interval(_abscissa(law, fitted), logs)
    return CapacityFit(law, math.exp(intercept), slope, interval, r_squared, tuple(fitted), len(seeds))


def predicted_capacity(fit: CapacityFit, dimensions: Sequence[float] | NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the capacity of a fit at other dimensions."""
    d = np.asarray(dimensions, np.float64)
    return fit.factor * (d**fit.exponent if fit.law == "power" else np.exp(fit.exponent * d))


def law_label(fit: CapacityFit) -> str:
    """Return ``2.31 · d^1.82`` or ``0.5 · exp(0.210 d)``."""
    growth = f"d^{fit.exponent:.2f}" if fit.law == "power" else f"exp({fit.exponent:.3f} d)"
    return f"{fit.factor:.3g} · {growth}"


def _abscissa(law: Law, dimensions: Sequence[int]) -> NDArray[np.float64]:
    d = np.asarray(dimensions, np.float64)
    return np.log(d) if law == "power" else d


def _least_squares(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """Return intercept and slope."""
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
    return float(y.mean() - slope * x.mean()), slope


def _r_squared(x: NDArray[np.float64], logs: NDArray[np.float64], intercept: float, slope: float) -> float:
    """Return 1 − Σ residual² / Σ deviation² over all seeds; 1 if all capacities are equal."""
    total = float(((logs - logs.mean()) ** 2).sum())
    if total <= 1e-20 * logs.size:  # equal but for rounding
        return 1.0
    return 1 - float(((logs - intercept - slope * x) ** 2).sum()) / total


def _interval(x: NDArray[np.float64], logs: NDArray[np.float64]) -> tuple[float, float]:
    chosen = np.random.default_rng(0).integers(len(logs), size=(_RESAMPLES, len(logs)))
    centred = x - x.mean()
    slopes = logs[chosen].mean(1) @ centred / (centred @ centred)
    low, high = np.percentile(slopes, (2.5, 97.5))
    return float(low), float(high)
