"""Kernel regression against its formula in float64, PyTorch's attention, scikit-learn and statsmodels."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import gamma
from scipy.stats import gaussian_kde
from sklearn.neighbors import KNeighborsRegressor, RadiusNeighborsRegressor

import idwbench
from idwbench.attention.kernels import KERNELS
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, NoNeighboursWarning
from idwbench.models import neighbours
from idwbench.models.kernel_regression import (
    canonical_factor,
    kernel_weights,
    leave_one_out_errors,
    leave_one_out_parameters,
    scott_bandwidth,
)
from idwbench.models.neighbours import SquaredDistances
from idwbench.runs.datasets import parse_dataset

WITH_BANDWIDTH = [name for name, kernel in KERNELS.items() if kernel.has_bandwidth]


def data(n: int = 30, m: int = 11, features: int = 3, outputs: int = 2, seed: int = 0):
    generator = np.random.default_rng(seed)
    keys = generator.normal(size=(n, features))
    return generator.normal(size=(m, features)), keys, np.sin(keys @ generator.normal(size=(features, outputs)))


def weight(kernel: str, d: float, h: float, power: float = 2.0, epsilon: float = 0.0) -> float:
    """The design's formulas, written plainly in float64."""
    return {
        "gaussian": lambda: math.exp(-(d**2) / (2 * h**2)),
        "boxcar": lambda: float(d <= h),
        "triangular": lambda: max(0.0, 1 - d / h),
        "epanechnikov": lambda: max(0.0, 1 - (d / h) ** 2),
        "shepard": lambda: 1 / (epsilon + d**power),
    }[kernel]()


def loop(queries, keys, values, kernel: str, h: float, **given) -> np.ndarray:
    """The Nadaraya-Watson estimate, pair by pair."""
    found = []
    for query in queries:
        weights = np.array([weight(kernel, math.dist(query, key), h, **given) for key in keys])
        found.append(weights @ values / weights.sum() if weights.sum() else np.full(values.shape[1], np.nan))
    return np.array(found)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("features", [1, 3, 20])
@pytest.mark.parametrize("h", [2.0, 20.0])
@pytest.mark.filterwarnings("ignore::idwbench.errors.NoNeighboursWarning")
def test_each_kernel_equals_its_formula(kernel, features, h):
    queries, keys, values = data(features=features)
    found = idwbench.kernel_regression(queries, keys, values, kernel, h)
    np.testing.assert_allclose(found, loop(queries, keys, values, kernel, h), rtol=1e-10, atol=1e-12)
    weights = kernel_weights(queries, keys, kernel, h)
    np.testing.assert_allclose(weights @ values, found, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 7.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 10.0])
def test_shepard_has_a_power_and_an_epsilon(power, epsilon):
    queries, keys, values = data()
    found = idwbench.kernel_regression(queries, keys, values, "shepard", power=power, epsilon=epsilon)
    np.testing.assert_allclose(found, loop(queries, keys, values, "shepard", 1, power=power, epsilon=epsilon))


def softmax_attention(queries, keys, values):
    scores = -torch.cdist(*map(torch.tensor, (queries, keys))).square() / 2
    return (scores.softmax(-1) @ torch.tensor(values)).numpy()


def torchs_own_attention(queries, keys, values):
    """−d²/2 = q·k − ‖k‖²/2 − ‖q‖²/2, and the last term is the same for all keys."""
    longer_queries = np.concatenate([queries, np.ones((len(queries), 1))], 1)
    longer_keys = np.concatenate([keys, -(keys**2).sum(1, keepdims=True) / 2], 1)
    tensors = map(torch.tensor, (longer_queries, longer_keys, values))
    return torch.nn.functional.scaled_dot_product_attention(*tensors, scale=1.0).numpy()


def idw_attention(queries, keys, values):
    return idwbench.attend(*map(torch.tensor, (queries, keys, values)), "idw", power=3.0, epsilon=0.1).numpy()


def of_scikit_learn(estimator):
    return lambda queries, keys, values: estimator.fit(keys, values).predict(queries)


