"""Patches that meet demands, against float64 NumPy written from the formulas."""

from itertools import product

import numpy as np
import pytest
from case_tables import case_table
from scipy.optimize import linprog

from idwbench.attention.scores import BUILT_IN_METHODS
from idwbench.attention.slopes import SLOPE_ARRAYS
from idwbench.errors import PatchConflictError, PatchError
from idwbench.models.array_weights import ArrayNetwork
from idwbench.models.demands import Demand
from idwbench.models.patch_solution import solve
from idwbench.models.radii import Rows

METHODS = {
    "idw": {"power": 2.0, "epsilon": 1e-3},
    "inv_dist": {"power": 2.0, "epsilon": 1e-3},
    "neg_dist": {"power": 2.0},
    "gaussian": {"sigma_squared": 2.0},
    "cosine": {"temperature": 0.1},
    "scaled_dot": {"scale": "features"},
}


def network(method="idw", classes=3, slope_rank=0, **parameters):
    rng = np.random.default_rng(0)
    keys, values = rng.normal(size=(20, 4)), 3 * rng.normal(size=(20, classes))
    given = METHODS[method] | parameters
    sizes = dict(zip(SLOPE_ARRAYS, (4, classes), strict=True)) if slope_rank else {}
    slopes = {name: rng.normal(size=(slope_rank, 20, size)).astype(np.float32) for name, size in sizes.items()}
    return ArrayNetwork(BUILT_IN_METHODS[method], given, keys.astype(np.float32), values.astype(np.float32), slopes)


def rows_of(base):
    """Return 300 rows, of which the last 20 have another label than the network gives them."""
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(300, 4)).astype(np.float32)
    labels = base.states(inputs).outputs.argmax(1)
    labels[-20:] = (labels[-20:] + rng.integers(1, base.values.shape[1], 20)) % base.values.shape[1]
    return Rows(base, inputs, labels)


def demands_of(rows):
    """Return demands for the labels of the last 20 rows, which the network gets wrong."""
    pairs = zip(rows.inputs[-20:], rows.targets[-20:].tolist(), strict=True)
    return [Demand(query=query, label=label, name=f"row {row}") for row, (query, label) in enumerate(pairs)]


@pytest.fixture(scope="module")
def base():
    return network()


@pytest.fixture(scope="module")
def rows(base):
    return rows_of(base)


@pytest.fixture(scope="module")
def demand(rows):
    return demands_of(rows)[0]


def patches_of(base, demands, rows=None, **options):
    """Return the prototypes of the patches that meet the demands."""
    return solve(base, demands, rows, **options).prototypes(base)


def patched(repairs):
    """Return which demands have a prototype."""
    return [one.has_prototype for one in repairs.records]


@pytest.mark.parametrize("method", METHODS)
def test_all_patches_hold_and_no_right_prediction_changes_for_every_method(method):
    base = network(method)
    rows = rows_of(base)
    demands = demands_of(rows)
    logits = patches_of(base, demands, rows).outputs(base, rows.inputs)
    np.testing.assert_array_equal(logits.argmax(1), rows.targets)
    leads = [row[one.label] - np.delete(row, one.label).max() for row, one in zip(logits[-20:], demands, strict=True)]
    assert min(leads) >= 2


@pytest.mark.parametrize("method", METHODS)
def test_a_steepness_that_is_not_given_leaves_a_radius_where_weights_fall_fast(method):
    base = network(method)
    near = rows_of(base)
    # The weights of `neg_dist` are smaller there by exp(−200) and more.
    inputs = np.concatenate([near.inputs[:-20], 8 * near.inputs[:10]])
    rows = Rows(base, inputs, base.states(inputs).outputs.argmax(1))
    for demand in demands_of(near)[:5]:
        chosen, plain = (
            patches_of(base, [demand.model_copy(update={"steepness_given": steepness})], rows)
            for steepness in (None, 32.0)
        )
        assert (chosen.outputs(base, inputs).argmax(1) == rows.targets).all()
        assert chosen.radii >= plain.radii and chosen.steepness >= 32
        if method == "idw":
            assert (chosen.radii, chosen.steepness) == (plain.radii, 32.0)
        if method == "neg_dist":
            distances = np.linalg.norm(inputs - demand.query, axis=1)
            assert plain.radii < 0.2 * distances.min() and chosen.radii > 0.45 * distances.min()


