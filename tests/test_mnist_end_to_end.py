"""The main job on real images: train and patch."""

import contextlib
import dataclasses
import functools

import numpy as np
import pytest
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.data import loading
from idwbench.data.dataset import Split
from idwbench.models.inputs import PatchLine
from idwbench.models.model_file import load_model
from idwbench.models.repair import repair
from idwbench.runs.datasets import parse_dataset

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mnist(data_dir):
    """The first real images, read once: what loads data sets while this file runs is given the same."""

    load = loading.load_dataset

    @functools.cache
    def loaded(config):
        found = load(config)
        train = Split(found.train.inputs[:12_000], found.train.labels[:12_000])
        test = Split(found.test.inputs[:2_000], found.test.labels[:2_000])
        return dataclasses.replace(found, train=train, test=test)

    with pytest.MonkeyPatch.context() as patched:
        for module in ("data.loading", "models.inputs", "models.repair", "figures.runs"):
            patched.setattr(f"idwbench.{module}.load_dataset", lambda config, data_dir=None: loaded(config))
        yield loaded(parse_dataset("mnist"))


@pytest.fixture(scope="module")
def folder(mnist, tmp_path_factory):
    """A folder in which an `idw` model was trained on MNIST for one epoch."""
    folder = tmp_path_factory.mktemp("mnist")
    words = "train --dataset mnist --prototypes 20 -o model.pt --epochs 1 --batch-size 16 --learning-rate 0.1"
    with contextlib.chdir(folder):
        result = CliRunner().invoke(app, words.split())
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return load_model(folder / "model.pt")


def test_wrong_answers_come_right_for_their_surroundings_and_hardly_any_other_changes(model, mnist, tmp_path):
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