def local_constant(keys: np.ndarray, values: np.ndarray, h: float | str):
    from statsmodels.nonparametric.kernel_regression import KernelReg  # a slow import

    features = keys.shape[1]
    bandwidths = h if isinstance(h, str) else [h] * features
    return KernelReg(values, keys, "c" * features, "lc", bandwidths, rng=np.random.default_rng(0))


def of_statsmodels(queries, keys, values):
    return np.stack([local_constant(keys, column, 0.3).fit(queries)[0] for column in values.T], 1)


REFERENCES = [
    (softmax_attention, "gaussian", {}),
    (torchs_own_attention, "gaussian", {}),
    pytest.param(of_statsmodels, "gaussian", {"bandwidth": 0.3}, marks=pytest.mark.slow),
    (idw_attention, "shepard", {"power": 3.0, "epsilon": 0.1}),
    (of_scikit_learn(KNeighborsRegressor(100, weights="distance")), "shepard", {"power": 1}),
    (of_scikit_learn(RadiusNeighborsRegressor(1.0)), "boxcar", {"bandwidth": 1.0}),
]


@pytest.mark.parametrize("features", [1, 3, 20])
@pytest.mark.parametrize(("reference", "kernel", "given"), REFERENCES)
@pytest.mark.filterwarnings("ignore::idwbench.errors.NoNeighboursWarning", "ignore:One or more samples have no")
def test_an_estimate_is_that_of_other_libraries(reference, kernel, given, features):
    queries, keys, values = data(n=100, features=features)
    queries[0] = keys[3]
    found = idwbench.kernel_regression(queries, keys, values, kernel, **given)
    np.testing.assert_allclose(found, reference(queries, keys, values), rtol=1e-9, atol=1e-12)
    assert np.isfinite(found).any()


def test_shepard_without_epsilon_interpolates_and_equal_keys_share():
    _, keys, values = data(features=20)
    keys = np.concatenate([keys, keys[:1]])
    values = np.concatenate([values, values[:1] + 2])
    expected = values.copy()
    expected[[0, -1]] = values[0] + 1
    for dtype in (np.float32, np.float64):
        found = idwbench.kernel_regression(keys.astype(dtype), keys.astype(dtype), values.astype(dtype), "shepard")
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("kernel", "given"), [("gaussian", {"bandwidth": 1e-3}), ("shepard", {"power": 1e6})])
def test_the_limit_is_the_nearest_neighbour(dtype, kernel, given):
    queries, keys, values = (array.astype(dtype) for array in data(features=20))
    # All keys are further than 14.4 h, so that plain weights would be 0/0 in float32.
    expected = KNeighborsRegressor(1).fit(keys, values).predict(queries)
    np.testing.assert_allclose(idwbench.kernel_regression(queries, keys, values, kernel, **given), expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", ["boxcar", "triangular", "epanechnikov"])
def test_a_query_without_neighbours_is_nan_with_a_named_warning(kernel):
    keys, values = np.array([[0.0], [1.0]]), np.array([5.0, 7.0])
    with pytest.warns(NoNeighboursWarning, match="1 of 2 queries have no neighbours"):
        found = idwbench.kernel_regression(np.array([[0.1], [9.0]]), keys, values, kernel, 0.5)
    assert found[0] == 5.0
    assert np.isnan(found[1])
    with pytest.warns(NoNeighboursWarning):
        assert np.isnan(kernel_weights(np.array([[9.0]]), keys, kernel, 0.5)).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_tensors_and_arrays_give_the_same_in_their_own_type(kernel):
    arrays = [array.astype(np.float32) for array in data()]
    found = idwbench.kernel_regression(*arrays, kernel, 5.0)
    assert found.dtype == np.float32
    tensor = idwbench.kernel_regression(*map(torch.tensor, arrays), kernel, 5.0)
    assert tensor.dtype == torch.float32
    assert np.array_equal(tensor.numpy(), found)
    exact = idwbench.kernel_regression(*(array.astype(np.float64) for array in arrays), kernel, 5.0)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)
    flat = idwbench.kernel_regression(arrays[0], arrays[1], arrays[2][:, 0], kernel, 5.0)
    np.testing.assert_allclose(flat, found[:, 0], rtol=1e-6)
    assert idwbench.kernel_regression([[0, 0]], [[1, 1], [3, 4]], [1, 1], kernel, 50).tolist() == pytest.approx([1.0])


