"""Accuracy against keys and sizes, and the effective number of prototypes on data of known dimension."""

import numpy as np
import pytest
from made import bars, caption, draw, draw_pairs, made_dataset, use_dataset
from stored_runs import stored_run

from idwbench.errors import ConfigError
from idwbench.figures.front import effective_prototypes

MNIST = {"name": "mnist", "validation": 1000}


def trained(test, validation, seed=0, correlation=None, parameters=79_400, **settings):
    metrics = {} if correlation is None else {("train", "key_correlation"): correlation}
    facts = {"validation": validation, "metrics": metrics, "n_parameters": parameters, "dataset": MNIST, "seed": seed}
    return stored_run(test, **facts | settings)


def test_along_each_front_the_power_grows_and_the_protocol_is_that_of_the_best_validation():
    runs = [
        trained(test + seed / 100, validation, seed, correlation - seed / 10, power=power, epochs=epochs)
        for power, epochs, test, validation, correlation in [
            (16, 5, 0.90, 0.80, 0.6),
            (2, 5, 0.70, 0.60, 0.9),
            (2, 9, 0.99, 0.50, 0.3),  # better by test alone
        ]
        for seed in (0, 1)
    ]
    figure = draw("front", [*runs, trained(0.95, 0.9, correlation=0.8, prototypes=100, power=4, epochs=5)]).figure
    (axes,) = figure.axes  # other measures are of no run
    np.testing.assert_allclose(bars(axes)["20 prototypes"], [[0.85, 70.5], [0.55, 90.5]])
    np.testing.assert_allclose(bars(axes)["100 prototypes"], [[0.8, 95]])
    (crosses,) = [line.get_xydata() for line in axes.get_lines() if line.get_marker() == "x"]
    np.testing.assert_allclose(sorted(crosses.tolist()), [[0.8, 95], [0.85, 70.5]])
    assert "p is 2, 4, 16, the smallest at the cross" in caption(figure)
    with pytest.raises(ConfigError, match="no complete run has a power and measures of its keys"):
        draw("front", [trained(0.9, 0.9), trained(0.9, 0.9, correlation=0.5, method="gaussian")])


def test_accuracy_by_size_chooses_by_validation_beside_baselines_and_published_classifiers():
    sizes = {"prototypes": 100, "parameters": 79_400}
    runs = [
        trained(0.97, 0.9, power=16, **sizes),
        trained(0.99, 0.8, power=2, **sizes),
        trained(0.96, 0.9, power=2, prototypes=10, parameters=7_940),
        trained(0.98, 0.9, power=2, slope_rank=8, prototypes=10, parameters=71_460),
        trained(0.969, 0.9, kind="scikit_learn", method="knn", parameters=0),
        trained(0.82, 0.8, kind="baseline", method="kmeans_per_class", prototypes=10, parameters=7_940),
    ]
    figure, left_out = draw("accuracy_by_size", [*runs, trained(0.9, 0.9, dataset={**MNIST, "shifts": 1})])
    by_prototypes, by_parameters = figure.axes
    np.testing.assert_allclose(bars(by_prototypes)["idw"], [[10, 96], [100, 97]])
    np.testing.assert_allclose(bars(by_parameters)["idw"], [[7_940, 96], [79_400, 97]])
    np.testing.assert_allclose(bars(by_parameters)["idw, slopes of rank 8"], [[71_460, 98]])
    np.testing.assert_allclose(bars(by_prototypes)["kmeans_per_class"], [[10, 82]])
    # Of 10 keys with tangent spaces of 12 dimensions, 13 · 7,840 numbers.
    np.testing.assert_allclose(bars(by_parameters)["GTLVQ"], [[101_920, 94.61], [1_019_200, 97.35]])
    (level,) = [line for line in by_prototypes.get_lines() if str(line.get_label()).startswith("knn")]
    np.testing.assert_allclose(level.get_xydata(), [[10, 96.9], [1280, 96.9]])
    assert "chosen by validation" in caption(figure) and "arXiv 1902.00577" in caption(figure)
    assert left_out == ("not drawn: other data sets (mnist · validation 1000 · shifts 1)",)


