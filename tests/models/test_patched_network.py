"""Networks whose head of prototypes is patched in the space of features."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from blob_data import make_dataset, make_regression
from case_tables import case_table

import idwbench
from idwbench.data.dataset import Dataset
from idwbench.data.loading import load_dataset
from idwbench.errors import PatchError
from idwbench.models.model_file import load_model
from idwbench.models.networks import Network, initial_network, load_network
from idwbench.models.patched_network import PatchedNetwork
from idwbench.results.store import Results
from idwbench.runs.kinds.models import parse_model

Trained = tuple[Network, Dataset, np.ndarray]
SETTINGS: dict[str, dict[str, Any]] = {
    "mlp+idw": {"encoder": "mlp", "width": 16, "head": "idw"},
    "conv+neg_dist": {"encoder": "conv", "width": 4, "depth": 2, "head": "neg_dist"},
}


@pytest.fixture(scope="module", params=SETTINGS)
def trained(request, tmp_path_factory):
    """Return a network trained on digits, its data and the first five test rows that it gets wrong."""
    database = tmp_path_factory.mktemp("networks") / "results.db"
    settings = {"kind": "network", "prototypes": 10, "epochs": 2, "batch_size": 64, **SETTINGS[request.param]}
    run = idwbench.train(idwbench.run_config("digits", **settings), database)
    network, dataset = load_network(Results(database), run.run_key), load_dataset(run.config.dataset)
    wrong = np.flatnonzero(network.predict(dataset.test.inputs) != dataset.test.labels)
    return network, dataset, wrong[:5]


def patched(trained, **options):
    network, dataset, rows = trained
    inputs, labels = dataset.test.inputs[rows], dataset.test.labels[rows].tolist()
    return PatchedNetwork.of(network, dataset).patch_all(inputs, labels, **options)


def test_patches_hold_and_right_answers_for_training_data_stay(trained):
    network, dataset, rows = trained
    one = patched(trained)
    assert (one.predict(dataset.test.inputs[rows]) == dataset.test.labels[rows]).all()
    answers = [model.predict(dataset.train.inputs) == dataset.train.labels for model in (network, one)]
    assert (answers[1] >= answers[0]).all()
    assert all(record.radius > 0 for record in one.repairs.records)
    effects = one.effects()
    assert effects["train"].worse == 0
    assert effects["train"].before["accuracy"] == answers[0].mean()
    assert effects["test"].after["accuracy"] == (one.predict(dataset.test.inputs) == dataset.test.labels).mean()


def test_a_head_that_is_saved_goes_on_with_its_network_until_all_patches_are_undone(trained, tmp_path):
    network, dataset, rows = trained
    one = patched(trained)
    one.head.save(tmp_path / "head.pt")
    again = PatchedNetwork.of(network, dataset, load_model(tmp_path / "head.pt"))
    inputs = dataset.test.inputs
    for same in (again, pickle.loads(pickle.dumps(one))):
        assert np.array_equal(same.outputs(inputs), one.outputs(inputs))
        for left in reversed(range(len(rows))):
            same = same.undo_patch(1)
            assert len(same.repairs) == left
        assert np.array_equal(same.outputs(inputs), network.outputs(inputs))
    others = ({"head": "idw", "prototypes": 10}, {"head": "cosine", "prototypes": 10})
    for other in (made_network(dataset, **head) for head in others):
        with pytest.raises(PatchError, match="another network"):
            PatchedNetwork.of(other, dataset, one.head)


RANDOM = np.random.default_rng(0)


def made_network(dataset, **head):
    head = head or {"head": "idw", "prototypes": 4}
    model = parse_model({"kind": "network", "encoder": "mlp", "width": 8, **head})
    return initial_network(model, dataset, RANDOM).eval()


def test_the_head_of_a_regression_gives_a_target_in_its_own_units():
    dataset = make_regression()
    network = made_network(dataset)
    one = network.patch(dataset.test.inputs[0], target=[3.5, 6.0], dataset=dataset)
    outputs = dataset.target_scaling.invert(one.outputs(dataset.test.inputs[:1]))
    np.testing.assert_allclose(outputs, [[3.5, 6.0]], rtol=1e-6)
    effect, train = one.effects()["train"], dataset.target_scaling.invert(dataset.train.targets)
    errors = dataset.target_scaling.invert(one.outputs(dataset.train.inputs)) - train
    np.testing.assert_allclose(effect.after["rmse"], np.sqrt(np.mean(errors**2)), rtol=1e-6)
    assert effect.worse == 0


@pytest.mark.parametrize("head", ["idw", "cosine"])
def test_a_head_with_a_learned_power_or_temperature_is_patched_with_the_learned_one(head):
    dataset = make_dataset()
    name = "learned_power" if head == "idw" else "learned_temperature"
    network = made_network(dataset, head=head, prototypes=4, **{name: True})
    with torch.no_grad():
        for parameter in (*network.head.learned.parameters(), network.head.values):
            parameter += 0.7
    x = dataset.test.inputs[0]
    one = network.patch(x, 1, dataset=dataset)
    assert one.predict(x[None]).tolist() == [1]
    own = one.head.network.parameters_of_method["power" if head == "idw" else "temperature"]
    assert own == pytest.approx((2 if head == "idw" else 1) * np.exp(0.7), rel=1e-6)
    features = network.features(dataset.test.inputs)
    np.testing.assert_allclose(one.head.network.outputs(features), network.head.outputs(features), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("head", "x", "label", "options", "problem"), case_table("wrong_inputs")["patched_networks"])
def test_what_cannot_be_patched_is_refused(head, x, label, options, problem):
    dataset = make_dataset()
    with pytest.raises(PatchError, match=problem):
        made_network(dataset, **head).patch(x, label, dataset=dataset, **options)


def test_data_of_another_number_of_classes_is_refused():
    dataset = make_dataset()
    splits = {name: replace(part, targets=part.labels % 2) for name, part in dataset.splits.items()}
    with pytest.raises(PatchError, match="expected 3 outputs, those of the network, got 2"):
        PatchedNetwork.of(made_network(dataset), replace(dataset, class_names=("a", "b"), **splits))