def test_labels_of_a_network_whose_logits_hardly_differ_get_a_probability_of_seven_tenths():
    strong = network(classes=10)
    base = ArrayNetwork(strong.method, strong.parameters, strong.keys, 0.01 * strong.values)
    rows = rows_of(base)
    demands = demands_of(rows)
    logits = patches_of(base, demands, rows).outputs(base, rows.inputs[-20:])
    shares = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
    assert min(row[one.label] for row, one in zip(shares, demands, strict=True)) >= 0.7


@pytest.mark.parametrize("power", [1.0, 2.0, 8.0])
def test_exact_patches_have_the_values_of_the_paper_and_of_the_authors(power):
    base = network(power=power)
    rows = rows_of(base)
    query, label = demands_of(rows)[0].query, demands_of(rows)[0].label
    epsilon = 1e-3
    distances = np.sqrt(np.square(query.astype(float) - base.keys.astype(float)).sum(1))
    total = (1 / (epsilon + distances**power)).sum()
    logits = base.states(query[None]).outputs[0]
    gap = np.delete(logits, label).max() - logits[label]
    etas = {
        "exact": 1.001 * epsilon * total * gap,
        "printed": (epsilon + epsilon**power) * total * gap,
        "authors": (1 + epsilon * total) * gap,
    }
    for kind, eta in etas.items():
        patches = patches_of(base, [Demand(query=query, label=label, kind=kind)])
        np.testing.assert_allclose(patches.values[0], eta * np.eye(3)[label], rtol=1e-9)


@pytest.mark.parametrize("kind", ["local", "keep"])
def test_an_input_near_a_patch_that_has_its_label_or_must_stay_gets_no_prototype_and_keeps_it(base, rows, demand, kind):
    radius = patches_of(base, [demand], rows).radii[0]
    near = (demand.query + np.float32(0.25 * radius)).astype(np.float32)
    state = base.states(near[None])
    right = Demand(query=near, label=int(state.outputs.argmax()), kind=kind)
    assert right.label != demand.label
    assert patched(solve(base, [right, demand], rows)) == [False, True]
    patches = patches_of(base, [right, demand], rows)
    # Twice the weight would not change it either.
    assert state.patched(patches.log_weights(near[None]) + np.log(2), patches.values)[0].argmax() == right.label
    assert patches.radii[0] < radius


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("asked", [{}, {"margin": 0.5}, {"confidence": 0.6}])
def test_a_demand_that_the_network_meets_gets_a_prototype_if_other_patches_disturb_it(base, asked, merge):
    near = np.zeros(4, np.float32)
    logits = base.states(near[None]).outputs[0]
    right = Demand(query=near, label=int(logits.argmax()), radius_given=0.005, **asked)
    assert right.is_met(logits)
    loud = Demand(query=near + np.float32(0.01), label=(right.label + 1) % 3, kind="exact", margin=50.0)
    assert patched(solve(base, [right, loud], merge=merge)) == [True, True]
    outputs = patches_of(base, [right, loud], merge=merge).outputs(base, np.stack([right.query, loud.query]))
    assert all(one.is_met(row) for one, row in zip([right, loud], outputs, strict=True))


def test_equal_demands_share_a_prototype_and_merged_ones_too_if_it_serves_both(base, rows, demand):
    assert len(patches_of(base, [demand, demand], rows)) == 1
    radius = patches_of(base, [demand], rows).radii[0]
    near = Demand(query=(demand.query + 0.1 * radius).astype(np.float32), label=demand.label, name="near")
    merged = patches_of(base, [demand, near], rows, merge=True)
    assert len(merged) == 1 < len(patches_of(base, [demand, near], rows))
    logits = merged.outputs(base, np.stack([demand.query, near.query]))
    assert all(one.is_met(row) for one, row in zip([demand, near], logits, strict=True))
    formula = Demand(query=demand.query, label=demand.label, kind="authors")
    larger = Demand(query=demand.query, label=demand.label, kind="exact", margin=50.0)
    assert patched(solve(base, [formula, larger], merge=True)) == [True, True], "a formula does not serve the other"
    assert larger.is_met(patches_of(base, [formula, larger], merge=True).outputs(base, demand.query[None])[0])


