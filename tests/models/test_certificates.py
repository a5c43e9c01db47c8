"""What is certain of a patch, against searches for counterexamples."""

from dataclasses import replace

import numpy as np
import pytest
from test_patch_solution import METHODS, demands_of, network, patches_of, rows_of

from idwbench.attention.scores import BUILT_IN_METHODS
from idwbench.models.array_weights import ArrayNetwork
from idwbench.models.certificates import SMALL_CHANGE, certified_radius, reach
from idwbench.models.patches import PatchPrototypes

# Methods, and the rank of the slopes of values.
NETWORKS = [*((method, 0) for method in METHODS), ("idw", 2), ("cosine", 1)]


def solved(method="idw", slope_rank=0):
    base = network(method, slope_rank=slope_rank)
    rows = rows_of(base)
    demands = demands_of(rows)
    return base, rows, demands, patches_of(base, demands, rows)


def least_lead(base, patches, demand, radius, seed=0):
    """Return the least lead of the label on a sphere in random directions, and towards and away from each key."""
    random = np.random.default_rng(seed).normal(size=(500, len(demand.query)))
    keys = np.concatenate([base.keys, patches.keys]) - demand.query
    steps = np.concatenate([random, keys, -keys])
    steps = radius * steps / np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-12)
    logits = patches.outputs(base, (demand.query + steps).astype(np.float32))
    return (logits[:, demand.label] - np.delete(logits, demand.label, axis=1).max(1)).min()


@pytest.mark.parametrize(("method", "slope_rank"), NETWORKS)
def test_no_input_within_the_certified_radius_loses_the_label_nor_by_rounding_within_a_small_one(method, slope_rank):
    base, _, demands, patches = solved(method, slope_rank)
    small, lost = demands[0].model_copy(update={"radius_given": 1e-5}), []
    for seed, demand in enumerate([*demands, small]):
        own = patches_of(base, [small]) if demand is small else patches
        radius = certified_radius(base, own, demand.query, demand.label)
        assert radius > 0 if own is patches else 1e-6 < radius < 1e-4
        assert least_lead(base, own, demand, radius, seed) > 0
        lost.append(least_lead(base, own, demand, 2 * radius, seed) <= 0)
    assert method != "idw" or slope_rank or np.mean(lost) > 0.5, "the label is lost not far beyond"


@pytest.mark.parametrize(("method", "slope_rank"), NETWORKS)
def test_beyond_its_reach_a_patch_changes_no_logit_by_more_than_a_hundredth(method, slope_rank):
    base, rows, _, patches = solved(method, slope_rank)
    low, high = rows.box
    inputs = np.random.default_rng(4).uniform(low, high, (2000, 4))
    farthest = np.linalg.norm(np.maximum(np.abs(patches.keys - low), np.abs(patches.keys - high)), axis=1)
    reaches = [reach(base, patches, place, float(distance)) for place, distance in enumerate(farthest)]
    assert any(one is not None for one in reaches)
    for place, distance in enumerate(reaches):
        if distance is not None:
            far = inputs[np.linalg.norm(inputs - patches.keys[place], axis=1) >= distance]
            others = patches.take(np.arange(len(patches)) != place)
            assert np.abs(patches.outputs(base, far) - others.outputs(base, far)).max(initial=0) <= SMALL_CHANGE


def test_the_reach_lies_beyond_the_last_distance_at_which_a_patch_matters():
    # A narrow patch of a network whose weights fall faster than the patch's: small within, and large again beyond.
    keys = np.zeros((1, 1), np.float32)
    base = ArrayNetwork(BUILT_IN_METHODS["neg_dist"], {"power": 2.0}, keys, np.float32([[1.0, 0.0]]))
    one = np.ones(1)
    patches = PatchPrototypes(keys, np.array([[0.0, 1.0]]), -20 * one, one, 8 * one)
    inputs = np.linspace(-6, 6, 4001)[:, None]
    changes = np.abs(patches.outputs(base, inputs) - base.states(inputs).outputs).max(1)
    distances = np.abs(inputs[:, 0])
    assert changes[distances < 2].max() < SMALL_CHANGE < changes[distances > 5].max()
    distance = reach(base, patches, 0, 6.0)
    assert distance is None or changes[distances >= distance].max(initial=0) <= SMALL_CHANGE


def test_scores_of_a_plugin_and_learned_ones_have_no_certificate():
    base, _, demands, patches = solved()
    for method in (replace(base.method, sha256="0" * 64), BUILT_IN_METHODS["additive"]):
        other = replace(base, method=method)
        assert certified_radius(other, patches, demands[0].query, demands[0].label) is None
        assert reach(other, patches, 0, 9.0) is None
