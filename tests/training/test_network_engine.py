"""Runs of networks: results, interruption, and the head's quality and patches against brute force."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from blob_data import make_dataset, make_regression
from engine_runs import train_run
from module_trainings import Interrupted
from torch.nn import functional

from idwbench.data.dataset import Dataset
from idwbench.models.networks import Network, network_from_arrays
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.results import RunResult
from idwbench.training.engine import Context
from idwbench.training.network_engine import ENGINES

IDW = {"encoder": "mlp", "width": 6, "head": "idw", "prototypes": 5}
KINDS = {
    "linear": {"encoder": "conv", "width": 2, "depth": 2},
    "prototypes": IDW,
    "attention": {"encoder": "vit_tiny", "width": 4, "heads": 2, "depth": 1, "attention": "idw"},
}


@cache
def images() -> Dataset:
    # Overlapping classes, so that some test inputs are wrong.
    data = replace(make_dataset(n_features=24, validation=True), image_shape=(4, 6))
    generator = np.random.default_rng(1)

    def noisy(split):
        return replace(split, inputs=(split.inputs + 6 * generator.normal(size=split.inputs.shape)).astype(np.float32))

    names = ("train", "test", "holdout", "validation")  # enough noise for several wrong test inputs
    return replace(data, **{name: noisy(data.splits[name]) for name in names})


def run(**settings) -> RunConfig:
    protocol = {"epochs": 3, "batch_size": 8, "learning_rate": 0.02}
    return run_config("two_moons", kind="network", **{**protocol, **settings})


def trained(config: RunConfig, data: Dataset | None = None, **options) -> RunResult:
    return train_run(config, data or images(), **options)


def network_of(result: RunResult, data: Dataset) -> Network:
    return network_from_arrays(result.config.model, data, result.arrays)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_stored_arrays_give_the_stored_metrics(settings: dict[str, object]) -> None:
    result = trained(run(**settings))
    network = network_of(result, images())
    for name, split in images().splits.items():
        logits = torch.from_numpy(network.outputs(split.inputs))
        assert result.metric("accuracy", name) == (logits.argmax(1).numpy() == split.labels).mean()
        loss = functional.cross_entropy(logits.double(), torch.from_numpy(split.labels))
        assert result.metric("loss", name) == pytest.approx(float(loss), rel=1e-6)
    assert result.n_parameters == sum(p.numel() for p in network.parameters())
    assert [point.epoch for point in result.curve] == [1, 2, 3]
    last = result.curve[-1].values
    assert last["test", "accuracy"] == result.metric("accuracy")
    assert last["validation", "accuracy"] == result.metric("accuracy", "validation")
    assert result.metric("activation_memory", "train") > 0 and result.metric("seconds_per_step", "train") > 0


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_an_interrupted_run_continues_with_the_same_bytes(settings: dict[str, object], tmp_path: Path) -> None:
    config, checkpoints = run(**settings), tmp_path / "checkpoints"

    def stop(epoch: int) -> None:
        if epoch == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        trained(config, checkpoint_folder=checkpoints, on_epoch=stop)
    assert [file.name for file in (tmp_path / "checkpoints").iterdir()] == [f"{config.run_key}.pt"]
    epochs: list[int] = []
    resumed = trained(config, checkpoint_folder=checkpoints, on_epoch=epochs.append)
    whole = trained(config)
    assert epochs == [3]
    assert resumed.curve == whole.curve and resumed.arrays.keys() == whole.arrays.keys()
    assert all(array.tobytes() == whole.arrays[name].tobytes() for name, array in resumed.arrays.items())
    timed = ("train", "seconds_per_step")
    assert {**resumed.metrics, timed: 0} == {**whole.metrics, timed: 0}
    ENGINES["network"].stored([config], Context(checkpoint_folder=checkpoints))
    assert not (tmp_path / "checkpoints").exists()


def test_a_checkpoint_of_other_data_is_not_used(tmp_path: Path) -> None:
    config, notes = run(**IDW), []

    def stop(epoch: int) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        trained(config, checkpoint_folder=tmp_path, on_epoch=stop)
    other = replace(images(), sha256="1" * 64)
    assert trained(config, other, checkpoint_folder=tmp_path, report=notes.append).arrays.keys() and len(notes) == 1
    assert "is of another configuration" in notes[0]


def test_the_quality_of_the_head_is_that_of_features() -> None:
    result = trained(run(**IDW))
    features = network_of(result, images()).features(images().train.inputs).astype(np.float64)
    keys, values = (result.arrays[name].astype(np.float64) for name in ("head.keys", "head.values"))
    distances = np.sqrt(((features[:, None] - keys) ** 2).sum(2))
    assert np.array_equal(result.arrays["nearest"], distances.argmin(0))
    assert result.metric("coverage", "train") == pytest.approx(distances.min(1).mean(), rel=1e-5)
    assert result.metric("key_distance", "train") == pytest.approx(distances.min(0).mean(), rel=1e-5)
    agree = values.argmax(1) == images().train.labels[distances.argmin(0)]
    assert result.metric("key_agreement", "train") == agree.mean()


def test_patches_of_the_head_change_as_many_predictions_as_adding_prototypes_to_it() -> None:
    result, data = trained(run(**IDW, patches=3)), images()
    keys, values = (torch.from_numpy(result.arrays[name]).double() for name in ("head.keys", "head.values"))

    def weights(features: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return 1 / (1e-3 + torch.cdist(features, keys, compute_mode="donot_use_mm_for_euclid_dist") ** 2)

    # Features in float32, as the study has them.
    encoded = network_of(result, data)
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


@pytest.mark.parametrize(
    "settings", [{**IDW, "epsilon": 0}, {**IDW, "patches": 0}, {**IDW, "head": "neg_dist"}, KINDS["linear"]]
)
def test_only_idw_heads_with_epsilon_above_0_are_patched(settings: dict[str, object]) -> None:
    result = trained(run(**settings, epochs=1))
    assert result.state == "complete" and result.metric("patched", "cases") is None
    assert (result.metric("coverage", "train") is None) == ("head" not in settings)
    assert ("nearest" in result.arrays) == ("head" in settings)


def test_a_regression_is_trained_by_the_squared_error() -> None:
    data = make_regression()
    result = trained(run_config("sine", kind="network", **IDW, epochs=2, batch_size=8, learning_rate=0.01), data)
    outputs = network_of(result, data).outputs(data.test.inputs)
    assert result.metric("loss") == pytest.approx(((outputs - data.test.targets) ** 2).mean(), rel=1e-5)
    assert result.metric("rmse") > 0 and result.metric("patched", "cases") is None


def test_a_diverged_run_has_no_metrics_and_arrays() -> None:
    result = trained(run(**KINDS["linear"], learning_rate=3e37, optimizer="sgd"))
    assert (result.state, result.diverged_epoch) == ("diverged", 1)
    assert result.metrics == {} and result.arrays == {} and result.n_parameters is None


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    first, again, other = (trained(run(**IDW, seed=seed)) for seed in (0, 0, 1))
    name = "encoder.layers.0.weight"
    assert first.arrays[name].tobytes() == again.arrays[name].tobytes() != other.arrays[name].tobytes()