@pytest.mark.parametrize("asked", [{}, {"margin": 0.5}, {"confidence": 0.9}])
def test_a_long_list_of_demands_that_conflict_is_refused_early(base, asked, monkeypatch):
    generator, calls = np.random.default_rng(0), []
    monkeypatch.setattr(
        "scipy.optimize.linprog", lambda *given, **options: calls.append(0) or linprog(*given, **options)
    )
    queries = generator.normal(0, 0.5, (60, 4)).astype(np.float32)
    labels = generator.integers(0, 3, 60).tolist()
    demands = [Demand(query=q, label=y, radius_given=2.0, **asked) for q, y in zip(queries, labels, strict=True)]
    with pytest.raises(PatchConflictError, match="this input and this input"):
        solve(base, demands)
    assert len(calls) <= 1


def least_rise(base, queries, labels, radius, margin):
    """Return the least Σ(η − η alone) with which all labels lead by the margin, or None: one program of all leads."""
    states = base.states(queries)
    scale = np.exp(states.log_sum)
    distances = np.linalg.norm(queries[:, None].astype(float) - queries.astype(float), axis=2)
    weights = 1e3 / (1 + (distances / radius) ** 32)
    total = scale + weights.sum(1)
    rest = (scale[:, None] * states.outputs + weights @ states.outputs) / total[:, None]
    shares, places = weights / total[:, None], np.arange(len(labels))
    rivals = np.where(np.eye(3)[labels] == 1, -np.inf, states.outputs).max(1)
    alone = (1 + scale / 1e3) * (rivals - states.outputs[places, labels] + margin)
    pulls, leads = [], []
    for row, other in product(places, range(3)):
        if other == labels[row]:
            continue
        pulls.append(shares[row] * ((labels == labels[row]) * 1.0 - (labels == other)))
        leads.append(rest[row, labels[row]] - rest[row, other] + pulls[-1] @ alone - margin)
    most = 900 * (np.abs(states.outputs).max() + alone.max())
    return linprog(np.ones(len(places)), -np.array(pulls), leads, bounds=(0, most)).fun, alone


@pytest.mark.parametrize("seed", range(12))
def test_values_rise_by_the_least_with_which_all_hold_and_lists_without_any_are_refused(base, seed):
    generator = np.random.default_rng(seed)
    queries = generator.normal(0, 0.4, (12, 4)).astype(np.float32)
    outputs = base.states(queries).outputs
    labels = (outputs.argmax(1) + generator.integers(1, 3, 12)) % 3
    expected, alone = least_rise(base, queries, labels, 0.5, 1.0)
    given = {"margin": 1.0, "radius_given": 0.5}
    demands = [Demand(query=query, label=label, **given) for query, label in zip(queries, labels.tolist(), strict=True)]
    if expected is None:
        with pytest.raises(PatchConflictError):
            solve(base, demands)
        return
    patches = patches_of(base, demands)
    rises = (patches.values - outputs)[np.arange(12), labels] - alone
    assert rises.min() > -1e-9
    # Leads of demands that hold stay, up to those alone: that may take some more.
    assert expected - 1e-3 <= rises.sum() <= 1.5 * expected + 1e-3
    assert all(one.is_met(row) for one, row in zip(demands, patches.outputs(base, queries), strict=True))


def test_a_regression_gets_its_targets_and_no_prediction_gets_worse_than_the_tolerance():
    base = network(classes=2)
    inputs = rows_of(base).inputs
    outputs = base.states(inputs).outputs
    targets = outputs + np.random.default_rng(3).normal(0, 0.3, outputs.shape)
    wanted = targets[-5:] + np.array([1, -1, 1, -1, -1])[:, None]
    demands = [Demand(query=query, target=row.tolist()) for query, row in zip(inputs[-5:], wanted, strict=True)]
    patches = patches_of(base, demands, Rows(base, inputs[:-5], targets[:-5]))
    patched = patches.outputs(base, inputs)
    np.testing.assert_allclose(patched[-5:], wanted, atol=1e-9)
    growth = np.abs(patched - targets) - np.abs(outputs - targets)
    assert growth[:-5].max() <= 0.01 * targets[:-5].std() + 1e-9


def test_the_input_of_a_patch_that_weighs_less_than_the_network_does_not_limit_its_own_radius():
    base = network(classes=2, epsilon=0.5)
    inputs = rows_of(base).inputs
    outputs = base.states(inputs).outputs
    demand = Demand(query=inputs[0], target=(outputs[0] + 1).tolist())
    patches = patches_of(base, [demand], Rows(base, inputs[1:], outputs[1:]))
    np.testing.assert_allclose(patches.outputs(base, inputs[:1])[0], outputs[0] + 1, atol=1e-9)
    assert np.abs(patches.values[0] - outputs[0] - 1).max() > 1  # more than the tolerance away from its own target
    assert 0 < patches.radii[0] < np.linalg.norm(inputs[1:] - inputs[0], axis=1).max()


