"""The slopes of the capacity of lookups, and what theory says of it."""

import csv
import io
import json
import math

import numpy as np
import pytest
from stored_runs import stored_run
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.errors import ConfigError
from idwbench.report.capacity_slopes import capacity_tables, expected_capacity, slopes_table
from idwbench.report.lookups import Capacities, Capacity, lookup_capacities, lookup_runs
from idwbench.report.render import render
from idwbench.runs.config import run_config

IDW = {"kind": "hash_table", "similarity": "idw", "power": 2}


def lookup(noise=0.2, dimensions=64, items=16, std=1.0, **model):
    dataset = {"name": "lookup", "dimensions": dimensions, "items": items, "noise": noise, "std": std}
    return run_config(dataset, **{**IDW, **model})


def capacities(items, noise=0.2, seeds=(0, 1)):
    """Return capacities that are a function of the dimensions and the seed."""
    (of,) = lookup_runs([stored_run(0.5, dataset=lookup(noise).dataset.model_dump(), **IDW)])
    found = {d: {seed: Capacity(items(d, seed)) for seed in seeds} for d in (8, 16, 32, 64, 128, 256, 512)}
    return Capacities(of, 0.99, found, None)


def cells(table):
    return {column.name: column.texts for column in table.columns}


def test_slopes_below_and_above_the_middle_are_those_of_the_power_laws_there():
    low, high = 1.25, 0.5
    table = slopes_table([capacities(lambda d, seed: 2.0 * min(d, 64) ** low * max(1, d / 64) ** high)])
    found = cells(table)
    assert found["dimensions"] == ["8 to 64", "64 to 512"] and found["slope b"] == ["1.25", "0.50"]
    assert found["items"] == ["27 to 362", "362 to 1,024"]
    assert found["95 % interval"] == ["1.25 to 1.25", "0.50 to 0.50"]
    first, second = table.records()
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
    found = cells(slopes_table([each]))
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


def test_the_expected_capacity_of_many_dimensions_grows_nearly_as_their_root():
    config = lookup()
    slopes = []
    for d in (64, 4096, 2**18):
        first, last = (expected_capacity(config.model, config.dataset, n) for n in (d, 4 * d))
        slopes.append(math.log(last / first) / math.log(4))
    assert slopes == sorted(slopes) and 0.42 < slopes[0] < slopes[-1] < 0.5 and slopes[-1] > 0.48


@pytest.mark.parametrize(
    "settings",
    [{"scaling": "sqrt_dimensions"}, {"weighting": "sparsemax"}, {"projections": "linear"}, {"noise": 0.0}],
)
def test_other_models_and_exact_queries_have_no_expected_capacity(settings):
    config = lookup(**settings)
    assert expected_capacity(config.model, config.dataset, 64) is None


def test_the_expected_capacity_is_none_where_two_items_are_too_many():
    config = lookup(noise=5.0, dimensions=2)
    assert expected_capacity(config.model, config.dataset, 2) is None


def stored_lookups():
    """Return runs whose recall falls below 99 % between 16 and 32 items at any dimension."""
    return [
        stored_run(1.0, metrics={("test", "recall"): 1.0 if n < 32 else 0.9}, train=None, seed=seed,
                   dataset={"name": "lookup", "dimensions": d, "items": n, "noise": 0.2}, **IDW)
        for d in (4, 8, 16, 32, 64) for n in (8, 16, 32) for seed in (0, 1)
    ]  # fmt: skip


def test_capacities_and_slopes_are_in_all_formats():
    tables = capacity_tables(stored_lookups())
    expected = lookup_capacities(stored_lookups())[0].by_dimensions[4][0].items
    records = json.loads(render(tables, "json"))
    rows = list(csv.DictReader(io.StringIO(render(tables, "csv"))))
    assert len(records) == len(rows) == 5 + 2
    assert records[0]["items_mean"] == pytest.approx(expected) == records[0]["items_low"]
    assert (records[0]["dimensions"], records[0]["n"], records[0]["below"], records[0]["above"]) == (4, 2, 0, 0)
    assert records[5]["slope"] == pytest.approx(0, abs=1e-12) and rows[5]["to_dimensions"] == "16"
    with pytest.raises(ConfigError, match="no run on the data set lookup is complete"):
        capacity_tables([])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--capacity"], "only with --table or --leaderboard"),
        (["--leaderboard", "x", "--capacity"], "only with --table"),
        (["--table", "x", "--capacity", "--metric", "recall"], "cannot be combined with --capacity"),
        (["--table", "x", "--capacity", "--by-dataset"], "cannot be combined with --capacity"),
    ],
)
def test_options_that_forbid_capacities_are_refused(arguments, message):
    result = CliRunner().invoke(app, ["report", *arguments])
    assert result.exit_code == 2 and message in result.stderr
