"""The defaults of prototype networks: the paper's on its data, others on tables, and none in place of what is given."""

import pytest

from idwbench.runs.config import run_config
from idwbench.runs.kinds.prototypes import TABLE_DEFAULTS

TABLES = ("iris", "digits", "blobs", "sine", "diabetes", {"name": "csv", "path": "x.csv"})


def chosen(run):
    return {
        "initialisation": run.model.initialisation,
        "key_bounds": run.model.key_bounds,
        "learning_rate": run.protocol.learning_rate,
    }


@pytest.mark.parametrize("dataset", TABLES, ids=str)
def test_keys_that_are_points_start_at_rows_of_a_table_and_stay_within_its_range(dataset):
    assert chosen(run_config(dataset)) == TABLE_DEFAULTS
    given = {"initialisation": "kmeans", "learning_rate": 0.2}
    assert chosen(run_config(dataset, **given)) == {**TABLE_DEFAULTS, **given}
    earlier = {"initialisation": "default", "key_bounds": "none", "learning_rate": 0.01}
    assert chosen(run_config(dataset, method="fc_relu")) == earlier == chosen(run_config(dataset, **earlier))


@pytest.mark.parametrize("dataset", ["two_moons", "mnist", "fashion_mnist"])
def test_the_data_of_the_paper_and_images_like_it_keep_its_protocol(dataset):
    run = run_config(dataset)
    assert (run.model.initialisation, run.model.key_bounds) == ("default", "none")
    assert run.protocol.learning_rate == (0.01 if dataset == "two_moons" else 0.001)


def test_a_study_of_patches_trains_the_network_that_train_would():
    assert run_config("iris", kind="patch_study", cases="wrong").required == run_config("iris")


def test_other_kinds_keep_the_protocol_of_their_data():
    assert run_config("digits", kind="network", head="idw", prototypes=4).protocol.learning_rate == 0.01