@pytest.mark.parametrize("radius", [None, 1.0])
def test_a_regression_keeps_an_answer_within_the_tolerance_while_another_is_patched(radius):
    base = network(classes=2)
    inputs = rows_of(base).inputs
    outputs = base.states(inputs).outputs
    wanted = Demand(query=inputs[0], target=(outputs[0] + 1).tolist(), radius_given=radius)
    rows = Rows(base, inputs[2:], outputs[2:]) if radius is None else None
    kept = Demand(query=inputs[1], target=outputs[1].tolist(), kind="keep")
    patched = patches_of(base, [wanted, kept], rows).outputs(base, inputs[:2])
    np.testing.assert_allclose(patched[0], outputs[0] + 1, atol=1e-9)
    change = np.abs(patched[1] - outputs[1]).max()
    assert change <= 0.01 * (1 if rows is None else outputs[2:].std())
    assert change > 0 or radius is None  # a radius that is chosen may be too small to change it at all


def test_a_row_of_equal_logits_stands_in_the_way_of_no_patch(base, rows, demand):
    tied = ArrayNetwork(base.method, base.parameters, base.keys, base.values.copy())
    tied.values[0] = 5.0
    far = np.full((1, 4), 30, np.float32)
    tied.keys[0] = far
    tied = ArrayNetwork(tied.method, tied.parameters | {"epsilon": 0.0}, tied.keys, tied.values)
    assert len(set(tied.states(far).outputs[0])) == 1
    with_tie = Rows(tied, np.concatenate([rows.inputs, far]), np.append(rows.targets, 0))
    wanted = (int(tied.states(demand.query[None]).outputs.argmax()) + 1) % 3
    assert patches_of(tied, [Demand(query=demand.query, label=wanted)], with_tie).radii[0] > 0


@pytest.mark.parametrize("number", [-0.0, 1e-13])
def test_a_training_row_that_hits_the_input_is_the_input_itself(base, rows, number):
    inputs = rows.inputs.copy()
    inputs[0] = [number, 0.0, 0.0, 0.0]
    labels = base.states(inputs).outputs.argmax(1)
    demand = Demand(query=np.zeros(4, np.float32), label=(int(labels[0]) + 1) % 3)
    assert patches_of(base, [demand], Rows(base, inputs, labels)).radii[0] > 1e-9
    with pytest.raises(PatchConflictError):
        solve(base, [demand, Demand(query=inputs[0], label=int(labels[0]), kind="keep")], rows)


def refusals():
    base = network()
    rows = rows_of(base)
    query, label = rows.inputs[-1], int(rows.targets[-1])
    yield "the largest radius needs the training data", lambda: solve(base, [Demand(query=query, label=label)])
    for settings, message in case_table("wrong_inputs")["demands"]:
        yield message, lambda settings=settings: Demand(query=query, label=label, **settings)
    yield (
        "only 'idw' models have an exact",
        lambda: solve(network("cosine"), [Demand(query=query, label=label, kind="exact")]),
    )
    relu = ArrayNetwork(BUILT_IN_METHODS["fc_relu"], {}, base.keys, base.values)
    yield "a network with method 'fc_relu' cannot be patched", lambda: solve(relu, [Demand(query=query, label=label)])
    for given in ({"radius_given": 1.0}, {"kind": "exact"}):
        key = Demand(query=network(epsilon=0.0).keys[0], label=1, **given)
        yield "is a key, which outweighs every patch", lambda key=key: solve(network(epsilon=0.0), [key])
    large = Demand(query=query, label=label, margin=1e308)
    yield "a value that is too large", lambda: solve(base, [large], rows)
    two = network(classes=2)
    other = 1 - int(two.states(query[None]).outputs[0].argmax())
    half = Demand(query=query, label=other, confidence=0.5, radius_given=1.0)
    yield "confidence: the label would not win with probability 0.5, it needs above 0.5$", lambda: solve(two, [half])
    one = Rows(base, rows.inputs[-20:-19], rows.targets[-20:-19])
    yield "the largest radius needs the training data", lambda: solve(base, [Demand(query=query, label=label)], one)


@pytest.mark.parametrize(("message", "call"), list(refusals()))
def test_what_cannot_be_patched_is_refused(message, call):
    with pytest.raises(PatchError, match=message):
        call()
