"""The examples of the page on estimators, and those of the docstrings."""

from __future__ import annotations

import doctest

from idwbench.estimators import classifier, kernel_regressor, regressor


def test_the_examples_of_the_docstrings_hold():
    for module in (classifier, regressor, kernel_regressor):
        result = doctest.testmod(module)
        assert (result.failed, result.attempted > 3) == (0, True)
