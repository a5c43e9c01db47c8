"""Patches, alone and solved together, against closed forms and float64 NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from idwbench.attention.records import Method
from idwbench.attention.scores import METHODS, idw
from idwbench.errors import PatchConflictError, PatchError
from idwbench.models.criteria import Criterion
from idwbench.models.joint_patches import make_patches
from idwbench.models.linear_programme import smallest_etas
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patching import apply_patch, apply_patches, check_patch, make_patch

QUERIES = np.random.default_rng(5).normal(size=(30, 3)).astype(np.float32)
CRITERIA = [Criterion(), Criterion("logit_margin", 1.0), Criterion("confidence", 0.9)]


def network(epsilon: float = 1e-3, power: float = 2.0, *, method: str = "idw", classes: int = 4) -> PrototypeNetwork:
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(6, 3, generator=generator), torch.randn(6, classes, generator=generator)
    return PrototypeNetwork(METHODS[method], {"power": power, "epsilon": epsilon}, keys, values)


def float64_logits(model: PrototypeNetwork, queries: np.ndarray) -> np.ndarray:
    """Inverse distance weighting, straight from the paper's formula."""
    keys, values = (tensor.detach().numpy().astype(float) for tensor in (model.keys, model.values))
    distances = np.linalg.norm(queries.astype(float)[:, None] - keys[None], axis=2)
    weights = 1 / (model.parameters_of_method["epsilon"] + distances ** model.parameters_of_method["power"])
    return weights @ values / weights.sum(1, keepdims=True)


def logits_of_one(model: PrototypeNetwork, query: np.ndarray) -> np.ndarray:
    return float64_logits(model, query[None])[0]


def lead(logits: np.ndarray, label: int) -> float:
    """Return by how much the logit of a label exceeds the largest other one."""
    return logits[label] - np.delete(logits, label).max()


def least_label(model: PrototypeNetwork, query: np.ndarray = QUERIES[0]) -> int:
    """Return the label with the smallest logit."""
    return int(logits_of_one(model, query).argmin())


def wrong_labels(model: PrototypeNetwork, queries: np.ndarray) -> np.ndarray:
    steps = np.random.default_rng(1).integers(1, model.values.shape[1], size=len(queries))
    return (model.predict(queries) + steps) % model.values.shape[1]


# One patch


@pytest.mark.parametrize("power", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0])
def test_the_default_patch_is_eta_that_ties_and_a_thousandth_more(power, epsilon):
    for query in QUERIES[:2]:
        model = network(epsilon, power)
        before = logits_of_one(model, query)
        label = int(before.argmin())
        patch = make_patch(model, query, label)
        keys = model.keys.detach().numpy().astype(float)
        total = (1 / (epsilon + np.sqrt(((keys - query) ** 2).sum(1)) ** power)).sum()
        tie = epsilon * total * (before.max() - before[label])
        assert patch.criterion_used.amount < 0.1
        assert patch.eta == pytest.approx(tie * (1 + patch.criterion_used.amount), rel=1e-6)
        patched = apply_patch(model, patch)
        assert int(patched.predict(query[None])[0]) == label
        assert lead(logits_of_one(patched, query), label) > 0
        with torch.no_grad():
            patched.values[-1, label] = tie * (1 - 1e-3)
        assert lead(logits_of_one(patched, query), label) < 0


@pytest.mark.parametrize(
    ("kind", "amount"),
    [*(("logit_margin", margin) for margin in (0.01, 1.0, 30.0)), *(("confidence", p) for p in (0.3, 0.9, 0.999))],
)
def test_a_criterion_is_met_exactly(kind, amount):
    model, query = network(), QUERIES[2]
    label = least_label(model, query)
    patch = make_patch(model, query, label, Criterion(kind, amount))
    right = int(logits_of_one(model, query).argmax())  # needs no patch but may lack confidence
    assert make_patch(model, query, right) is None
    assert (make_patch(model, query, right, Criterion(kind, amount)) is None) == (amount in (0.01, 0.3))
    after = logits_of_one(apply_patch(model, patch), query)
    met = {"logit_margin": lead(after, label), "confidence": np.exp(after[label]) / np.exp(after).sum()}
    assert met[kind] == pytest.approx(amount, rel=1e-5)
    assert (patch.logit_margin, patch.confidence) == pytest.approx((met["logit_margin"], met["confidence"]), rel=1e-5)
    patched = apply_patch(model, patch)
    check_patch(patched, patch)
    with torch.no_grad():
        patched.values[-1, label] *= 0.95
    with pytest.raises(PatchError, match=rf"^{kind}: .* meets {amount:g}"):
        check_patch(patched, patch)


