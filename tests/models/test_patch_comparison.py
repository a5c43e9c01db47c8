"""Comparisons of patches with other ways to mend a prediction, against networks that are patched by formula."""

import numpy as np
import pytest
from scipy.special import softmax
from test_patch_study import Network

from idwbench.attention.scores import get_method
from idwbench.data.dataset import Split
from idwbench.models.array_weights import ArrayNetwork, calibration_error
from idwbench.models.patch_comparison import compare_ways
from idwbench.models.repair import perturbed
from idwbench.runs.metrics import METRICS, PATCH_MEASURES, PATCH_WAYS

SHAPE = (3, 2)
PAPER = ("exact", "margin_1", "confidence_50", "confidence_90", "authors")


def images(n, seed):
    """Overlapping classes of images of 3 × 2 pixels."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 3, n)
    centres = np.random.default_rng(9).normal(size=(3, 6))
    return Split((centres[labels] + 0.9 * generator.normal(size=(n, 6))).astype(np.float32), labels)


DATA = {"train": images(150, 0), "test": images(120, 1)}


def a_base(method="idw"):
    generator, train = np.random.default_rng(5), DATA["train"]
    keys = np.stack([train.inputs[train.labels == label][:2].mean(0) for label in (0, 0, 1, 1, 2, 2)])
    keys = (keys + 0.3 * generator.normal(size=keys.shape)).astype(np.float32)
    values = (2 * np.eye(3)[[0, 0, 1, 1, 2, 2]] + generator.normal(size=(6, 3))).astype(np.float32)
    return ArrayNetwork(get_method(method), get_method(method).resolve({}), keys, values)


class Oracle(Network):
    """The network in float64, with one more weight w at an input."""

    def __init__(self, base):
        super().__init__(base, base.keys, base.values)

    def patched(self, points, weights, value):
        own = self.sums(points)
        return (own[:, None] * self.logits(points) + weights[:, None] * value) / (own + weights)[:, None]


@pytest.fixture(scope="module")
def study():
    """The network, its wrong inputs and their labels, and the comparison; the retrained network is another one."""
    base, asked = a_base(), []

    def retrain(inputs, labels):
        asked.append((inputs, labels))
        return ArrayNetwork(base.method, base.parameters, base.keys, 2 * base.values[:, ::-1])

    metrics, arrays = compare_ways(base, DATA, 25, SHAPE, retrain)
    wrong = np.flatnonzero(Oracle(base).logits(DATA["test"].inputs).argmax(1) != DATA["test"].labels)[:25]
    assert len(wrong) == 25 and len(asked) == 1
    np.testing.assert_array_equal(asked[0][0], DATA["test"].inputs[wrong])
    np.testing.assert_array_equal(asked[0][1], DATA["test"].labels[wrong])
    return base, wrong, metrics, arrays


def expected_measures(outputs, base, rows):
    """The measures of a network that gives `outputs(points)`, where these rows of the test data were mended."""
    test, before = DATA["test"], Oracle(base).logits(DATA["test"].inputs)
    after = outputs(test.inputs)
    others = np.array([row for row in range(len(test)) if row not in rows])
    was_right, is_right = before.argmax(1) == test.labels, after.argmax(1) == test.labels
    shift_kept, neighbours = [], []
    for row in rows:
        shift_kept += (
            outputs(perturbed(test.inputs[[row]], np.ones(6), 0, SHAPE)["shifts"][0]).argmax(1) == test.labels[row]
        ).tolist()
        alike = [other for other in np.flatnonzero(test.labels == test.labels[row]) if other != row]
        alike.sort(key=lambda other: np.linalg.norm(test.inputs[other].astype(float) - test.inputs[row]))
        neighbours += is_right[alike[:10]].tolist()
    return {
        "success": is_right[rows].mean(),
        "probability": softmax(after[rows], 1)[np.arange(len(rows)), test.labels[rows]].mean(),
        "shift_kept": np.mean(shift_kept),
        "neighbours_right": np.mean(neighbours),
        "better": (is_right & ~was_right)[others].sum(),
        "worse": (~is_right & was_right)[others].sum(),
        "calibration_error": calibration_error(after, test.labels),
        "logit_change": np.abs(after - before)[others].max(),
    }


def measures(table, way, place):
    values = dict(zip(PATCH_MEASURES, table[PATCH_WAYS.index(way), :, place], strict=True))
    assert 0 <= values.pop("noise_kept") <= 1
    return values


@pytest.mark.parametrize("case", [0, 7, 24])
@pytest.mark.parametrize("way", ["unpatched", *PAPER, "local", "local_half", "local_s8", "local_s2", "override"])
def test_each_input_alone_is_patched_by_the_formula_of_the_way(study, way, case):
    base, wrong, _, arrays = study
    oracle, query, label = Oracle(base), DATA["test"].inputs[wrong[case]], DATA["test"].labels[wrong[case]]
    logits, epsilon = oracle.logits(query[None])[0], base.parameters["epsilon"]
    ratio = epsilon * oracle.sums(query[None])[0]
    one_hot, gap = np.eye(3)[label], np.delete(logits, label).max() - logits[label]
    steepness = {"local_s8": 8, "local_s2": 2}.get(way, 32)
    radius = arrays["radii"][{32: 0, 8: 1, 2: 2}[steepness], case] / (2 if way == "local_half" else 1)

    def outputs(points):
        distances = np.linalg.norm(points.astype(np.float64) - query, axis=1)
        if way == "unpatched":
            return oracle.logits(points)
        if way in PAPER:
            rest = np.delete(logits, label) * ratio / (1 + ratio)
            share = {"confidence_50": 0.5, "confidence_90": 0.9}.get(way)
            wanted = {"exact": 1.001 * ratio * gap, "margin_1": ratio * gap + 1 + ratio, "authors": (1 + ratio) * gap}
            if share is not None:  # log-odds of the label beside the other logits, which shrink
                needed = np.log(np.exp(rest).sum()) + np.log(share / (1 - share))
                wanted[way] = (1 + ratio) * needed - ratio * logits[label]
            return oracle.patched(points, 1 / (epsilon + distances ** base.parameters["power"]), wanted[way] * one_hot)
        value = logits + (1 + ratio) * (gap + 2) * one_hot
        if way == "override":
            return np.where((distances < radius)[:, None], value, oracle.logits(points))
        with np.errstate(over="ignore"):
            return oracle.patched(points, 1 / epsilon / (1 + (distances / radius) ** steepness), value)

    expected = expected_measures(outputs, base, wrong[[case]])
    assert measures(arrays["alone"], way, case) == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_radii_are_the_largest_for_which_no_right_prediction_of_the_training_data_changes(study):
    base, wrong, metrics, arrays = study
    oracle, train = Oracle(base), DATA["train"]
    before = oracle.logits(train.inputs)
    right = before.argmax(1) == train.labels
    n_limited = 0
    for steepness, radii in zip((32, 8, 2), arrays["radii"], strict=True):
        for case, row in enumerate(wrong):
            query, label = DATA["test"].inputs[row], DATA["test"].labels[row]
            logits, ratio = oracle.logits(query[None])[0], 1e-3 * oracle.sums(query[None])[0]
            value = logits + (1 + ratio) * (np.delete(logits, label).max() - logits[label] + 2) * np.eye(3)[label]
            distances = np.linalg.norm(train.inputs.astype(np.float64) - query, axis=1)
            assert arrays["nearest"][case] == pytest.approx(distances.min())

            def harmed(radius, distances=distances, value=value, steepness=steepness):
                weights = 1e3 / (1 + (distances / radius) ** steepness)
                return (oracle.patched(train.inputs, weights, value).argmax(1) != train.labels)[right].any()

            assert not harmed((1 - 1e-9) * radii[case])
            n_limited += harmed((1 + 1e-6) * radii[case])
    assert n_limited >= 50, "the others reach the cap"
    relative = (arrays["radii"] / arrays["nearest"]).mean(1)
    names = ("local", "local_s8", "local_s2")
    assert [metrics[name, "relative_radius"] for name in names] == pytest.approx(relative.tolist())
    for way in names:
        assert measures(arrays["alone"], way, 0)["success"] == 1


def test_many_inputs_are_mended_in_one_network_alone_and_as_a_whole(study):
    _, _, metrics, arrays = study
    assert arrays["counts"].tolist() == [1, 5, 20, 25]
    assert arrays["alone"].shape == (len(PATCH_WAYS), len(PATCH_MEASURES), 25)
    places = {name: PATCH_MEASURES.index(name) for name in PATCH_MEASURES}
    for way in (*PAPER, "local", "override"):
        row = PATCH_WAYS.index(way)
        # One input is the same alone, one by one, and together.
        for table in ("one_by_one", "together"):
            np.testing.assert_allclose(arrays[table][row, :, 0], arrays["alone"][row, :, 0], rtol=1e-6, atol=1e-9)
        together = arrays["together"][row]
        assert np.isnan(together[0]).all() or (together[0, np.isfinite(together[0])] == 1).all(), "all demands hold"
    for way in ("local_s8", "local_s2"):
        assert np.isnan(arrays["together"][PATCH_WAYS.index(way)]).all()
        assert np.isfinite(arrays["one_by_one"][PATCH_WAYS.index(way)]).all()
    for suffix, table in (("", arrays["alone"]), ("_together", arrays["together"][:, :, -1:])):
        for way in PATCH_WAYS:
            for name, place in places.items():
                values = table[PATCH_WAYS.index(way), place]
                if np.isfinite(values).any():
                    assert metrics[way, f"{name}{suffix}"] == pytest.approx(np.nanmean(values))
                else:
                    assert (way, f"{name}{suffix}") not in metrics
    assert {name for _, name in metrics} <= METRICS.keys()
    assert metrics["cases", "patched"] == 25


def test_retraining_is_measured_where_all_inputs_were_added_and_fine_tuning_of_the_first_20_inputs(study):
    base, wrong, _, arrays = study
    retraining, tuning = (PATCH_WAYS.index(way) for way in ("retraining", "fine_tuning"))
    assert np.isnan(arrays["alone"][retraining]).all() and np.isnan(arrays["one_by_one"][retraining]).all()
    assert np.isnan(arrays["together"][retraining, :, :-1]).all()
    again = Oracle(ArrayNetwork(base.method, base.parameters, base.keys, 2 * base.values[:, ::-1]))
    expected = expected_measures(again.logits, base, wrong)
    assert measures(arrays["together"], "retraining", 3) == pytest.approx(expected, rel=1e-6)
    assert np.isfinite(arrays["alone"][tuning, :, :20]).all() and np.isnan(arrays["alone"][tuning, :, 20:]).all()
    assert (arrays["alone"][tuning, 0, :20] == 1).all(), "it goes on until the input is right"


@pytest.mark.parametrize("method", ["inv_dist", "neg_dist", "gaussian", "cosine", "scaled_dot"])
def test_the_other_ways_need_no_patch_of_the_paper_no_images_and_no_retraining(method, monkeypatch):
    monkeypatch.setattr("idwbench.models.patch_comparison._STEPS", 5)
    metrics, arrays = compare_ways(a_base(method), DATA, 6, retrain=lambda inputs, labels: None)
    assert not {way for way, _ in metrics} & {*PAPER, "retraining"}
    ways = [PATCH_WAYS.index(way) for way in ("local", "local_half", "local_s8", "local_s2", "override")]
    assert (arrays["alone"][ways, 0] == 1).all()
    assert metrics["local", "success_together"] == 1
    assert np.isnan(arrays["together"][:, PATCH_MEASURES.index("shift_kept")]).all()


def test_a_wrong_input_that_the_test_data_has_twice_is_mended_by_one_patch_of_the_whole(monkeypatch):
    monkeypatch.setattr("idwbench.models.patch_comparison._STEPS", 5)
    base, test = a_base(), DATA["test"]
    [first, *_] = np.flatnonzero(base.states(test.inputs).outputs.argmax(1) != test.labels)
    rows = [first, *range(len(test))]
    twice = DATA | {"test": Split(test.inputs[rows], test.labels[rows])}
    once, again = (compare_ways(base, data, n)[1]["together"] for data, n in ((DATA, 5), (twice, 6)))
    ways = [PATCH_WAYS.index(way) for way in ("local", "local_half", "override", "exact", "margin_1", "confidence_90")]
    assert (again[ways, 0, -1] == 1).all(), "all inputs get their labels"
    for name in ("logit_change", "better", "worse"):
        place = PATCH_MEASURES.index(name)
        np.testing.assert_allclose(again[ways, place, -1], once[ways, place, -1], rtol=1e-6)


def test_a_network_without_errors_has_nothing_to_compare():
    train = DATA["train"]
    values = 9 * np.eye(3, dtype=np.float32)[train.labels]
    base = ArrayNetwork(get_method("idw"), {"power": 2.0, "epsilon": 1e-9}, train.inputs, values)
    metrics, arrays = compare_ways(base, {"train": train, "test": train}, 5, SHAPE)
    assert metrics == {("cases", "patched"): 0}
    assert arrays["counts"].shape == (0,) and arrays["alone"].shape == (len(PATCH_WAYS), len(PATCH_MEASURES), 0)
