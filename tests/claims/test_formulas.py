"""The claims on formulas: they need no runs, and a wrong score refutes them."""

from dataclasses import replace

import pytest

from idwbench.attention.scores import METHODS


def altered(name, monkeypatch, change):
    """Register a score that is `change` of the true one."""
    method = METHODS[name]

    def score(inputs, keys, **parameters):
        return change(method.score, inputs, keys, parameters)

    monkeypatch.setitem(METHODS, name, replace(method, score=score))


@pytest.mark.parametrize(("number", "factor"), [(6, 0.9), (7, -1), (8, 0.9), (9, 0.5)])
def test_the_identities_and_limits_hold_for_their_score_alone(runs, number, factor, monkeypatch):
    judged = runs.judge(number)
    assert (judged.verdict, judged.claim.sweeps) == ("holds", ())
    assert judged.n >= 10
    if number == 7:  # the order of the limits is part of the verdict
        assert any("all d < 1" in finding.label for finding in judged.findings)
        assert "Only in this order" in judged.remarks[0]
    altered("idw", monkeypatch, lambda score, inputs, keys, given: factor * score(inputs, keys, **given))
    assert runs.judge(number).verdict == "does not hold"


def test_a_third_score_that_reaches_weight_one_refutes_only(runs, monkeypatch):
    altered("gaussian", monkeypatch, lambda score, inputs, keys, given: 100 * score(inputs, keys, **given))
    assert "gaussian" in runs.judge(9).reason


def test_the_gradient_of_idw_vanishes_at_a_key_with_power_two(runs):
    judged = runs.judge(10)
    assert judged.verdict == "does not hold"
    assert judged.decisive.label == "idw, p = 2: gradient as d → 0"
    assert judged.decisive.effect == pytest.approx(2e-9 / 1e-3, rel=1e-6)
    assert "1,000 and 0.2" in judged.remarks[0]


def test_with_power_one_the_gradient_of_idw_alone_is_kept(runs, monkeypatch):
    for name in ("idw", "inv_dist"):
        altered(name, monkeypatch, lambda score, inputs, keys, given: score(inputs, keys, **{**given, "power": 1.0}))
    assert runs.judge(10).verdict == "holds"


def test_the_printed_expansion_is_a_misprint(runs):
    judged = runs.judge(20)
    assert judged.verdict == "does not hold"
    assert judged.decisive.effect > 1
    assert "with −2qᵀk the largest deviation is" in judged.remarks[0]
    assert float(judged.remarks[0].split()[-1].rstrip(".")) < 1e-12
