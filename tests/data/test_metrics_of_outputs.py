import itertools

import numpy as np
import pytest

from idwbench.runs.metrics import evaluate, evaluate_classifiers


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_class_of_an_output_is_its_argmax_also_with_ties_and_nan(n_classes):
    numbers = [0.0, -0.0, 1.0, -np.inf, np.inf, np.nan]
    logits = np.array([*itertools.product(numbers, repeat=n_classes)], np.float32)
    for label in range(n_classes):
        expected = np.mean(logits.argmax(1) == label)
        assert evaluate("classification", "test", logits, np.full(len(logits), label)) == {
            ("test", "accuracy"): pytest.approx(expected, abs=1e-12)
        }


def test_the_metrics_of_a_stack_are_those_of_its_models():
    generator = np.random.default_rng(0)
    for n_classes in (2, 5):
        logits, labels = generator.normal(size=(3, 20, n_classes)), generator.integers(n_classes, size=20)
        expected = [evaluate("classification", "holdout", own, labels) for own in logits]
        assert evaluate_classifiers("holdout", logits, labels) == expected
