"""Patches that are solved together, against closed forms and float64 NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from idwbench.attention.scores import METHODS
from idwbench.errors import PatchConflictError, PatchError
from idwbench.models.criteria import Criterion
from idwbench.models.joint_patches import make_patches
from idwbench.models.linear_programme import smallest_etas
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patching import apply_patches, make_patch

QUERIES = np.random.default_rng(5).normal(size=(30, 3)).astype(np.float32)
CRITERIA = [Criterion(), Criterion("logit_margin", 1.0), Criterion("confidence", 0.9)]


def network(epsilon: float = 1e-3, power: float = 2.0, *, classes: int = 4) -> PrototypeNetwork:
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(6, 3, generator=generator), torch.randn(6, classes, generator=generator)
    return PrototypeNetwork(METHODS["idw"], {"power": power, "epsilon": epsilon}, keys, values)


def float64_logits(model: PrototypeNetwork, queries: np.ndarray) -> np.ndarray:
    keys, values = (tensor.detach().numpy().astype(float) for tensor in (model.keys, model.values))
    distances = np.linalg.norm(queries.astype(float)[:, None] - keys[None], axis=2)
    weights = 1 / (model.parameters_of_method["epsilon"] + distances ** model.parameters_of_method["power"])
    return weights @ values / weights.sum(1, keepdims=True)


def wrong_labels(model: PrototypeNetwork, queries: np.ndarray, *, seed: int = 1) -> np.ndarray:
    classes = model.values.shape[1]
    steps = np.random.default_rng(seed).integers(1, classes, size=len(queries))
    return (model.predict(queries) + steps) % classes


@pytest.mark.parametrize("keep_logits", [False, True])
@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda one: one.kind)
@pytest.mark.parametrize(("epsilon", "power"), [(0.0, 2.0), (1e-6, 0.5), (1e-3, 2.0), (1.0, 8.0)])
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
    model, queries = network(), QUERIES[:12]
    labels = wrong_labels(model, queries)
    patches = make_patches(model, queries, labels, criterion, keep_logits=keep_logits)
    assert len(patches) == len(queries)
    after = apply_patches(model, patches)
    logits = float64_logits(after, queries)
    others = np.where(np.arange(4) == labels[:, None], -np.inf, logits)
    leads = logits[np.arange(len(labels)), labels] - others.max(1)
    assert (leads >= 0.999 * np.array([patch.lead for patch in patches if criterion.kind != "confidence"] or [0])).all()
    if criterion.kind == "confidence":
        chosen = np.exp(logits[np.arange(len(labels)), labels]) / np.exp(logits).sum(1)
        assert (chosen >= 0.9 * (1 - 1e-4)).all()
    assert (after.predict(queries) == labels).all()
    assert [int(after.predict(query[None])[0]) for query in queries] == labels.tolist()


def test_the_patches_of_two_classes_solve_the_linear_equations_of_their_leads():
    model = network(epsilon=0.1, classes=2)
    queries, labels = QUERIES[:2], wrong_labels(model, QUERIES[:2])
    patches = make_patches(model, queries, labels, Criterion("logit_margin", 1.0))
    bare = PrototypeNetwork(
        model.method,
        model.parameters_of_method,
        torch.cat([model.keys.detach(), torch.from_numpy(queries)]),
        torch.cat([model.values.detach(), torch.zeros(2, 2)]),
    )
    rest = float64_logits(bare, queries)
    sign = np.array([1.0 if label == 0 else -1.0 for label in labels])
    distance = np.linalg.norm(queries[:, None].astype(float) - bare.keys.detach().numpy()[None], axis=2)
    weights = 1 / (0.1 + distance**2)
    weights /= weights.sum(1, keepdims=True)
    coefficients = weights[:, -2:] * sign[:, None] * sign[None]
    etas = np.linalg.solve(coefficients, 1.0 - sign * (rest[:, 0] - rest[:, 1]))
    np.testing.assert_allclose([patch.eta for patch in patches], etas, rtol=1e-5)


def test_no_smaller_sum_of_etas_does_on_a_grid():
    coefficients = np.array([[1.0, -0.4], [-0.3, 1.0], [0.5, 0.5]])
    required = np.array([0.2, 0.1, 0.3])
    found = smallest_etas(coefficients, required, np.ones(2))
    assert (coefficients @ found >= required - 1e-9).all()
    grid = np.array(list(itertools.product(np.linspace(0, 1, 201), repeat=2)))
    feasible = grid[(grid @ coefficients.T >= required - 1e-9).all(1)]
    assert found.sum() <= feasible.sum(1).min() + 1e-9
    assert found.sum() >= feasible.sum(1).min() - 0.02


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_the_units_of_the_etas_do_not_matter(scale):
    coefficients, required = np.array([[1.0, -0.4], [-0.3, 1.0]]), np.array([0.2, 0.1])
    exact = np.linalg.solve(coefficients, required) * np.array([scale, 1.0])
    found = smallest_etas(coefficients / np.array([scale, 1.0]), required, np.array([scale, 1.0]))
    np.testing.assert_allclose(found, exact, rtol=1e-8)


def test_equal_inputs_with_equal_labels_count_once():
    model = network()
    label = wrong_labels(model, QUERIES[:1])
    once = make_patches(model, QUERIES[:1], label)
    twice = make_patches(model, QUERIES[[0, 0, 0]], np.repeat(label, 3))
    assert [patch.eta for patch in twice] == [patch.eta for patch in once]


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda one: one.kind)
@pytest.mark.parametrize("distance", [1e-6, 1e-4, 1e-2])
def test_near_inputs_with_equal_labels_hold_together(distance, criterion):
    model = network()
    near = np.stack([QUERIES[0], QUERIES[0] + np.float32([distance, 0, 0])])
    labels = np.repeat(wrong_labels(model, near[:1]), 2)
    after = apply_patches(model, make_patches(model, near, labels, criterion))
    assert (after.predict(near) == labels).all()


@pytest.mark.parametrize("distance", [0.0, 1e-6, 1e-4])
def test_near_inputs_with_different_labels_conflict_and_are_named(distance):
    model = network()
    near = np.stack([QUERIES[1], QUERIES[0], QUERIES[0] + np.float32([distance, 0, 0])])
    first = int(model.predict(QUERIES[:1])[0])
    labels = np.array([int(wrong_labels(model, near[:1])[0]), (first + 1) % 4, (first + 2) % 4])
    with pytest.raises(PatchConflictError, match="different labels for input 1 and input 2") as error:
        make_patches(model, near, labels, Criterion("logit_margin", 1.0))
    ((one, other, found),) = error.value.conflicts
    assert (one, other) == ("input 1", "input 2")
    assert found == pytest.approx(float(np.linalg.norm(near[1] - near[2])), abs=1e-12)


def test_of_many_conflicts_three_are_named_and_the_others_counted():
    model = network()
    queries = np.repeat(QUERIES[:1], 4, axis=0)
    with pytest.raises(PatchConflictError) as error:
        make_patches(model, queries, np.arange(4))
    message, listed = str(error.value), len(error.value.conflicts)
    assert listed > 3
    assert message.count("distance 0") == 3
    assert message.endswith(f"; and {listed - 3} more")
    assert "\n" not in message


def test_a_conflict_of_inputs_that_do_not_count_as_near_is_reported_without_pairs(monkeypatch):
    monkeypatch.setattr("idwbench.models.joint_patches.CONFLICT_DISTANCE", 1e-4)
    near = np.stack([QUERIES[0], QUERIES[0] + np.float32([1e-4, 0, 0])])
    labels = (network().predict(near) + np.array([1, 2])) % 4
    with pytest.raises(PatchConflictError, match="no η makes every input get its label") as error:
        make_patches(network(), near, labels, Criterion("logit_margin", 1.0))
    assert error.value.conflicts == ()


def test_an_input_that_is_right_gets_no_patch_but_stays_right():
    model = network()
    labels = wrong_labels(model, QUERIES[:8])
    labels[3] = model.predict(QUERIES[3:4])[0]
    patches = make_patches(model, QUERIES[:8], labels)
    assert len(patches) == 7
    assert not any(np.array_equal(patch.key, QUERIES[3]) for patch in patches)
    assert (apply_patches(model, patches).predict(QUERIES[:8]) == labels).all()


def test_an_input_that_the_others_would_break_gets_a_patch_of_its_own():
    model = network()
    right = int(model.predict(QUERIES[:1])[0])
    ring = QUERIES[0] + np.float32(1e-2) * np.concatenate([np.eye(3), -np.eye(3)]).astype(np.float32)
    queries = np.concatenate([QUERIES[:1], ring])
    labels = np.array([right] + [(right + 1) % 4] * 6)
    patches = make_patches(model, queries, labels)
    assert any(np.array_equal(patch.key, QUERIES[0]) for patch in patches)
    assert (apply_patches(model, patches).predict(queries) == labels).all()


def test_nothing_is_patched_where_all_labels_are_right():
    assert make_patches(network(), QUERIES, network().predict(QUERIES)) == []


def test_kept_logits_are_those_before_the_patch_but_of_the_label():
    model = network()
    label = int(wrong_labels(model, QUERIES[:1])[0])
    patch = make_patch(model, QUERIES[0], label, Criterion("logit_margin", 2.0), keep_logits=True)
    before, after = (float64_logits(one, QUERIES[:1])[0] for one in (model, apply_patches(model, [patch])))
    np.testing.assert_allclose(np.delete(after, label), np.delete(before, label), rtol=1e-5)
    assert after[label] - np.delete(after, label).max() == pytest.approx(2, rel=1e-5)


def test_keeping_the_logits_of_several_classes_changes_more_predictions_of_others():
    model = network(classes=6)
    points = np.random.default_rng(2).normal(size=(500, 3)).astype(np.float32)
    before, changed = model.predict(points), {False: 0, True: 0}
    for query, label in zip(QUERIES[:10], wrong_labels(model, QUERIES[:10]), strict=True):
        for keep_logits in (False, True):
            after = apply_patches(model, make_patches(model, query[None], label[None], keep_logits=keep_logits))
            changed[keep_logits] += int((after.predict(points) != before).sum())
    assert changed[False] < changed[True]


@pytest.mark.parametrize(
    ("queries", "label", "message"),
    [
        (QUERIES[:1, :2], 0, "x: expected 3 numbers, got 2"),
        (QUERIES[:1], 4, "label: expected 0 to 3, got 4"),
        (np.full((1, 3), np.nan, np.float32), 0, "x: expected finite numbers"),
    ],
)
def test_invalid_queries_are_refused(queries, label, message):
    with pytest.raises(PatchError, match=message):
        make_patches(network(), queries, np.array([label]))


def test_a_confidence_with_which_no_label_would_win_is_refused():
    model = network()
    labels = wrong_labels(model, QUERIES[:2])
    with pytest.raises(PatchError, match=r"^confidence: .* would not win with probability 0\.2"):
        make_patches(model, QUERIES[:2], labels, Criterion("confidence", 0.2))
