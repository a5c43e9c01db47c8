"""The main job on real images: train and patch."""

from dataclasses import replace

import numpy as np
import pytest
from array_models import saved_array_model
from engine_runs import train_run

from idwbench import load_model, run_config
from idwbench.data.dataset import Split
from idwbench.data.loading import load_dataset
from idwbench.models.inputs import PatchLine
from idwbench.models.repair import repair

pytestmark = pytest.mark.slow


@pytest.fixture
def mnist(data_dir, monkeypatch):
    """The first real images, also for what loads the data set of the model."""
    config = run_config("mnist", prototypes=20, epochs=1, batch_size=16, learning_rate=0.1)
    whole = load_dataset(config.dataset, data_dir)
    train = Split(whole.train.inputs[:12_000], whole.train.labels[:12_000])
    test = Split(whole.test.inputs[:2_000], whole.test.labels[:2_000])
    first = replace(whole, train=train, test=test)
    for module in ("inputs", "repair"):
        monkeypatch.setattr(f"idwbench.models.{module}.load_dataset", lambda config, data_dir=None: first)
    return config, first


def test_wrong_answers_come_right_for_their_surroundings_and_hardly_any_other_changes(mnist, tmp_path):
    config, mnist = mnist
    model = saved_array_model(config, mnist, train_run(config, mnist).arrays)
    predicted = model.outputs(mnist.test.inputs).argmax(1)
    assert (predicted == mnist.test.labels).mean() > 0.6
    wrong = np.flatnonzero(predicted != mnist.test.labels)
    chosen = np.random.default_rng(0).choice(wrong, size=10, replace=False).tolist()
    shares, changed = [], []
    for index in chosen:
        made = repair(model, [PatchLine(f"mnist:test:{index}", str(mnist.test.labels[index]))])
        assert made.kept["noise"] == 1.0 and made.effects["train"].worse == 0
        changed.append(made.effects["test"].better + made.effects["test"].worse)
        shares.append((made.probabilities[0], made.kept["shifts"]))
    assert np.mean(changed) < 6  # a model of one epoch is wrong on whole groups of images
    probability, shifts = np.mean(shares, axis=0)
    assert probability > 0.6 and shifts > 0.6
    together = model.patch_all(mnist.scaling.invert(mnist.test.inputs[chosen]), mnist.test.labels[chosen].tolist())
    together.save(tmp_path / "patched.pt")
    again = load_model(tmp_path / "patched.pt").outputs(mnist.test.inputs).argmax(1)
    assert (again[chosen] == mnist.test.labels[chosen]).all()
    assert (again == mnist.test.labels).mean() > (predicted == mnist.test.labels).mean()
