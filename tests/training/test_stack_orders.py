import numpy as np
import pytest

from idwbench.training.engine import batch_orders
from idwbench.training.stack_orders import stack_orders


def generators(bits=np.random.PCG64):
    found = [np.random.Generator(bits(seed)) for seed in (0, 1, 2**32 - 1)]
    found[1].integers(10, dtype=np.int32)  # leaves half of a word to be used
    return found


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.Philox])
@pytest.mark.parametrize("n_train", [1, 2, 3, 64, 65, 200])
def test_the_orders_of_a_stack_are_those_that_numpy_draws(bits, n_train):
    ours, others = generators(bits), generators(bits)
    for n_epochs in (1, 4):
        expected = [batch_orders(generator, n_train, n_epochs) for generator in others]
        np.testing.assert_array_equal(stack_orders(ours, n_train, n_epochs), expected)
    for one, other in zip(ours, others, strict=True):
        assert one.random() == other.random()
        assert one.integers(1000, dtype=np.int32) == other.integers(1000, dtype=np.int32)


def test_without_compilation_the_orders_are_the_same(monkeypatch):
    compiled = stack_orders(generators(), 30, 2)
    monkeypatch.setattr("numba.config.DISABLE_JIT", True)
    np.testing.assert_array_equal(stack_orders(generators(), 30, 2), compiled)


def test_where_numpy_draws_otherwise_its_orders_are_taken(monkeypatch):
    expected = stack_orders(generators(), 30, 2)
    monkeypatch.setattr("idwbench.training.stack_orders._kernel_draws_as_numpy", lambda: False)
    monkeypatch.setattr("idwbench.training.stack_orders.shuffle_stack", None)
    np.testing.assert_array_equal(stack_orders(generators(), 30, 2), expected)