@pytest.mark.parametrize(("value", "seeds"), [(0.486, 6), (0.099, 3)])  # whose mean is rounded beside their range
def test_accuracy_by_size_needs_no_other_method_and_no_published_classifier_and_equal_seeds_no_bars(value, seeds):
    assert np.mean([value] * seeds) != value
    facts = {"dataset": "digits", "prototypes": 10, "power": 2, "n_parameters": 740}
    _, by_parameters = draw(
        "accuracy_by_size", [stored_run(value, seed=seed, **facts) for seed in range(seeds)]
    ).figure.axes
    np.testing.assert_allclose(bars(by_parameters)["idw"], [[740, 100 * value]])


def test_the_effective_number_of_prototypes_is_that_of_the_weights_of_the_test_inputs(monkeypatch):
    data = use_dataset(monkeypatch, made_dataset(3))
    generator, pairs, expected = np.random.default_rng(0), [], []
    for power in (2.0, 8.0):
        arrays = {"keys": generator.normal(size=(4, 3)).astype(np.float32), "values": np.eye(2)[[0, 1, 0, 1]]}
        pairs.append((stored_run(dataset="two_moons", prototypes=4, power=power, epsilon=0.01), arrays))
        distances = np.linalg.norm(data.splits["test"].inputs[:, None] - arrays["keys"].astype(np.float64), axis=2)
        weights = 1 / (0.01 + distances**power)
        weights /= weights.sum(1, keepdims=True)
        ordered = np.sort(weights, axis=1)[:, ::-1].mean(0)
        expected.append(((1 / (weights**2).sum(1)).mean(), 4 * ordered[0], 4 * ordered[-1]))
    figure = draw_pairs("effective_prototypes", *pairs).figure
    left, right = figure.axes
    numbers = bars(left)["4 prototypes"]
    np.testing.assert_allclose(numbers, [[2, expected[0][0]], [8, expected[1][0]]], rtol=1e-9)
    for label, (_, nearest, farthest) in zip(("p = 2", "p = 8"), expected, strict=True):
        (line,) = [line for line in right.get_lines() if line.get_label() == label]
        np.testing.assert_allclose(np.asarray(line.get_ydata())[[0, -1]], [nearest, farthest], rtol=1e-9)
    with pytest.raises(ConfigError, match="no complete run has a power"):
        draw("effective_prototypes", [stored_run(dataset="two_moons", method="gaussian", prototypes=4)])


@pytest.mark.parametrize(("dimensions", "power"), [(256, 8.0), (256, 16.0), (1024, 16.0), (1024, 32.0)])
def test_in_many_dimensions_the_power_has_to_grow_as_their_square_root_to_leave_as_few_prototypes(dimensions, power):
    """Weights of Gaussian keys are log-normal: with s = p·std(log d) the share is exp(−s²), and s² → 3p²/(8D).

    Given x with ‖x‖² = D the squared distance has the mean 2D and the variance 6D. What is left out is of the order
    1/√D of the exponent, at most 0.4 · 6 % here.
    """
    generator = np.random.default_rng(0)
    inputs, keys = generator.normal(size=(200, dimensions)), generator.normal(size=(4000, dimensions))
    squares = (inputs**2).sum(1)[:, None] + (keys**2).sum(1) - 2 * inputs @ keys.T
    weights = squares ** (-power / 2)
    weights /= weights.sum(1, keepdims=True)
    share = effective_prototypes(weights).mean() / len(keys)
    assert share == pytest.approx(np.exp(-3 * power**2 / (8 * dimensions)), rel=0.05)
    assert effective_prototypes(np.eye(3)).tolist() == [1.0, 1.0, 1.0]
    assert effective_prototypes(np.full((1, 8), 1 / 8)).tolist() == [8.0]
