"""Runs of networks: the quality and the patches of their heads against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from blob_data import make_regression
from engine_runs import train_run
from kinds import IDW_HEAD, images, network_run

from idwbench.models.networks import network_from_arrays
from idwbench.runs.config import run_config


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
    keys, values = (torch.from_numpy(result.arrays[name]).double() for name in ("head.keys", "head.values"))

    def weights(features: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return 1 / (1e-3 + torch.cdist(features, keys, compute_mode="donot_use_mm_for_euclid_dist") ** 2)

    # Features in float32, as the study has them.
    encoded = network_from_arrays(result.config.model, data, result.arrays)
    splits = {name: torch.from_numpy(encoded.features(s.inputs)).double() for name, s in data.splits.items()}
    logits = {name: (w := weights(f, keys)) / w.sum(1, keepdim=True) @ values for name, f in splits.items()}
    wrong = np.flatnonzero(logits["test"].argmax(1).numpy() != data.test.labels)[:3]
    assert len(wrong) == result.metric("patched", "cases") == 3
    changed = {"train": [], "test": []}
    for row in wrong:
        at, label = splits["test"][row : row + 1], int(data.test.labels[row])
        total = weights(at, keys).sum()
        gap = logits["test"][row].max() - logits["test"][row, label]
        value = torch.zeros(1, 3, dtype=torch.float64)
        value[0, label] = 1.001 * 1e-3 * total * gap
        for name, found in changed.items():
            w = weights(splits[name], torch.cat([keys, at]))
            after = (w / w.sum(1, keepdim=True) @ torch.cat([values, value])).argmax(1)
            differs = after != logits[name].argmax(1)
            if name == "test":
                assert after[row] == label
                differs[row] = False
            found.append(int(differs.sum()))
    for name, found in changed.items():
        assert result.metric("changed_exact", name) == np.mean(found)
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


def test_a_regression_is_trained_by_the_squared_error() -> None:
    data = make_regression()
    result = train_run(run_config("sine", kind="network", **IDW_HEAD, epochs=2, batch_size=8, learning_rate=0.01), data)
    outputs = network_from_arrays(result.config.model, data, result.arrays).outputs(data.test.inputs)
    assert result.metric("loss") == pytest.approx(((outputs - data.test.targets) ** 2).mean(), rel=1e-5)
    assert result.metric("rmse") > 0 and result.metric("patched", "cases") is None
