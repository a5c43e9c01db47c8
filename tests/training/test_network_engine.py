"""Runs of networks: the quality and the patches of their heads against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import train_run
from kinds import IDW_HEAD, images, network_run

from idwbench.models.networks import network_from_arrays


def test_the_quality_of_the_head_is_that_of_features() -> None:
    result = train_run(network_run(**IDW_HEAD), images())
    network = network_from_arrays(result.config.model, images(), result.arrays)
    features = network.features(images().train.inputs).astype(np.float64)
    keys, values = (result.arrays[name].astype(np.float64) for name in ("head.keys", "head.values"))
    distances = np.sqrt(((features[:, None] - keys) ** 2).sum(2))
    assert np.array_equal(result.arrays["nearest"], distances.argmin(0))
    assert result.metric("coverage", "train") == pytest.approx(distances.min(1).mean(), rel=1e-5)
    assert result.metric("key_distance", "train") == pytest.approx(distances.min(0).mean(), rel=1e-5)
    agree = values.argmax(1) == images().train.labels[distances.argmin(0)]
    assert result.metric("key_agreement", "train") == agree.mean()


def test_patches_of_the_head_change_as_many_predictions_as_adding_prototypes_to_it() -> None:
    result, data = train_run(network_run(**IDW_HEAD, patches=3), images()), images()
    keys, values = (result.arrays[name].astype(np.float64) for name in ("head.keys", "head.values"))

    def weights(features: np.ndarray, keys: np.ndarray) -> np.ndarray:
        return 1 / (1e-3 + ((features[:, None] - keys) ** 2).sum(2))

    def logits(features: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        found = weights(features, keys)
        return found / found.sum(1, keepdims=True) @ values

    # Features in float32, as the study has them.
    encoded = network_from_arrays(result.config.model, data, result.arrays)
    features = {name: encoded.features(data.splits[name].inputs).astype(np.float64) for name in ("train", "test")}
    before = logits(features["test"], keys, values)
    wrong = np.flatnonzero(before.argmax(1) != data.test.labels)[:3]
    assert len(wrong) == result.metric("patched", "cases") == 3
    changed = {"train": [], "test": []}
    for row in wrong:
        at, label = features["test"][row : row + 1], data.test.labels[row]
        eta = 1e-3 * weights(at, keys).sum() * (before[row].max() - before[row, label])
        patched = np.vstack([keys, at]), np.vstack([values, 1.001 * eta * np.eye(3)[label]])
        assert logits(at, *patched).argmax() == label
        for name, counts in changed.items():
            others = np.delete(features[name], row, 0) if name == "test" else features[name]
            counts.append((logits(others, *patched).argmax(1) != logits(others, keys, values).argmax(1)).sum())
    for name, counts in changed.items():
        assert result.metric("changed_exact", name) == np.mean(counts)
    assert result.metric("smallest_eta", "cases") == 1


CONV = {"encoder": "conv", "width": 2, "depth": 2}


@pytest.mark.parametrize(
    "settings", [{**IDW_HEAD, "epsilon": 0}, {**IDW_HEAD, "patches": 0}, {**IDW_HEAD, "head": "neg_dist"}, CONV]
)
def test_only_idw_heads_with_epsilon_above_0_are_patched(settings: dict[str, object]) -> None:
    result = train_run(network_run(**settings, epochs=1), images())
    assert result.state == "complete" and result.metric("patched", "cases") is None
    assert (result.metric("coverage", "train") is None) == ("head" not in settings)
    assert ("nearest" in result.arrays) == ("head" in settings)