ON_A_KEY = network().keys[2].detach().numpy().copy()


@pytest.mark.parametrize(
    ("parameters", "query"),
    [
        pytest.param({"epsilon": 0.0}, QUERIES[4], id="the new key decides alone"),
        pytest.param({"epsilon": 0.0}, ON_A_KEY, id="it shares with another key"),
        pytest.param({"epsilon": 1e-3}, ON_A_KEY, id="it equals another key"),
        pytest.param({"power": 1000.0}, np.full(3, 50.0, dtype=np.float32), id="far away with a huge power"),
    ],
)
@pytest.mark.parametrize("tied", [False, True])
def test_a_patch_answers_in_corners_and_with_a_tie_of_all_classes_too(parameters, query, tied):
    model = network(**parameters)
    if tied:
        with torch.no_grad():
            model.values.zero_()
    label = int(model.predict(query[None])[0] + 1) % 4
    assert int(apply_patch(model, make_patch(model, query, label)).predict(query[None])[0]) == label


NAN = np.full(3, np.nan, dtype=np.float32)
ONE_CLASS = PrototypeNetwork(METHODS["idw"], {"power": 2.0, "epsilon": 1e-3}, torch.zeros(2, 3), torch.zeros(2, 1))
BEYOND = "float32 cannot hold the value for 1e[+]300"
# A label of None is the one with the smallest logit.
REFUSED = [
    (network(), QUERIES[0], 4, Criterion(), "label: expected 0 to 3, got 4"),
    (network(), QUERIES[0], -1, Criterion(), "label: expected 0 to 3, got -1"),
    (network(), QUERIES[0][:2], 0, Criterion(), "x: expected 3 numbers, got 2"),
    (network(), NAN, 0, Criterion(), "x: expected finite numbers"),
    (network(method="inv_dist"), QUERIES[0], 0, Criterion(), "only 'idw' models can be patched, this one is"),
    (ONE_CLASS, QUERIES[0], 0, Criterion("logit_margin", 1.0), "one class"),
    (network(), QUERIES[0], None, Criterion("margin", 1e300), f"^margin: {BEYOND}"),
    (network(), QUERIES[0], None, Criterion("logit_margin", 1e300), f"^logit_margin: {BEYOND}"),
    (network(), QUERIES[0], None, Criterion("confidence", 0.2), r"^confidence: .* would not win with probability 0\.2"),
]


@pytest.mark.parametrize(
    ("model", "query", "label", "criterion", "message"), REFUSED, ids=lambda value: str(value)[:30]
)
def test_impossible_patches_are_refused_alone_and_together(model, query, label, criterion, message):
    label = least_label(model, query) if label is None else label
    with pytest.raises(PatchError, match=message):
        make_patch(model, query, label, criterion)
    with pytest.raises(PatchError, match=message):
        make_patches(model, query[None], np.array([label]), criterion)


def test_a_confidence_with_which_the_label_would_not_win_is_refused_and_the_least_one_named():
    model, query = network(), QUERIES[2]
    label = least_label(model, query)
    with pytest.raises(PatchError, match=r"would not win with probability 0.2, it needs above 0\.\d+$") as error:
        make_patch(model, query, label, Criterion("confidence", 0.2))
    least = float(str(error.value).split()[-1])
    with pytest.raises(PatchError, match="would not win"):
        make_patch(model, query, label, Criterion("confidence", least - 1e-5))
    patch = make_patch(model, query, label, Criterion("confidence", least + 1e-3))
    assert 0 < lead(logits_of_one(apply_patch(model, patch), query), label) < 0.01


def unlike_float64(change) -> PrototypeNetwork:
    """An `idw` model whose own scores of keys that the query does not hit are `change(scores)`."""

    def score(inputs, keys, *, power, epsilon):
        scores = idw(inputs, keys, power=power, epsilon=epsilon)
        return torch.where(scores < -math.log(epsilon) - 1e-6, change(scores), scores)

    model = network()
    method = Method("idw", "", score, parameters=METHODS["idw"].parameters)
    return PrototypeNetwork(method, model.parameters_of_method, model.keys.detach(), model.values.detach())


