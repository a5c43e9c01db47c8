"""Rows are split class by class, in exact numbers, by reproducible streams of random numbers."""

import numpy as np
import pytest

from idwbench.data.preparation import random_stream, split_rows

UNEVEN = np.repeat([3, 1, 7], [50, 5, 1])


def split(classes, size, seed=0):
    rest, apart = split_rows(np.asarray(classes), size, np.random.RandomState(seed))
    assert sorted([*rest, *apart]) == list(range(len(classes)))
    assert (np.diff(rest) > 0).all() and (np.diff(apart) > 0).all()
    return rest, apart


def test_each_class_of_two_rows_is_in_both_parts_and_a_single_row_stays():
    rest, apart = split([0, 0, 1, 1, 2], 0.01)
    assert 4 in rest and len(apart) == 2
    rest, _ = split([0, 0, 1, 1, 2], 0.99)
    assert len(rest) == 3


def test_a_fraction_is_rounded_for_each_class():
    _, apart = split(UNEVEN, 0.3)
    assert np.bincount(UNEVEN[apart], minlength=8)[[3, 1, 7]].tolist() == [15, 2, 0]


@pytest.mark.parametrize("size", range(1, 54))
def test_a_number_is_met_exactly_in_proportion_to_the_classes(size):
    rest, apart = split(UNEVEN, size)
    assert len(apart) == size
    assert set(UNEVEN[rest]) == {1, 3, 7}
    shares = np.bincount(UNEVEN[apart], minlength=8)[[3, 1, 7]]
    # Rounding moves a share by less than one row, and the single row of a class, which stays, moves one more.
    assert (np.abs(shares - size * np.array([50, 5, 1]) / 56) < 2).all()


def test_without_classes_the_rows_are_drawn_at_random():
    draws = [split(np.zeros(10), 3, seed)[1] for seed in range(300)]
    assert np.bincount(np.concatenate(draws)).min() > 50
    assert all(len(draw) == 3 for draw in draws)


def test_streams_of_one_seed_are_independent_and_reproducible():
    draws = [tuple(random_stream(5, stream).randint(2**31, size=4)) for stream in (1, 2, 1)]
    assert draws[0] == draws[2] != draws[1]
    assert draws[0] != tuple(np.random.RandomState(5).randint(2**31, size=4))
