import math

import numpy as np
import pytest

from idwbench.results.comparison import array_differences, compare_runs, curve_difference, environment
from idwbench.runs.results import CurvePoint

LOSS = ("train", "loss")


@pytest.fixture
def backend() -> str:
    return "sqlite"


def test_arrays_are_identical_by_bytes_and_else_have_a_largest_difference():
    one = np.array([1.0, np.nan, np.inf], np.float32)
    found = array_differences(
        {"zero": np.array([0.0]), "same": one, "near": one, "wide": one, "gone": one, "words": np.array(["a"])},
        {
            "zero": np.array([-0.0]),
            "same": one.copy(),
            "near": one + np.float32(0.5),
            "wide": one[:2],
            "words": np.array(["b"]),
        },
    )
    assert (found["zero"].identical, found["zero"].largest) == (False, 0)
    assert found["same"].identical and found["same"].largest == 0
    assert (found["near"].identical, found["near"].largest) == (False, 0.5)
    assert (found["wide"].largest, found["wide"].shapes) == (None, ((3,), (2,)))
    assert (found["gone"].largest, found["gone"].shapes) == (None, ((3,), None))
    assert (found["words"].identical, found["words"].largest) == (False, None)


def test_curves_differ_by_their_largest_difference():
    curve, other = ([CurvePoint(1, {LOSS: loss}), CurvePoint(2, {LOSS: math.nan})] for loss in (0.5, 0.25))
    assert (curve_difference(curve, [*curve]), curve_difference(curve, other)) == (0, 0.25)
    assert curve_difference(curve, curve[:1]) is None


def test_two_runs_are_compared_in_all_parts(store, make_config, make_result):
    one, other = make_config(0), make_config(0, "inv_dist", weight_decay=0.5)
    store.finish([make_result(one), make_result(other, test=0.95, instruction_set="SSE2")])
    found = compare_runs(store, one.run_key[:12], other.run_key)
    assert found.settings == {"method": ("idw", "inv_dist"), "weight_decay": (0.0, 0.5)}
    assert found.metrics["test", "accuracy"] == (0.975, 0.95)
    assert found.environment == {"cpu instruction set": ("AVX2", "SSE2")}
    assert found.curve == 0 and found.arrays["keys"].identical
    assert {"engine", "threads", "python version", "data sha256", "host"} - set(environment(found.runs[0])) == {
        "data sha256"
    }
