from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from idwbench.attention.records import Method
from idwbench.attention.scores import METHODS, idw
from idwbench.errors import PatchError
from idwbench.models.effects import split_effect
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.patching import Criterion, apply_patch, check_patch, make_patch


def network(epsilon: float = 1e-3, power: float = 2.0, *, seed: int = 0, method: str = "idw") -> PrototypeNetwork:
    generator = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(6, 3, generator=generator), torch.randn(6, 4, generator=generator)
    return PrototypeNetwork(METHODS[method], {"power": power, "epsilon": epsilon}, keys, values)


def logits_by_hand(model: PrototypeNetwork, query: np.ndarray) -> np.ndarray:
    """Inverse distance weighting in float64, straight from the paper's formula."""
    keys, values = model.keys.detach().numpy().astype(float), model.values.detach().numpy().astype(float)
    distance = np.sqrt(((keys - query) ** 2).sum(1))
    weights = 1 / (model.parameters_of_method["epsilon"] + distance ** model.parameters_of_method["power"])
    return (weights[:, None] * values).sum(0) / weights.sum()


QUERIES = np.random.default_rng(5).normal(size=(20, 3)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0])
def test_the_default_patch_is_eta_that_ties_and_a_thousandth_more(power, epsilon):
    for query in QUERIES[:6]:
        model = network(epsilon, power)
        before = logits_by_hand(model, query)
        label = int(before.argmin())
        patch = make_patch(model, query, label)
        keys = model.keys.detach().numpy().astype(float)
        total = (1 / (epsilon + np.sqrt(((keys - query) ** 2).sum(1)) ** power)).sum()
        exact = epsilon * total * (before.max() - before[label])
        assert patch.eta == pytest.approx(exact * (1 + patch.criterion_used.amount), rel=1e-6)
        patched = apply_patch(model, patch)
        assert int(patched.predict(query[None])[0]) == label
        assert logits_by_hand(patched, query).argmax() == label
        assert patch.criterion_used.amount < 0.1


def test_a_thousandth_less_than_the_tie_would_not_do():
    model, query = network(), QUERIES[0]
    label = int(logits_by_hand(model, query).argmin())
    patch = make_patch(model, query, label)
    with torch.no_grad():
        patched = apply_patch(model, patch)
        patched.values[-1, label] = patch.eta / (1 + 1e-3) * (1 - 1e-3)
    assert logits_by_hand(patched, query).argmax() != label


@pytest.mark.parametrize("margin", [0.01, 1.0, 30.0])
def test_a_logit_margin_is_met_exactly(margin):
    model, query = network(), QUERIES[1]
    label = int(logits_by_hand(model, query).argmin())
    patch = make_patch(model, query, label, Criterion("logit_margin", margin))
    after = logits_by_hand(apply_patch(model, patch), query)
    assert after[label] - np.delete(after, label).max() == pytest.approx(margin, rel=1e-5)
    assert patch.logit_margin == pytest.approx(margin, rel=1e-5)


@pytest.mark.parametrize("confidence", [0.3, 0.9, 0.999])
def test_a_confidence_is_met_exactly(confidence):
    model, query = network(), QUERIES[2]
    label = int(logits_by_hand(model, query).argmin())
    patch = make_patch(model, query, label, Criterion("confidence", confidence))
    after = logits_by_hand(apply_patch(model, patch), query)
    assert math.isclose(np.exp(after[label]) / np.exp(after).sum(), confidence, rel_tol=1e-5)


def test_a_right_answer_needs_no_patch_but_may_lack_confidence():
    model, query = network(), QUERIES[3]
    label = int(logits_by_hand(model, query).argmax())
    assert make_patch(model, query, label) is None
    assert make_patch(model, query, label, Criterion("confidence", 0.99)) is not None


def test_with_epsilon_zero_the_new_key_decides_alone_at_the_query():
    model, query = network(epsilon=0.0), QUERIES[4]
    label = int(logits_by_hand(model, query).argmin())
    assert int(apply_patch(model, make_patch(model, query, label)).predict(query[None])[0]) == label


@pytest.mark.parametrize("epsilon", [0.0, 1e-3])
def test_a_query_that_equals_a_key_can_be_patched(epsilon):
    model = network(epsilon)
    query = model.keys[2].detach().numpy().copy()
    label = int(model.values[2].argmin())
    assert int(apply_patch(model, make_patch(model, query, label)).predict(query[None])[0]) == label


def test_a_tie_between_classes_is_broken():
    model = network()
    with torch.no_grad():
        model.values.zero_()
    patch = make_patch(model, QUERIES[0], 3)
    assert int(apply_patch(model, patch).predict(QUERIES[:1])[0]) == 3


def test_far_away_with_a_huge_power_a_patch_still_answers():
    model = network(power=1000.0)
    query = np.full(3, 50.0, dtype=np.float32)
    label = int(model.predict(query[None])[0] + 1) % 4
    assert int(apply_patch(model, make_patch(model, query, label)).predict(query[None])[0]) == label


