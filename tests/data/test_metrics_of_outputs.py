import itertools
from dataclasses import replace

import numpy as np
import pytest
from blob_data import make_dataset

from idwbench.data.dataset import Split


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_class_of_an_output_is_its_argmax_also_with_ties_and_nan(n_classes):
    numbers = [0.0, -0.0, 1.0, -np.inf, np.inf, np.nan]
    logits = np.array([*itertools.product(numbers, repeat=n_classes)], np.float32)
    dataset = make_dataset(n_classes=n_classes)
    for label in range(n_classes):
        inputs = np.zeros((len(logits), dataset.n_features), np.float32)
        labelled = replace(dataset, test=Split(inputs, np.full(len(logits), label)))
        expected = np.mean([int(np.argmax(row)) == label for row in logits])
        assert labelled.metrics("test", logits) == {("test", "accuracy"): pytest.approx(expected, abs=1e-12)}
