"""The claims on patches: data for each verdict, in the arrays of a study of patches."""

from __future__ import annotations

import numpy as np
import pytest

from idwbench.claims.patches import far_influence_ratio, reach

EDGES = np.array([0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0])


def study(
    runs, prototypes=16, dataset="two_moons", seeds=20, changed=3, loss=0.001, influence=None, smallest=1.0, **more
):
    """Add studies of three patched cases and three that need none."""
    split = "test" if dataset == "mnist" else "holdout"
    eta = np.full((3, 6), np.nan)
    eta[:, ::2] = 0.1

    def arrays(seed):
        counts = np.full((3, 6), -1)
        counts[:, ::2] = [0, changed + seed % 2, 1]
        accuracy = np.full((3, 6), 0.99)
        accuracy[:, ::2] -= loss + 1e-5 * seed
        decay = np.array([0.4, 0.4, 0.2, 0.1, 0.02, np.nan]) if influence is None else np.asarray(influence)
        return {
            "eta": eta,
            f"changed_{split}": counts,
            f"accuracy_{split}": accuracy,
            "influence_edges": EDGES,
            "influence": np.tile(decay * (1 + 0.001 * seed), (3, 1)),
        }

    metrics = {("cases", "smallest_eta"): smallest, ("cases", "patched"): 3.0, (split, "accuracy_before"): 0.99}
    cases = "wrong" if dataset == "mnist" else "special"
    settings = {"method": "idw", "prototypes": prototypes, "dataset": dataset, "seeds": range(seeds), "cases": cases}
    return runs.add(metrics, kind="patch_study", arrays=arrays, **settings, **more)


def wide(runs, influence=(0.4, 0.4, 0.4, 0.4, 0.3, 0.1)):
    for epsilon in (0.01, 0.1, 1.0):
        study(runs, influence=influence, epsilon=epsilon)
    return runs


def test_influence_decays_sharply_if_it_reaches_less_far_and_ends(runs):
    study(runs)
    assert runs.judge(11).verdict == "not enough runs"
    assert wide(runs).judge(11).verdict == "holds"


@pytest.mark.parametrize(
    ("influence", "words"),
    [((0.4, 0.4, 0.4, 0.4, 0.02, np.nan), "reach"), ((0.4, 0.1, 0.1, 0.1, 0.1, 0.1), "far influence")],
)
def test_influence_that_reaches_far_refutes_the_claim(runs, influence, words):
    study(runs, influence=influence)
    judged = wide(runs, (0.4, 0.4, 0.4, 0.4, 0.1, 0.1)).judge(11)
    assert judged.verdict == "does not hold"
    assert judged.reason.startswith(words)


def test_reach_and_far_influence_are_read_from_the_bins():
    arrays = {"influence_edges": EDGES, "influence": np.tile([0.4, np.nan, 0.2, 0.1, 0.02, np.nan], (3, 1))}
    assert reach(arrays) == 0.5
    assert far_influence_ratio(arrays) == pytest.approx(0.05)
    nothing = {"influence_edges": EDGES, "influence": np.full((3, 6), np.nan)}
    for function in (reach, far_influence_ratio):
        assert function(nothing) is None
        assert function({}) is None


@pytest.mark.parametrize(("smallest", "verdict"), [(1.0, "holds"), (2 / 3, "does not hold")])
def test_eta_is_smallest_in_every_case_or_it_is_not(runs, smallest, verdict):
    for prototypes in (2, 16, 128):
        study(runs, prototypes, seeds=6)
    assert runs.judge(12).verdict == "not enough runs"
    judged = study(runs, 20, "mnist", seeds=5, smallest=smallest).judge(12)
    assert judged.verdict == verdict
    assert judged.n == 3 * (6 * 3 + 5)


@pytest.mark.parametrize(
    ("changed", "on_mnist", "verdict"), [(3, 3, "holds"), (300, 3, "does not hold"), (3, 300, "does not hold")]
)
def test_few_other_predictions_change_in_the_worst_case(runs, changed, on_mnist, verdict):
    for prototypes in (2, 16, 128):
        study(runs, prototypes, changed=changed)
    assert runs.judge(13).verdict in ("not enough runs", "does not hold")
    assert study(runs, 20, "mnist", seeds=5, changed=on_mnist).judge(13).verdict == verdict


@pytest.mark.parametrize(("loss", "verdict"), [(0.0, "holds"), (0.005, "does not hold"), (0.03, "does not hold")])
def test_damage_is_a_loss_of_half_a_point_or_more(runs, loss, verdict):
    study(runs, 16, loss=loss)
    assert runs.judge(19).verdict in ("not enough runs", "does not hold")
    assert study(runs, 128, loss=loss).judge(19).verdict == verdict


@pytest.mark.parametrize("number", [11, 12, 13, 19])
def test_studies_without_arrays_and_metrics_are_not_enough(runs, number):
    for prototypes in (2, 16, 128):
        runs.add(kind="patch_study", method="idw", prototypes=prototypes)
    assert runs.judge(number).verdict == "not enough runs"