def test_the_effect_on_a_split_counts_changed_predictions(blobs):
    model = PrototypeNetwork(
        METHODS["idw"],
        {"power": 2.0, "epsilon": 1e-3},
        torch.from_numpy(blobs.train.inputs[:6]),
        torch.eye(3).repeat(2, 1),
    )
    wrong = (int(blobs.test.labels[0]) + 1) % 3
    patched = apply_patch(model, make_patch(model, blobs.test.inputs[0], wrong))
    effect = split_effect(model, patched, blobs.test)
    before, after = model.predict(blobs.test.inputs), patched.predict(blobs.test.inputs)
    assert effect.n == 11
    assert effect.changed == (before != after).sum() >= 1
    assert effect.accuracy_after == pytest.approx((after == blobs.test.labels).mean())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((QUERIES[0], 4), "label: expected 0 to 3, got 4"),
        ((QUERIES[0], -1), "label: expected 0 to 3, got -1"),
        ((QUERIES[0][:2], 0), "x: expected 3 numbers, got 2"),
        ((np.full(3, np.nan, dtype=np.float32), 0), "x: expected finite numbers"),
    ],
)
def test_impossible_patches_are_refused(arguments, message):
    with pytest.raises(PatchError, match=message):
        make_patch(network(), *arguments)


def test_only_idw_models_can_be_patched():
    with pytest.raises(PatchError, match="only 'idw' models can be patched, this one is 'inv_dist'"):
        make_patch(network(method="inv_dist"), QUERIES[0], 0)


@pytest.mark.parametrize(
    ("kind", "amount"), [("confidence", 1.0), ("confidence", 0.0), ("margin", -1.0), ("logit_margin", math.inf)]
)
def test_criteria_out_of_range_are_refused(kind, amount):
    with pytest.raises(PatchError, match=f"^{kind}: must"):
        Criterion(kind, amount)


@pytest.mark.parametrize("kind", ["margin", "logit_margin"])
def test_a_value_beyond_float32_is_refused(kind):
    label = int(logits_by_hand(network(), QUERIES[0]).argmin())
    with pytest.raises(PatchError, match=f"^{kind}: float32 cannot hold the value for 1e[+]300"):
        make_patch(network(), QUERIES[0], label, Criterion(kind, 1e300))


def test_a_confidence_with_which_the_label_would_not_win_is_refused_and_the_least_one_named():
    model, query = network(), QUERIES[2]
    label = int(logits_by_hand(model, query).argmin())
    with pytest.raises(PatchError, match=r"would not win with probability 0.2, it needs above 0\.\d+$") as error:
        make_patch(model, query, label, Criterion("confidence", 0.2))
    least = float(str(error.value).split()[-1])
    with pytest.raises(PatchError, match="would not win"):
        make_patch(model, query, label, Criterion("confidence", least - 1e-5))
    patch = make_patch(model, query, label, Criterion("confidence", least + 1e-3))
    after = logits_by_hand(apply_patch(model, patch), query)
    assert after.argmax() == label
    assert 0 < after[label] - np.delete(after, label).max() < 0.01


def test_a_model_of_one_class_is_not_patched():
    model = PrototypeNetwork(METHODS["idw"], {"power": 2.0, "epsilon": 1e-3}, torch.zeros(2, 3), torch.zeros(2, 1))
    with pytest.raises(PatchError, match="one class"):
        make_patch(model, QUERIES[0], 0, Criterion("logit_margin", 1.0))


def unlike_float64(change) -> PrototypeNetwork:
    """An `idw` model whose own scores of keys that the query does not hit are `change(scores)`."""

    def score(inputs, keys, *, power, epsilon):
        scores = idw(inputs, keys, power=power, epsilon=epsilon)
        return torch.where(scores < -math.log(epsilon) - 1e-6, change(scores), scores)

    model = network()
    method = Method("idw", "", score, parameters=METHODS["idw"].parameters)
    return PrototypeNetwork(method, model.parameters_of_method, model.keys.detach(), model.values.detach())


def test_a_margin_lost_in_float32_is_raised_tenfold_until_the_label_wins():
    # The old prototypes weigh a twentieth more than in float64: it takes more than a twentieth over the tie.
    model = unlike_float64(lambda scores: scores + math.log(1.05))
    label = int(logits_by_hand(model, QUERIES[0]).argmin())
    patch = make_patch(model, QUERIES[0], label)
    assert patch.criterion == Criterion("margin", 1e-3)
    assert patch.criterion_used.amount == pytest.approx(0.1)
    assert int(apply_patch(model, patch).predict(QUERIES[:1])[0]) == label


@pytest.mark.parametrize("criterion", [Criterion("logit_margin", 1.0), Criterion("confidence", 0.9)])
def test_a_label_that_wins_less_clearly_than_required_in_float32_is_refused(criterion):
    model = unlike_float64(lambda scores: scores + math.log(1.05))
    label = int(logits_by_hand(model, QUERIES[0]).argmin())
    with pytest.raises(PatchError, match="float32 cannot hold a patch that meets"):
        make_patch(model, QUERIES[0], label, criterion)


def test_a_patch_must_hold_in_a_batch_too():
    model = unlike_float64(lambda scores: scores + (math.log(1.05) if scores.shape[-2] > 1 else 0.0))
    label = int(logits_by_hand(model, QUERIES[0]).argmin())
    assert make_patch(model, QUERIES[0], label).criterion_used.amount == pytest.approx(0.1)


def test_a_patched_model_is_checked_against_its_criterion():
    model = network()
    label = int(logits_by_hand(model, QUERIES[0]).argmin())
    patch = make_patch(model, QUERIES[0], label, Criterion("logit_margin", 1.0))
    patched = apply_patch(model, patch)
    check_patch(patched, patch)
    with torch.no_grad():
        patched.values[-1, label] *= 0.99
    assert int(patched.predict(QUERIES[:1])[0]) == label
    with pytest.raises(PatchError, match=r"^logit_margin: .* meets 1"):
        check_patch(patched, patch)
