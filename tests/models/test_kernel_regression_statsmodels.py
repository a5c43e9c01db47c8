"""Kernel regression against statsmodels, whose import is slow."""

from __future__ import annotations

import numpy as np
import pytest

import idwbench
from idwbench.attention.kernels import KERNELS
from idwbench.models.kernel_regression import canonical_factor, leave_one_out_errors, leave_one_out_parameters

pytestmark = pytest.mark.slow


def data(features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    keys = generator.normal(size=(40, features))
    return generator.normal(size=(9, features)), keys, np.sin(2 * keys[:, 0]) + keys.sum(1)


def local_constant(keys: np.ndarray, values: np.ndarray, h: float | str):
    from statsmodels.nonparametric.kernel_regression import KernelReg

    features = keys.shape[1]
    bandwidths = h if isinstance(h, str) else [h] * features
    return KernelReg(values, keys, "c" * features, "lc", bandwidths, rng=np.random.default_rng(0))


@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("h", [0.3, 1.0])
def test_gaussian_is_the_local_constant_regression(features, h):
    queries, keys, values = data(features)
    expected, _ = local_constant(keys, values, h).fit(queries)
    np.testing.assert_allclose(idwbench.kernel_regression(queries, keys, values, "gaussian", h), expected, rtol=1e-9)


@pytest.mark.parametrize("h", [0.2, 0.6, 2.0])
def test_the_leave_one_out_error_is_theirs(h):
    _, keys, values = data(2)
    reference = local_constant(keys, values, h)
    expected = reference.cv_loo(np.array([h, h]), reference.est["lc"]).item()
    found = leave_one_out_errors(keys, values[:, None], KERNELS["gaussian"], [{"bandwidth": h}])
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_leave_one_out_finds_at_least_as_good_a_bandwidth():
    _, keys, values = data(1)
    reference = local_constant(keys, values, "cv_ls")
    chosen = leave_one_out_parameters(keys, values[:, None], KERNELS["gaussian"])
    candidates = [chosen, {"bandwidth": float(reference.bw[0])}]
    ours, theirs = leave_one_out_errors(keys, values[:, None], KERNELS["gaussian"], candidates)
    assert ours <= 1.001 * theirs


def test_canonical_factors_in_one_dimension_are_theirs():
    from statsmodels.sandbox.nonparametric import kernels

    gaussian = kernels.Gaussian().normal_reference_constant
    for name, theirs in (("epanechnikov", "Epanechnikov"), ("boxcar", "Uniform"), ("triangular", "Triangular")):
        expected = getattr(kernels, theirs)().normal_reference_constant / gaussian
        assert canonical_factor(KERNELS[name], 1) == pytest.approx(expected)
