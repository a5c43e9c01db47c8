"""Kernel regression against its formula in float64; its bandwidths against SciPy and plain loops."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from case_tables import case_table
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.special import gamma
from scipy.stats import gaussian_kde
from sklearn.linear_model import LinearRegression

import idwbench
from idwbench.attention.kernels import KERNELS
from idwbench.errors import ConfigError, NoNeighboursWarning
from idwbench.models.kernel_regression import (
    canonical_factor,
    kernel_weights,
    leave_one_out_errors,
    leave_one_out_parameters,
    scott_bandwidth,
)
from idwbench.models.local_linear import linear_weights

WITH_BANDWIDTH = [name for name, kernel in KERNELS.items() if kernel.has_bandwidth]


def data(n=30, m=11, features=3):
    generator = np.random.default_rng(0)
    keys = generator.normal(size=(n, features))
    return generator.normal(size=(m, features)), keys, np.sin(keys @ generator.normal(size=(features, 2)))


def plain_weights(kernel, d, bandwidth=1.0, power=2.0, epsilon=0.0):
    """The design's formulas, written plainly in float64."""
    return {
        "gaussian": lambda: np.exp(-(d**2) / (2 * bandwidth**2)),
        "boxcar": lambda: 1.0 * (d <= bandwidth),
        "triangular": lambda: np.maximum(0.0, 1 - d / bandwidth),
        "epanechnikov": lambda: np.maximum(0.0, 1 - (d / bandwidth) ** 2),
        "shepard": lambda: 1 / (epsilon + d**power),
    }[kernel]()


def estimate(queries, keys, values, kernel, **given):
    """The Nadaraya-Watson estimate; NaN without neighbours."""
    weights = plain_weights(kernel, cdist(queries, keys), **given)
    with np.errstate(invalid="ignore"):
        return weights @ values / weights.sum(1, keepdims=True)


GIVEN = [
    *((kernel, {"bandwidth": h}) for kernel in WITH_BANDWIDTH for h in (2.0, 20.0)),
    *(("shepard", {"power": power, "epsilon": epsilon}) for power, epsilon in ((0.5, 0.0), (2.0, 1e-3), (7.0, 10.0))),
]


