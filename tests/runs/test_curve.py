import pytest

from idwbench.runs.results import Curve, CurvePoint

NAMES = (("train", "loss"), ("test", "accuracy"))
POINTS = (
    CurvePoint(1, {NAMES[0]: 2.0, NAMES[1]: 0.5}),
    CurvePoint(2, {NAMES[0]: 1.0, NAMES[1]: 0.75}),
    CurvePoint(3, {NAMES[0]: 0.5, NAMES[1]: 1.0}),
)
CURVE = Curve(NAMES, [2.0, 0.5, 1.0, 0.75, 0.5, 1.0])


def test_a_curve_is_a_sequence_of_its_points():
    assert len(CURVE) == 3
    assert (tuple(CURVE), CURVE[-1], CURVE[1:]) == (POINTS, POINTS[2], POINTS[1:])
    with pytest.raises(IndexError):
        CURVE[3]


def test_a_curve_equals_the_same_points():
    assert CURVE == POINTS and [*POINTS] == CURVE and Curve(NAMES, CURVE.values) == CURVE
    assert POINTS[:2] != CURVE and Curve(NAMES, [*CURVE.values[:-1], 0.0]) != CURVE and CURVE != "curve"
    assert Curve(NAMES, []) == ()