# The old prototypes weigh a twentieth more than in float64: it takes more than a twentieth over the tie.
def heavier(scores: torch.Tensor) -> torch.Tensor:
    return scores + math.log(1.05)


def heavier_in_a_batch(scores: torch.Tensor) -> torch.Tensor:
    return heavier(scores) if scores.shape[-2] > 1 else scores


@pytest.mark.parametrize("change", [heavier, heavier_in_a_batch])
def test_a_margin_lost_in_float32_is_raised_tenfold_until_the_label_wins_alone_and_in_a_batch(change):
    model = unlike_float64(change)
    label = least_label(model)
    patch = make_patch(model, QUERIES[0], label)
    assert patch.criterion == Criterion("margin", 1e-3)
    assert patch.criterion_used.amount == pytest.approx(0.1)
    assert int(apply_patch(model, patch).predict(QUERIES[:1])[0]) == label
    for criterion in CRITERIA[1:]:
        with pytest.raises(PatchError, match="float32 cannot hold a patch that meets"):
            make_patch(model, QUERIES[0], label, criterion)


# Patches that are solved together


@pytest.mark.parametrize("keep_logits", [False, True])
@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda one: one.kind)
@pytest.mark.parametrize(("epsilon", "power"), [(0.0, 2.0), (1e-6, 0.5), (1.0, 8.0)])
def test_one_patch_has_the_eta_of_a_patch_alone(epsilon, power, criterion, keep_logits):
    model = network(epsilon, power)
    label = int(wrong_labels(model, QUERIES[:1])[0])
    alone = make_patch(model, QUERIES[0], label, criterion, keep_logits=keep_logits)
    (joint,) = make_patches(model, QUERIES[:1], np.array([label]), criterion, keep_logits=keep_logits)
    assert joint.eta == pytest.approx(alone.eta, rel=1e-6)
    assert joint.lead == pytest.approx(alone.lead, rel=1e-9)
    assert (joint.logit_margin, joint.confidence) == pytest.approx((alone.logit_margin, alone.confidence), rel=1e-5)


@pytest.mark.parametrize("keep_logits", [False, True])
@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda one: one.kind)
def test_all_patches_hold_together_in_float64_and_in_the_model(criterion, keep_logits):
    model, queries = network(), QUERIES[:8]
    labels = wrong_labels(model, queries)
    labels[3] = model.predict(queries[3:4])[0]  # what is right needs no patch, and stays right
    patches = make_patches(model, queries, labels, criterion, keep_logits=keep_logits)
    assert len(patches) == (7 if criterion.kind == "margin" else 8)
    after = apply_patches(model, patches)
    leads = np.array([lead(*row) for row in zip(float64_logits(after, queries), labels, strict=True)])
    if criterion.kind == "confidence":
        shares = np.exp(float64_logits(after, queries))
        assert (shares[range(8), labels] / shares.sum(1) >= 0.9 * (1 - 1e-4)).all()
    elif criterion.kind == "logit_margin":
        assert (leads >= 0.999).all()
    assert (leads > 0).all()
    assert (after.predict(queries) == labels).all()
    assert [int(after.predict(query[None])[0]) for query in queries] == labels.tolist()