@pytest.mark.parametrize(("kernel", "given"), GIVEN)
@pytest.mark.parametrize("features", [1, 20])
@pytest.mark.filterwarnings("ignore::idwbench.errors.NoNeighboursWarning")
def test_each_kernel_equals_its_formula(kernel, given, features):
    queries, keys, values = data(features=features)
    answers = idwbench.kernel_regression(queries, keys, values, kernel, **given)
    np.testing.assert_allclose(answers, estimate(queries, keys, values, kernel, **given), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(kernel_weights(queries, keys, kernel, **given) @ values, answers, rtol=1e-10, atol=1e-12)


def test_shepard_without_epsilon_interpolates_and_equal_keys_share():
    _, keys, values = data(features=20)
    keys = np.concatenate([keys, keys[:1]])
    values = np.concatenate([values, values[:1] + 2])
    expected = values.copy()
    expected[[0, -1]] = values[0] + 1
    for dtype in (np.float32, np.float64):
        found = idwbench.kernel_regression(keys.astype(dtype), keys.astype(dtype), values.astype(dtype), "shepard")
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_tensors_and_arrays_give_the_same_in_their_own_type(kernel):
    queries, keys, values = (array.astype(np.float32) for array in data())
    answers = idwbench.kernel_regression(queries, keys, values, kernel, 5.0)
    tensor = idwbench.kernel_regression(*map(torch.tensor, (queries, keys, values)), kernel, 5.0)
    assert (answers.dtype, tensor.dtype) == (np.float32, torch.float32)
    assert np.array_equal(tensor.numpy(), answers)
    expected = estimate(queries, keys, values, kernel, bandwidth=5.0)
    np.testing.assert_allclose(answers, expected, rtol=1e-4, atol=1e-5)
    half = [torch.tensor(array, dtype=torch.bfloat16) for array in (queries, keys, values)]
    expected = idwbench.kernel_regression(*(part.float() for part in half), kernel, 5.0)
    torch.testing.assert_close(idwbench.kernel_regression(*half, kernel, 5.0), expected)  # in float32
    flat = idwbench.kernel_regression(queries, keys, values[:, 0], kernel, 5.0)
    np.testing.assert_allclose(flat, answers[:, 0], rtol=1e-6)
    assert idwbench.kernel_regression([[0, 0]], [[1, 1], [3, 4]], [1, 1], kernel, 50).tolist() == pytest.approx([1.0])


# The bandwidth


def test_scotts_rule_is_that_of_scipy_and_the_mean_variance_of_several_features():
    keys = data(features=1)[1]
    assert scott_bandwidth(keys) == pytest.approx(math.sqrt(gaussian_kde(keys[:, 0]).covariance.item()))
    keys = data(features=4)[1] * 3
    bandwidth = scott_bandwidth(keys)
    assert bandwidth == pytest.approx(30 ** (-1 / 8) * math.sqrt(keys.var(0, ddof=1).mean()))
    answers = [idwbench.kernel_regression(keys, keys, keys, "gaussian", given) for given in ("scott", bandwidth)]
    assert np.array_equal(*answers)


@pytest.mark.parametrize("kernel", WITH_BANDWIDTH)
@pytest.mark.parametrize("features", [1, 2, 10])
def test_the_canonical_factor_is_the_ratio_of_roughness_and_variance(kernel, features):
    def log_ratio(name):
        """log(R/μ₂²) of the kernel as a density, by radial integrals."""
        end = np.inf if name == "gaussian" else 1.0
        moments = [
            quad(lambda r, e=exponent, n=power: plain_weights(name, r) ** n * r**e, 0, end)[0]
            for power, exponent in ((1, features - 1), (2, features - 1), (1, features + 1))
        ]
        sphere = 2 * math.pi ** (features / 2) / gamma(features / 2)
        return math.log(moments[1] / (sphere * moments[0] ** 2) / (moments[2] / features / moments[0]) ** 2)

    expected = math.exp((log_ratio(kernel) - log_ratio("gaussian")) / (features + 4))
    assert canonical_factor(KERNELS[kernel], features) == pytest.approx(expected, rel=1e-7)


# Leave-one-out


@pytest.mark.parametrize("kernel", KERNELS)
def test_leave_one_out_errors_are_those_of_leaving_each_key_out(kernel):
    _, keys, values = data(n=20)
    if kernel in WITH_BANDWIDTH:
        candidates = [{"bandwidth": h} for h in (0.7, 1.5, 4.0)]
    else:
        candidates = [{"power": power, "epsilon": epsilon} for power in (1.0, 7.5) for epsilon in (0.0, 0.1)]
    left_out = [(keys[i : i + 1], np.delete(keys, i, 0), np.delete(values, i, 0)) for i in range(20)]
    expected = []
    for candidate in candidates:
        rows = np.concatenate([estimate(*arrays, kernel, **candidate) for arrays in left_out])
        expected.append(((np.where(np.isnan(rows), values.mean(0), rows) - values) ** 2).mean())
    np.testing.assert_allclose(leave_one_out_errors(keys, values, KERNELS[kernel], candidates), expected, rtol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("features", [1, 4])
def test_leave_one_out_takes_the_parameter_of_a_fine_search(kernel, features):
    queries, keys, values = data(n=60, features=features)
    others = {} if kernel in WITH_BANDWIDTH else {"epsilon": 0.0}
    name = "bandwidth" if kernel in WITH_BANDWIDTH else "power"
    chosen = leave_one_out_parameters(keys, values, KERNELS[kernel], others)
    candidates = [{**others, name: number} for number in np.geomspace(0.01, 30, 100).tolist()]
    fine = leave_one_out_errors(keys, values, KERNELS[kernel], candidates)
    assert leave_one_out_errors(keys, values, KERNELS[kernel], [chosen])[0] <= 1.05 * fine.min()
    queries = keys + 1e-3
    answers = idwbench.kernel_regression(queries, keys, values, kernel, **{name: "loo"}, **others)
    np.testing.assert_array_equal(answers, idwbench.kernel_regression(queries, keys, values, kernel, **chosen))


NO_KEYS = {"keys": np.zeros((0, 3))}, "keys: expected at least one key, got the shape (0, 3)"
WIDE = {"queries": np.zeros((1, 257)), "keys": np.eye(30, 257), "order": 1}
TOO_WIDE = WIDE, "order: local linear regression takes at most 256 features, got 257"


@pytest.mark.parametrize(("given", "message"), [*case_table("wrong_inputs")["kernel_regression"], NO_KEYS, TOO_WIDE])
def test_wrong_arguments_get_one_clear_line(given, message):
    queries, keys, values = data()
    with pytest.raises(ConfigError) as caught:
        idwbench.kernel_regression(**{"queries": queries, "keys": keys, "values": values, **given})
    assert str(caught.value) == message
    if "leave-one-out" in message:
        with pytest.raises(ConfigError, match="leave-one-out needs values"):
            kernel_weights(
                queries, keys, **{name: given[name] for name in given.keys() & {"kernel", "bandwidth", "power"}}
            )


@pytest.mark.parametrize(("dtype", "features"), [(np.float32, 2), (np.float64, 20)])
@pytest.mark.parametrize("far", [1e7, 1e30])
def test_the_gaussian_of_a_query_far_from_all_keys_is_right(far, features, dtype):
    """Against the exact differences (k_j − k_0)·(k_j + k_0 − 2q) of squared distances."""
    queries, keys, values = (array.astype(dtype) for array in data(m=4, features=features))
    queries, bandwidth = (queries * far).astype(dtype), min(far**0.5, 1e12)
    q, k = (np.vectorize(Fraction, otypes=[object])(array.astype(float)) for array in (queries, keys))
    differences = ((k - k[0]) * (k + k[0] - 2 * q[:, None])).sum(2).astype(float)
    weights = np.exp(-(differences - differences.min(1, keepdims=True)) / (2 * bandwidth**2))
    answers = idwbench.kernel_regression(queries, keys, values, "gaussian", bandwidth)
    np.testing.assert_allclose(answers, weights @ values / weights.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)


# Local linear regression


@pytest.mark.parametrize(("kernel", "given"), [("gaussian", {"bandwidth": 0.7}), ("epanechnikov", {"bandwidth": 2.5})])
def test_local_linear_regression_is_a_weighted_least_squares_fit_at_each_query(kernel, given):
    queries, keys, values = data(n=60, features=2)
    queries *= 1.5  # of which some lie beyond the data
    found = idwbench.kernel_regression(queries, keys, values, kernel, order=1, **given)
    weights = plain_weights(kernel, cdist(queries, keys), **given)
    fits = [LinearRegression().fit(keys, values, own) for own in weights]
    expected = [fit.predict(query[None])[0] for fit, query in zip(fits, queries, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    shares = kernel_weights(queries, keys, kernel, order=1, **given)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(shares @ values, found, rtol=1e-12, atol=1e-12)
    assert (shares < 0).any()


def test_no_slope_goes_where_the_neighbours_have_no_spread_and_no_neighbours_are_nan():
    keys = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [9.0, 0.0]])
    values = np.array([0.0, 1.0, 2.0, 7.0])
    queries = np.array([[0.5, 5.9], [9.5, 0.0], [-9.0, -9.0]])
    with pytest.warns(NoNeighboursWarning, match="1 of 3 queries have no neighbours") as warned:
        found = idwbench.kernel_regression(queries, keys, values, "boxcar", 3.0, order=1)
        shares = kernel_weights(queries, keys, "boxcar", 3.0, order=1)
    np.testing.assert_allclose(found, [0.5, 7.0, np.nan], rtol=1e-9)
    assert np.isnan(shares).all(1).tolist() == [False, False, True] and len(warned) == 2


def test_leave_one_out_of_local_planes_is_that_of_leaving_each_copy_out():
    _, keys, values = data(n=12, features=2)
    copies = np.array([1.0, 2.0, 3.0, *[1.0] * 9])
    found = leave_one_out_errors(keys, values, KERNELS["gaussian"], [{"bandwidth": 0.8}], copies, 1)
    repeated = np.repeat(np.arange(12), copies.astype(int))
    left = [np.delete(repeated, place) for place in range(len(repeated))]
    errors = [
        idwbench.kernel_regression(keys[[own]], keys[rest], values[rest], bandwidth=0.8, order=1)[0] - values[own]
        for own, rest in zip(repeated, left, strict=True)
    ]
    np.testing.assert_allclose(found, np.mean(np.square(errors)), rtol=1e-9)
    best = leave_one_out_parameters(keys, values, KERNELS["gaussian"], order=1)["bandwidth"]
    near = [{"bandwidth": best * factor} for factor in (0.8, 1.0, 1.25)]
    assert leave_one_out_errors(keys, values, KERNELS["gaussian"], near, order=1).argmin() == 1


def test_planes_at_many_queries_take_no_array_of_all_pairs(monkeypatch):
    queries, keys, values = data(n=50, m=200, features=2)
    expected = kernel_weights(queries, keys, bandwidth=0.5, order=1) @ values
    sizes = []

    def recorded(weights, *others):
        sizes.append(weights.size)
        return linear_weights(weights, *others)

    monkeypatch.setattr("idwbench.models.neighbours._PART_NUMBERS", 1000)
    monkeypatch.setattr("idwbench.models.kernel_regression.linear_weights", recorded)
    found = idwbench.kernel_regression(queries, keys, values, bandwidth=0.5, order=1)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert sizes == [1000] * 10
