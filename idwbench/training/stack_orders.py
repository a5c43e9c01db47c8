"""Orders of the training data for a stack of runs, by a compiled kernel."""

from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from idwbench.training.engine import draw_orders
from idwbench.training.kernels.orders import shuffle_stack

__all__ = ["stack_orders"]

_WORD = 2**64 - 1


def stack_orders(generators: Sequence[np.random.Generator], n_train: int, n_epochs: int) -> NDArray[np.int64]:
    """Return the `batch_orders` of each generator, (generators, epochs, n)."""
    orders = np.empty((len(generators), n_epochs, n_train), np.int64)
    orders[:] = np.arange(n_train)
    is_compiled = not getattr(numba.config, "DISABLE_JIT", False)
    known = all(isinstance(generator.bit_generator, np.random.PCG64) for generator in generators)
    if is_compiled and known and _kernel_draws_as_numpy():
        _shuffle(generators, orders)
    else:
        for order, generator in zip(orders, generators, strict=True):
            draw_orders(order, generator)
    return orders


@cache
def _kernel_draws_as_numpy() -> bool:
    """Return whether the kernel draws what the installed NumPy draws, whose streams another version may change."""
    ours, theirs = np.random.default_rng(0), np.random.default_rng(0)
    orders = np.tile(np.arange(200), (1, 2, 1))
    expected = orders[0].copy()
    _shuffle([ours], orders)
    draw_orders(expected, theirs)
    return np.array_equal(orders[0], expected) and ours.random() == theirs.random()


def _shuffle(generators: Sequence[np.random.Generator], orders: NDArray[np.int64]) -> None:
    states = [cast(dict[str, Any], generator.bit_generator.state) for generator in generators]
    words = np.array([_words(state) for state in states], np.uint64)
    shuffle_stack(words, orders)
    for generator, state, own in zip(generators, states, words.tolist(), strict=True):
        state["state"]["state"] = own[0] << 64 | own[1]
        state["has_uint32"], state["uinteger"] = own[4], own[5]
        generator.bit_generator.state = state


def _words(state: dict[str, Any]) -> tuple[int, ...]:
    number, increment = state["state"]["state"], state["state"]["inc"]
    halves = (number >> 64, number & _WORD, increment >> 64, increment & _WORD)
    return (*halves, state["has_uint32"], state["uinteger"])