def test_the_patches_of_two_classes_solve_the_linear_equations_of_their_leads():
    model = network(epsilon=0.1, classes=2)
    queries, labels = QUERIES[:2], wrong_labels(model, QUERIES[:2])
    patches = make_patches(model, queries, labels, Criterion("logit_margin", 1.0))
    keys = torch.cat([model.keys.detach(), torch.from_numpy(queries)])
    values = torch.cat([model.values.detach(), torch.zeros(2, 2)])
    rest = float64_logits(PrototypeNetwork(model.method, model.parameters_of_method, keys, values), queries)
    sign = np.where(labels == 0, 1.0, -1.0)
    weights = 1 / (0.1 + np.linalg.norm(queries[:, None].astype(float) - keys.numpy()[None], axis=2) ** 2)
    coefficients = (weights / weights.sum(1, keepdims=True))[:, -2:] * sign[:, None] * sign[None]
    etas = np.linalg.solve(coefficients, 1.0 - sign * (rest[:, 0] - rest[:, 1]))
    np.testing.assert_allclose([patch.eta for patch in patches], etas, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_no_smaller_sum_of_etas_does_on_a_grid_in_any_units(scale):
    coefficients = np.array([[1.0, -0.4], [-0.3, 1.0], [0.5, 0.5]])
    required, units = np.array([0.2, 0.1, 0.3]), np.array([scale, 1.0])
    etas = smallest_etas(coefficients / units, required, units) / units
    assert (coefficients @ etas >= required - 1e-9).all()
    grid = np.array(list(itertools.product(np.linspace(0, 1, 201), repeat=2)))
    feasible = grid[(grid @ coefficients.T >= required - 1e-9).all(1)]
    smallest = (feasible * units).sum(1).min()
    assert smallest - 0.02 * units.max() <= (etas * units).sum() <= smallest + 1e-9 * units.max()


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda one: one.kind)
@pytest.mark.parametrize("distance", [0.0, 1e-6, 1e-2])
def test_near_inputs_with_equal_labels_hold_together_and_equal_ones_count_once(distance, criterion):
    model = network()
    near = np.stack([QUERIES[0], QUERIES[0] + np.float32([distance, 0, 0])])
    labels = np.repeat(wrong_labels(model, near[:1]), 2)
    patches = make_patches(model, near, labels, criterion)
    assert (apply_patches(model, patches).predict(near) == labels).all()
    if distance == 0:
        assert [patch.eta for patch in patches] == [make_patches(model, near[:1], labels[:1], criterion)[0].eta]


@pytest.mark.parametrize("distance", [0.0, 1e-6, 1e-4])
def test_near_inputs_with_different_labels_conflict_and_the_first_three_are_named(distance, monkeypatch):
    model = network()
    near = np.stack([QUERIES[1], QUERIES[0], QUERIES[0] + np.float32([distance, 0, 0])])
    first = int(model.predict(QUERIES[:1])[0])
    labels = np.array([int(wrong_labels(model, near[:1])[0]), (first + 1) % 4, (first + 2) % 4])
    with pytest.raises(PatchConflictError, match="different labels for input 1 and input 2") as error:
        make_patches(model, near, labels, Criterion("logit_margin", 1.0))
    ((one, other, apart),) = error.value.conflicts
    assert (one, other) == ("input 1", "input 2")
    assert apart == pytest.approx(float(np.linalg.norm(near[1] - near[2])), abs=1e-12)
    # What counts as near is a matter of what is named.
    monkeypatch.setattr("idwbench.models.joint_patches.CONFLICT_DISTANCE", 1e-9)
    if distance:
        with pytest.raises(PatchConflictError, match="no η makes every input get its label") as error:
            make_patches(model, near, labels, Criterion("logit_margin", 1.0))
        assert error.value.conflicts == ()
    with pytest.raises(PatchConflictError) as error:
        make_patches(network(), np.repeat(QUERIES[:1], 4, axis=0), np.arange(4))
    message, listed = str(error.value), len(error.value.conflicts)
    assert listed > message.count("distance 0") == 3
    assert message.endswith(f"; and {listed - 3} more") and "\n" not in message


def test_an_input_that_the_others_would_break_gets_a_patch_of_its_own():
    model = network()
    right = int(model.predict(QUERIES[:1])[0])
    ring = QUERIES[0] + np.float32(1e-2) * np.concatenate([np.eye(3), -np.eye(3)]).astype(np.float32)
    queries = np.concatenate([QUERIES[:1], ring])
    labels = np.array([right] + [(right + 1) % 4] * 6)
    patches = make_patches(model, queries, labels)
    assert any(np.array_equal(patch.key, QUERIES[0]) for patch in patches)
    assert (apply_patches(model, patches).predict(queries) == labels).all()
    assert make_patches(model, QUERIES, model.predict(QUERIES)) == []


def test_kept_logits_are_those_before_the_patch_but_of_the_label():
    model = network()
    label = int(wrong_labels(model, QUERIES[:1])[0])
    patch = make_patch(model, QUERIES[0], label, Criterion("logit_margin", 2.0), keep_logits=True)
    before, after = (logits_of_one(one, QUERIES[0]) for one in (model, apply_patches(model, [patch])))
    np.testing.assert_allclose(np.delete(after, label), np.delete(before, label), rtol=1e-5)
    assert lead(after, label) == pytest.approx(2, rel=1e-5)