def test_parts_of_any_size_give_the_same(monkeypatch):
    queries, keys, values = data(features=20)
    found = idwbench.kernel_regression(queries, keys, values, "shepard")
    monkeypatch.setattr(neighbours, "_PRODUCT_NUMBERS", 100)
    monkeypatch.setattr(neighbours, "_PART_NUMBERS", 40)
    np.testing.assert_allclose(idwbench.kernel_regression(queries, keys, values, "shepard"), found, rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_distances_of_near_pairs_are_exact_in_float32(offset):
    generator = np.random.default_rng(0)
    keys = (generator.normal(size=(40, 100)) + offset).astype(np.float32)
    queries = keys[:9] + (1e-3 * generator.normal(size=(9, 100))).astype(np.float32)
    exact = ((queries.astype(np.float64)[:, None] - keys) ** 2).sum(2)
    found = np.concatenate([part.copy() for _, part in SquaredDistances(keys).blocks(queries)])
    np.testing.assert_allclose(found, exact, rtol=1e-4)
    same = np.concatenate([part.copy() for _, part in SquaredDistances(keys).blocks(keys)])
    assert not same.diagonal().any()


# The bandwidth


def test_scotts_rule_is_that_of_scipy():
    _, keys, _ = data(features=1)
    assert scott_bandwidth(keys) == pytest.approx(math.sqrt(gaussian_kde(keys[:, 0]).covariance.item()))
    keys = data(features=4)[1] * 3
    assert scott_bandwidth(keys) == pytest.approx(30 ** (-1 / 8) * math.sqrt(keys.var(0, ddof=1).mean()))
    found = idwbench.kernel_regression(keys, keys, keys, "gaussian", "scott")
    assert np.array_equal(found, idwbench.kernel_regression(keys, keys, keys, "gaussian", scott_bandwidth(keys)))


@pytest.mark.parametrize("kernel", WITH_BANDWIDTH)
@pytest.mark.parametrize("features", [1, 2, 10])
def test_the_canonical_factor_is_the_ratio_of_roughness_and_variance(kernel, features):
    def log_ratio(name: str) -> float:
        """log(R/μ₂²) of the kernel as a density, by radial integrals."""
        end = np.inf if name == "gaussian" else 1.0
        moments = [
            quad(lambda r, e=exponent, n=power: weight(name, r, 1.0) ** n * r**e, 0, end)[0]
            for power, exponent in ((1, features - 1), (2, features - 1), (1, features + 1))
        ]
        sphere = 2 * math.pi ** (features / 2) / gamma(features / 2)
        return math.log(moments[1] / (sphere * moments[0] ** 2) / (moments[2] / features / moments[0]) ** 2)

    expected = math.exp((log_ratio(kernel) - log_ratio("gaussian")) / (features + 4))
    assert canonical_factor(KERNELS[kernel], features) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("features", [1, 3, 64])
def test_the_factor_of_epanechnikov_is_that_of_silverman_1986_table_4_1(features):
    ball = math.pi ** (features / 2) / gamma(features / 2 + 1)
    epanechnikov = 8 * (features + 4) * (2 * math.sqrt(math.pi)) ** features / ball
    expected = (epanechnikov * (features + 2) / 4) ** (1 / (features + 4))
    assert canonical_factor(KERNELS["epanechnikov"], features) == pytest.approx(expected)


@pytest.mark.slow
def test_canonical_factors_in_one_dimension_are_those_of_statsmodels():
    from statsmodels.sandbox.nonparametric import kernels

    gaussian = kernels.Gaussian().normal_reference_constant
    for name, theirs in (("epanechnikov", "Epanechnikov"), ("boxcar", "Uniform"), ("triangular", "Triangular")):
        expected = getattr(kernels, theirs)().normal_reference_constant / gaussian
        assert canonical_factor(KERNELS[name], 1) == pytest.approx(expected)


@pytest.mark.parametrize("kernel", ["triangular", "epanechnikov", "boxcar"])
def test_scotts_rule_reaches_neighbours_in_ten_dimensions_by_the_factor(kernel):
    data = load_dataset(parse_dataset("diabetes"), None)
    distance = np.sqrt(((data.test.inputs[:, None] - data.train.inputs) ** 2).sum(2)).min(1)
    assert (distance > scott_bandwidth(data.train.inputs)).mean() > 0.95
    assert (distance > scott_bandwidth(data.train.inputs, KERNELS[kernel])).mean() < 0.05


CANDIDATES = [{"bandwidth": h} for h in (0.7, 1.5, 4.0)]
POWERS = [{"power": p, "epsilon": e} for p in (1.0, 2.0, 7.5) for e in (0.0, 0.1)]


@pytest.mark.parametrize("kernel", KERNELS)
def test_leave_one_out_errors_are_those_of_leaving_each_key_out(kernel):
    _, keys, values = data(n=20)
    candidates = CANDIDATES if kernel in WITH_BANDWIDTH else POWERS
    expected = []
    for parameters in candidates:
        given = {"h": 1.0, **parameters}
        h = given.pop("bandwidth", given.pop("h"))
        rows = [
            loop(keys[i : i + 1], np.delete(keys, i, 0), np.delete(values, i, 0), kernel, h, **given)[0]
            for i in range(20)
        ]
        filled = np.where(np.isnan(rows), values.mean(0), rows)
        expected.append(((filled - values) ** 2).mean())
    np.testing.assert_allclose(leave_one_out_errors(keys, values, KERNELS[kernel], candidates), expected, rtol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("features", [1, 4])
def test_leave_one_out_finds_the_parameter_of_a_fine_search(kernel, features):
    _, keys, values = data(n=60, features=features)
    others = {} if kernel in WITH_BANDWIDTH else {"epsilon": 0.0}
    name = "bandwidth" if kernel in WITH_BANDWIDTH else "power"
    chosen = leave_one_out_parameters(keys, values, KERNELS[kernel], others)
    candidates = [{**others, name: number} for number in np.geomspace(0.01, 30, 300).tolist()]
    fine = leave_one_out_errors(keys, values, KERNELS[kernel], candidates)
    error = leave_one_out_errors(keys, values, KERNELS[kernel], [chosen])[0]
    assert error <= 1.05 * fine.min()


@pytest.mark.slow
def test_leave_one_out_errors_and_bandwidths_are_those_of_statsmodels():
    _, keys, values = data(n=40, features=2, outputs=1)
    for h in (0.2, 0.6, 2.0):
        reference = local_constant(keys, values[:, 0], h)
        expected = reference.cv_loo(np.array([h, h]), reference.est["lc"]).item()
        found = leave_one_out_errors(keys, values, KERNELS["gaussian"], [{"bandwidth": h}])
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    reference = local_constant(keys[:, :1], values[:, 0], "cv_ls")
    chosen = leave_one_out_parameters(keys[:, :1], values, KERNELS["gaussian"])
    candidates = [chosen, {"bandwidth": float(reference.bw[0])}]
    ours, theirs = leave_one_out_errors(keys[:, :1], values, KERNELS["gaussian"], candidates)
    assert ours <= 1.001 * theirs


def test_leave_one_out_chooses_the_power_of_shepard():
    queries, keys, values = data(n=60)
    chosen = leave_one_out_parameters(keys, values, KERNELS["shepard"], {"epsilon": 0.1})
    found = idwbench.kernel_regression(queries, keys, values, "shepard", power="loo", epsilon=0.1)
    assert np.array_equal(found, idwbench.kernel_regression(queries, keys, values, "shepard", **chosen))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": "gausian"}, "kernel: unknown kernel 'gausian' (did you mean 'gaussian'?)"),
        ({"bandwidth": 0}, "bandwidth: must be >= 1e-12, got 0"),
        ({"bandwidth": float("nan")}, "bandwidth: expected a finite number, got nan"),
        ({"bandwidth": "scot"}, "bandwidth: 'scot' is no number and no rule (did you mean 'scott'?)"),
        ({"kernel": "shepard", "power": "scott"}, "power: 'scott' is no number and no rule (expected one of: loo)"),
        ({"kernel": "shepard", "epsilon": -1.0}, "epsilon: must be >= 0, got -1.0"),
        ({"queries": np.zeros(3)}, "queries: expected two axes (n, columns), got the shape (3,)"),
        ({"queries": np.zeros((3, 2))}, "queries: expected 3 features, those of the keys, got 2"),
        ({"values": np.zeros(29)}, "values: expected 30, one for each key, got 29"),
        ({"keys": np.zeros((0, 3))}, "keys: expected at least one key, got the shape (0, 3)"),
        ({"queries": np.full((1, 3), np.nan)}, "queries: expected finite numbers"),
        ({"keys": np.ones((30, 3)), "bandwidth": "scott"}, "bandwidth: Scott's rule needs at least two distinct keys"),
        ({"keys": np.ones((30, 3)), "bandwidth": "loo"}, "bandwidth: leave-one-out needs at least two distinct keys"),
        (
            {"keys": np.ones((30, 3)), "kernel": "shepard", "power": "loo"},
            "power: leave-one-out needs at least two distinct keys",
        ),
        ({"queries": [["a", "b", "c"]]}, "queries: expected numbers, got <U1"),
    ],
)
def test_wrong_arguments_get_one_clear_line(given, message):
    queries, keys, values = data()
    with pytest.raises(ConfigError) as caught:
        idwbench.kernel_regression(**{"queries": queries, "keys": keys, "values": values, **given})
    assert str(caught.value) == message


