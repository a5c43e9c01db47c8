"""The capacity of lookups whose recall is known, its laws and slopes, and what theory says of it."""

import json
import math
from itertools import product

import numpy as np
import pytest
from stored_runs import columns, stored_run

from idwbench.errors import ConfigError
from idwbench.report.lookups import (
    Capacities,
    Capacity,
    capacity,
    capacity_table,
    capacity_tables,
    expected_capacity,
    fit_capacity,
    lookup_capacities,
    predicted_capacity,
    slopes_table,
)
from idwbench.report.render import render
from idwbench.report.reports import table
from idwbench.runs.config import run_config

ITEMS = [2**power for power in range(1, 12)]


def known_capacities(law, dimensions=(8, 16, 24, 32), seeds=5, noise=0.0):
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
    for wrong in (({}, 0.99), ({2: 1.0}, 0.0), ({2: 1.0}, 1.5)):
        with pytest.raises(ValueError, match="expected at least one recall"):
            capacity(*wrong)


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


def test_what_is_censored_or_missing_is_not_fitted_nor_are_few_dimensions_and_equal_capacities_do_not_grow():
    found = known_capacities(lambda d: 0.1 * d**2, dimensions=(8, 16, 24, 32, 64))
    found[64][3] = Capacity(2048.0, "above")
    del found[8][0]
    fit = fit_capacity(found)
    assert (fit.dimensions, fit.n_seeds) == ((8, 16, 24, 32), 4)
    assert fit.exponent == pytest.approx(2)
    assert fit_capacity(known_capacities(float, dimensions=(8, 16))) is fit_capacity({}) is None
    fit = fit_capacity(known_capacities(lambda d: 7.0))
    assert (fit.exponent, fit.factor, fit.r_squared["power"]) == pytest.approx((0, 7, 1))


IDW = {"kind": "hash_table", "similarity": "idw", "power": 2}


def lookup(noise=0.2, dimensions=64, items=16, std=1.0, **model):
    dataset = {"name": "lookup", "dimensions": dimensions, "items": items, "noise": noise, "std": std}
    return run_config(dataset, **{**IDW, **model})


def capacities(items, noise=0.2, seeds=(0, 1)):
    """Return capacities that are a function of the dimensions and the seed."""
    config = lookup(noise)
    found = {d: {seed: Capacity(items(d, seed)) for seed in seeds} for d in (8, 16, 32, 64, 128, 256, 512)}
    return Capacities(config.model, "idw", config.dataset, f"noise {noise:g}", 0.99, found, None)


def test_slopes_below_and_above_the_middle_are_those_of_the_power_laws_there():
    low, high = 1.25, 0.5
    slopes = slopes_table([capacities(lambda d, seed: 2.0 * min(d, 64) ** low * max(1, d / 64) ** high)])
    found = columns(slopes)
    assert found["dimensions"] == ["8 to 64", "64 to 512"] and found["slope b"] == ["1.25", "0.50"]
    assert found["items"] == ["27 to 362", "362 to 1,024"]
    assert found["95 % interval"] == ["1.25 to 1.25", "0.50 to 0.50"]
    first, second = slopes.records()
    assert (first["from_dimensions"], second["to_dimensions"], first["n"]) == (8, 512, 2)
    assert first["slope"] == pytest.approx(low) and second["slope"] == pytest.approx(high)
    assert second["expected_slope"] == pytest.approx(
        math.log(second["expected_to_items"] / second["expected_from_items"]) / math.log(8)
    )


def test_dimensions_with_a_seed_that_is_out_of_range_are_not_fitted_and_too_few_have_no_law():
    each = capacities(lambda d, seed: float(d + seed))
    each.by_dimensions[8][1] = Capacity(2.0, "below")
    for d in (256, 512):
        each.by_dimensions[d][0] = Capacity(100.0, "above")
    found = columns(slopes_table([each]))
    assert found["dimensions"] == ["16 to 64", "64 to 512"]
    assert found["slope b"][1] == found["items"][1] == "–" != found["slope b"][0]


@pytest.mark.parametrize(("noise", "power", "std", "dimensions"), [(0.2, 2, 1, 64), (0.5, 2, 1, 512), (0.5, 4, 2, 16)])
def test_the_expected_capacity_is_that_of_drawn_norms(noise, power, std, dimensions):
    config = lookup(noise, dimensions, std=std, power=power)
    n = expected_capacity(config.model, config.dataset, dimensions)
    items = round(n)
    ratio = ((2 * std**2 + noise**2) / noise**2) ** (power / 2)
    generator, draws = np.random.default_rng(0), 4000
    norms = generator.chisquare(dimensions, (draws, items))
    ahead = 2 * (ratio - 1) / (ratio + items - 1)
    recall = (norms[:, 0] * (1 - ahead) < norms[:, 1:].min(1)).mean()
    spread = math.sqrt(0.01 * 0.99 / draws)
    assert abs(recall - 0.99) < 4 * spread + 0.01 / items  # and the rounding of the number of items


OTHERS = [{"scaling": "sqrt_dimensions"}, {"weighting": "sparsemax"}, {"projections": "linear"}, {"noise": 0.0}]


@pytest.mark.parametrize("settings", [*OTHERS, {"noise": 5.0, "dimensions": 2}])
def test_other_models_exact_queries_and_where_two_items_are_too_many_have_no_expected_capacity(settings):
    config = lookup(**settings)
    assert expected_capacity(config.model, config.dataset, config.dataset.dimensions) is None


def stored_lookups(similarity):
    """Return runs of known capacity: of inner products about the dimensions, of others beyond all numbers of items."""
    runs = []
    for d, n, seed in product((4, 8, 16, 32, 64), (2, 8, 32, 128), range(3)):
        recall = 0.99 - 0.1 * math.log(n / (d * 1.1**seed if similarity == "inner_product" else 1e9))
        data = {"name": "lookup", "dimensions": d, "items": n, "noise": 0.2}
        runs.append(stored_run(recall, dataset=data, kind="hash_table", similarity=similarity, seed=seed, train=None))
    return runs


def test_tables_have_capacities_bounds_laws_and_slopes_with_a_record_for_each():
    runs = stored_lookups("inner_product")
    text = render([capacity_table(lookup_capacities([*runs, *stored_lookups("idw")]))], "markdown")
    assert "### Capacity at 99 % recall · noise 0.2 · mean 0 · queries 256" in text
    idw = next(line for line in text.splitlines() if line.startswith("| idw"))
    assert [cell.strip() for cell in idw.split("|")][2:7] == [r"\>128"] * 5
    inner = next(line for line in text.splitlines() if line.startswith("| inner_product"))
    assert "d^" in inner and " to " in inner and "3 seeds" in text
    records = json.loads(render(table(runs, capacity=True).tables, "json"))
    assert len(records) == 5 + 2
    assert records[0]["items_mean"] == pytest.approx(4 * 1.1)
    assert (records[0]["dimensions"], records[0]["n"], records[0]["below"], records[0]["above"]) == (4, 3, 0, 0)
    assert records[5]["slope"] == pytest.approx(1) and records[5]["to_dimensions"] == 16
    for n_dimensions, ends in {1: [], 2: ["4 to 8"], 3: ["4 to 8", "8 to 16"]}.items():  # of an unfinished sweep
        part = [run for run in runs if run.config.dataset.dimensions < 4 * 2**n_dimensions]
        assert columns(capacity_tables(part)[1]).get("dimensions", []) == ends
    with pytest.raises(ConfigError, match="no run on the data set lookup is complete"):
        capacity_tables([])
