"""Permutations of the training data by NumPy's generator PCG64, in a third of NumPy's time.

`numpy.random.Generator.permuted` calls a function for each number, and its branches cannot be predicted. Both are
avoided here; the numbers are the same (O'Neill 2014, *PCG: A Family of Simple Fast Space-Efficient Statistically Good
Algorithms for Random Number Generation*; XSL-RR with 128 bits).
"""

import numpy as np
from numpy.typing import NDArray

from idwbench.training.kernels.jit import entry_kernel

__all__ = ["shuffle_stack"]

# The multiplier of the generator, whose high and low 64 bits are these; the low ones also as halves.
_HIGH, _LOW = np.uint64(2549297995355413924), np.uint64(4865540595714422341)
_LOW_UPPER, _LOW_LOWER = np.uint64(4865540595714422341 >> 32), np.uint64(4865540595714422341 & (2**32 - 1))
_HALF, _BITS, _TOP = np.uint64(2**32 - 1), np.uint64(32), np.uint64(58)
_WORD, _ONE, _ZERO = np.uint64(63), np.uint64(1), np.uint64(0)


@entry_kernel
def shuffle_stack(states: NDArray[np.uint64], orders: NDArray[np.int64]) -> None:
    """Permute each row of each run, as `numpy.random.Generator.permuted` does row by row.

    Args:
        states: For each run the state and the increment of its generator, each in two words, the high one first,
            whether 32 bits are left, and these, (runs, 6); updated in place.
        orders: Permuted in place, (runs, rows, n).
    """
    drawn = np.empty(orders.shape[2], np.int64)
    for r in range(orders.shape[0]):
        high, low, add_high, add_low = states[r, 0], states[r, 1], states[r, 2], states[r, 3]
        is_left, left = states[r, 4] != _ZERO, states[r, 5]
        for row in orders[r]:
            i, mask = np.uint64(len(row) - 1), _ONE
            while mask < i:
                mask = (mask << _ONE) | _ONE
            while i > _ZERO:
                if is_left:
                    number = left
                else:
                    lower, upper = low & _HALF, low >> _BITS
                    corner, one, other = lower * _LOW_LOWER, lower * _LOW_UPPER, upper * _LOW_LOWER
                    middle = (corner >> _BITS) + (one & _HALF) + (other & _HALF)
                    carried = upper * _LOW_UPPER + (one >> _BITS) + (other >> _BITS) + (middle >> _BITS)
                    high = carried + high * _LOW + low * _HIGH + add_high
                    low = low * _LOW + add_low
                    high += _ONE if low < add_low else _ZERO
                    word, turn = high ^ low, high >> _TOP
                    word = (word >> turn) | (word << ((_ZERO - turn) & _WORD))
                    number, left = word & _HALF, word >> _BITS
                is_left = not is_left
                number &= mask
                drawn[i] = number  # replaced by the next one if it is too large
                i -= _ONE if number <= i else _ZERO
                if i <= mask >> _ONE:
                    mask >>= _ONE
            for k in range(len(row) - 1, 0, -1):
                row[k], row[drawn[k]] = row[drawn[k]], row[k]
        states[r, 0], states[r, 1] = high, low
        states[r, 4], states[r, 5] = _ONE if is_left else _ZERO, left
