"""Capacities and their laws, on recalls whose capacity is known."""

import math
from itertools import product

import numpy as np
import pytest
from stored_runs import stored_run

from idwbench.report.lookups import (
    Capacity,
    capacity,
    capacity_table,
    fit_capacity,
    lookup_capacities,
    predicted_capacity,
)
from idwbench.report.render import render
from idwbench.results.records import StoredRun

ITEMS = [2**power for power in range(1, 12)]


def recalls_of(known: float) -> dict[int, float]:
    """A recall that falls linearly in log(items) and is 0.99 at `known` items."""
    return {n: min(1.0, 0.99 - 0.05 * math.log(n / known)) for n in ITEMS}


def known_capacities(law, dimensions=(8, 16, 24, 32), seeds=5, noise=0.0) -> dict[int, dict[int, Capacity]]:
    generator = np.random.default_rng(0)
    return {d: {s: Capacity(law(d) * math.exp(noise * generator.normal())) for s in range(seeds)} for d in dimensions}


@pytest.mark.parametrize("known", [3.0, 17.5, 400.0, 64.0])
def test_a_recall_that_is_linear_in_the_logarithm_has_its_exact_capacity(known):
    recalls = {n: 0.99 - 0.05 * math.log(n / known) for n in ITEMS}
    assert capacity(recalls).items == pytest.approx(known)
    assert capacity(recalls).censored == ""


@pytest.mark.parametrize(
    ("recalls", "threshold", "expected"),
    [
        ({2: 1.0, 4: 0.99, 8: 0.5}, 0.99, Capacity(4.0)),
        ({8: 0.5, 2: 1.0, 4: 0.99}, 0.5, Capacity(8.0, "above")),
        ({4: 0.98, 8: 0.5}, 0.99, Capacity(4.0, "below")),
        ({4: 0.9}, 0.99, Capacity(4.0, "below")),
    ],
)
def test_a_recall_at_the_threshold_is_enough_and_others_are_bounds(recalls, threshold, expected):
    assert capacity(recalls, threshold) == expected
    assert capacity({2: 1.0, 4: 0.98, 8: 1.0, 16: 0.9}).items < 4  # the first fall counts


@pytest.mark.parametrize(("recalls", "threshold"), [({}, 0.99), ({2: 1.0}, 0.0), ({2: 1.0}, 1.5)])
def test_a_capacity_needs_recalls_and_a_threshold(recalls, threshold):
    with pytest.raises(ValueError, match="expected at least one recall"):
        capacity(recalls, threshold)


def test_a_power_law_and_an_exponential_law_are_found_again():
    power = fit_capacity(known_capacities(lambda d: 0.5 * d**1.7))
    assert power is not None and power.law == "power"
    assert (power.factor, power.exponent, power.r_squared["power"]) == pytest.approx((0.5, 1.7, 1))
    assert power.interval == pytest.approx((1.7, 1.7))
    exponential = fit_capacity(known_capacities(lambda d: 3 * math.exp(0.21 * d)))
    assert exponential is not None and exponential.law == "exponential"
    assert (exponential.factor, exponential.exponent) == pytest.approx((3, 0.21))
    assert predicted_capacity(exponential, [10, 20]) == pytest.approx(3 * np.exp([2.1, 4.2]))
    assert predicted_capacity(power, [4]) == pytest.approx([0.5 * 4**1.7])


def test_the_fit_is_that_of_numpy_and_the_interval_covers_the_noise():
    found = known_capacities(lambda d: 2 * d**1.2, seeds=20, noise=0.3)
    fit = fit_capacity(found)
    assert fit is not None
    x = [math.log(d) for d in found for _ in found[d]]
    y = [math.log(one.items) for by_seed in found.values() for one in by_seed.values()]
    slope, intercept = np.polyfit(x, y, 1)
    assert (fit.exponent, math.log(fit.factor)) == pytest.approx((slope, intercept))
    assert fit.r_squared["power"] == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)
    low, high = fit.interval
    assert low < fit.exponent < high
    # The standard error of the slope, seeds being independent.
    error = 0.3 / math.sqrt(20 * np.var([math.log(d) for d in found]) * len(found))
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.5)


def test_dimensions_with_a_censored_seed_and_seeds_that_are_missing_somewhere_are_not_fitted():
    found = known_capacities(lambda d: 0.1 * d**2, dimensions=(8, 16, 24, 32, 64))
    found[64][3] = Capacity(2048.0, "above")
    del found[8][0]
    fit = fit_capacity(found)
    assert fit is not None
    assert (fit.dimensions, fit.n_seeds) == ((8, 16, 24, 32), 4)
    assert fit.exponent == pytest.approx(2)


def test_few_dimensions_are_not_fitted_and_equal_capacities_have_a_law_without_growth():
    assert fit_capacity(known_capacities(float, dimensions=(8, 16))) is fit_capacity({}) is None
    fit = fit_capacity(known_capacities(lambda d: 7.0))
    assert fit is not None
    assert (fit.exponent, fit.factor, fit.r_squared["power"]) == pytest.approx((0, 7, 1))


def test_the_table_has_capacities_bounds_and_laws():
    def stored(similarity: str, d: int, n: int, seed: int) -> StoredRun:
        dataset = {"name": "lookup", "dimensions": d, "items": n, "noise": 0.0}
        capacity = d * 1.1**seed if similarity == "inner_product" else 1e9
        recall = min(1.0, 0.99 - 0.1 * math.log(n / capacity))
        return stored_run(recall, dataset=dataset, kind="hash_table", similarity=similarity, seed=seed, train=None)

    places = product(("inner_product", "idw"), (4, 8, 16), (2, 8, 32, 128), range(3))
    text = render([capacity_table(lookup_capacities(stored(*place) for place in places))], "markdown")
    assert "### Capacity at 99 % recall · noise 0 · mean 0 · queries 256" in text
    idw = next(line for line in text.splitlines() if line.startswith("| idw"))
    assert [cell.strip() for cell in idw.split("|")][2:5] == [r"\>128"] * 3
    inner = next(line for line in text.splitlines() if line.startswith("| inner_product"))
    assert "d^" in inner and " to " in inner and "3 seeds" in text
