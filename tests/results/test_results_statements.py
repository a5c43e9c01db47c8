import math

import pytest
from sqlalchemy import select

from idwbench.results.tables import curves, metrics
from idwbench.runs.results import Curve, CurvePoint

AWKWARD = ("te'st", '100% "%s" :name ?')


@pytest.fixture
def config(make_config):
    return make_config(0)


def rows(store, table):
    with store._database.read() as connection:
        return {tuple(row[1:-1]): row[-1] for row in connection.execute(select(table))}


def test_the_names_of_metrics_may_have_any_characters(store, config, make_result):
    store.finish([make_result(config, metrics={AWKWARD: 0.25, ("test", "nan"): math.nan})])
    assert rows(store, metrics) == {AWKWARD: 0.25}


@pytest.mark.parametrize("n_epochs", [0, 1, 200, 301])
def test_a_curve_of_columns_is_stored_as_its_points_are(store, config, make_config, make_result, n_epochs):
    values = [math.inf if place == 3 else place / 7 for place in range(2 * n_epochs)]
    curve = Curve((("train", "loss"), AWKWARD), values)
    other = make_config(1)
    store.finish([make_result(config, curve=curve), make_result(other, curve=tuple(curve))])
    one, same = (store.load_curve(run.run_key) for run in (config, other))
    assert [repr(point) for point in one] == [repr(point) for point in same]
    assert len(one) == n_epochs
    if n_epochs > 1:
        assert math.isnan(one[1].values[AWKWARD])
        assert rows(store, curves)[2, *AWKWARD] is None


def test_curves_of_different_lengths_are_stored_together(store, make_config, make_result):
    runs = [make_config(seed) for seed in range(4)]
    lengths = (2, 5, 0, 2)
    made = [Curve((("train", "loss"),), [seed + 0.5] * n) for seed, n in enumerate(lengths)]
    store.finish([make_result(run, curve=curve) for run, curve in zip(runs, made, strict=True)])
    for seed, (run, n) in enumerate(zip(runs, lengths, strict=True)):
        expected = [CurvePoint(epoch, {("train", "loss"): seed + 0.5}) for epoch in range(1, n + 1)]
        assert store.load_curve(run.run_key) == expected