def test_weights_by_leave_one_out_need_values():
    with pytest.raises(ConfigError, match="bandwidth: leave-one-out needs values"):
        kernel_weights(*data()[:2], bandwidth="loo")
    with pytest.raises(ConfigError, match="power: leave-one-out needs values"):
        kernel_weights(*data()[:2], "shepard", power="loo")


@pytest.mark.parametrize("kernel", KERNELS)
def test_extreme_bandwidths_and_far_queries_give_no_other_warning(kernel):
    queries, keys, values = (array.astype(np.float32) for array in data(features=10))
    for scale in (1.0, 1e12):
        for h in (1e-12, 1e12):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoNeighboursWarning)
                found = idwbench.kernel_regression(queries * scale, keys, values, kernel, h)
            assert kernel not in ("gaussian", "shepard") or np.isfinite(found).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", [2, 20])
@pytest.mark.parametrize("far", [1e7, 1e19, 1e30])
def test_the_gaussian_of_a_query_far_from_all_keys_is_right(far, features, dtype):
    """Against the exact differences (k_j − k_0)·(k_j + k_0 − 2q) of squared distances."""
    queries, keys, values = (array.astype(dtype) for array in data(m=4, features=features))
    queries = (queries * far).astype(dtype)
    bandwidth = min(far**0.5, 1e12)
    exact = [[[Fraction(float(number)) for number in row] for row in array] for array in (queries, keys)]
    for query, answer in zip(
        exact[0], idwbench.kernel_regression(queries, keys, values, "gaussian", bandwidth), strict=True
    ):
        differences = [
            float(sum((a - b) * (a + b - 2 * q) for a, b, q in zip(key, exact[1][0], query, strict=True)))
            for key in exact[1]
        ]
        weights = np.exp(-(np.array(differences) - min(differences)) / (2 * bandwidth**2))
        np.testing.assert_allclose(answer, weights @ values / weights.sum(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", ["shepard", "gaussian", "boxcar"])
def test_numbers_whose_squares_are_beyond_float32_are_computed_in_float64(kernel):
    queries, keys, values = (array.astype(np.float32) for array in data(features=10))
    exact = [(array * np.float32(1e30)).astype(np.float64) for array in (queries, keys)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoNeighboursWarning)
        found = idwbench.kernel_regression(*(array.astype(np.float32) for array in exact), values, kernel, 1e12)
        expected = idwbench.kernel_regression(*exact, values, kernel, 1e12)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert kernel == "boxcar" or np.isfinite(found).all()


def test_bfloat16_is_computed_in_float32_as_float16_is():
    tensors = [torch.tensor(array, dtype=torch.bfloat16) for array in data()]
    found = idwbench.kernel_regression(*tensors)
    assert found.dtype == idwbench.kernel_regression(*(tensor.half() for tensor in tensors)).dtype == torch.float32
    torch.testing.assert_close(found, idwbench.kernel_regression(*(tensor.float() for tensor in tensors)))
