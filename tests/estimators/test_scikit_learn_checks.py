"""scikit-learn's own checks of estimators, all of them, with the default parameters."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from idwbench import KernelRegressor, PrototypeClassifier, PrototypeRegressor


@parametrize_with_checks([PrototypeClassifier(), PrototypeRegressor(), KernelRegressor()])
def test_the_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


# scikit-learn skips this check unless SciPy was imported with the variable set; old versions do not have it.
ARRAY_API = """
import inspect
import sklearn.utils.estimator_checks as checks
from idwbench import KernelRegressor, PrototypeClassifier, PrototypeRegressor
is_required = "only_numpy" in inspect.signature(checks._yield_array_api_checks).parameters
for estimator in (PrototypeClassifier(), PrototypeRegressor(), KernelRegressor()):
    if is_required:
        options = {"array_namespace": "numpy", "expect_only_array_outputs": False}
        checks.check_array_api_input(type(estimator).__name__, estimator, **options)
print("passed")
"""


@pytest.mark.slow
def test_the_estimators_pass_the_check_that_needs_an_environment_variable():
    words = [sys.executable, "-c", ARRAY_API]
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    result = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout == "passed\n"
