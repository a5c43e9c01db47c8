from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import skops.io
from made_models import exact_outputs, hard_inputs, made_model

from idwbench.data.dataset import Scaling
from idwbench.exports.model import export_model
from idwbench.exports.skops_model import TRUSTED_TYPES


@pytest.fixture
def exported(tmp_path):
    """Export a model and load it with the documented types only."""

    def export(model):
        export_model(model, tmp_path / "model.skops", overwrite=True)
        return skops.io.load(tmp_path / "model.skops", trusted=TRUSTED_TYPES)

    return export


@pytest.mark.parametrize("method", ["idw", "fc_relu"])
def test_a_regressor_keeps_the_mean_of_its_targets_when_it_is_trained_further(method, exported):
    model = made_model(method, regression=True)
    model = replace(model, target_scaling=Scaling(np.array(1000.0), np.array(3.0)), scaling=Scaling.identity())
    regressor, inputs = exported(model), hard_inputs(model)
    before = regressor.predict(inputs)
    np.testing.assert_allclose(before, exact_outputs(model, inputs) * 3 + 1000, rtol=1e-12)
    regressor.set_params(learning_rate=1e-6).partial_fit(inputs, before)
    np.testing.assert_allclose(regressor.predict(inputs), before, atol=1e-2)


def test_classes_are_sorted_and_a_model_that_scales_nothing_needs_no_pipeline(exported):
    model = replace(made_model(), class_names=("9", "10", "1"), scaling=Scaling.identity())
    estimator = exported(model)
    assert estimator.classes_.tolist() == ["1", "10", "9"]
    inputs = np.random.default_rng(3).normal(size=(20, 3))
    np.testing.assert_array_equal(estimator.predict(inputs), model.predict(inputs))
