"""What may help a network that has not learned its training data, and when nothing is said."""

import pytest

from idwbench.runs.advice import LOW_ACCURACY, training_advice
from idwbench.runs.config import run_config

LOW = {("train", "accuracy"): 0.5}
ADVICE = [
    ({}, "more than 16 prototypes, power 8, initialisation samples, learning_rate 0.05 and 50 epochs"),
    ({"power": 8.0, "learning_rate": 0.1, "epochs": 60}, "more than 16 prototypes and initialisation samples"),
    ({"method": "fc_relu", "prototypes": 4, "epochs": 50}, "more than 4 prototypes"),
]


@pytest.mark.parametrize(("settings", "helps"), ADVICE)
def test_settings_that_a_run_already_has_are_not_among_what_helps(settings, helps):
    advice = training_advice(run_config("two_moons", **settings), LOW)
    assert advice == f"the train accuracy 50.0 % is low; what usually helps: {helps}"


def test_nothing_is_said_of_what_is_learned_of_other_kinds_and_of_regressions():
    network = run_config("two_moons")
    for run, metrics in (
        (network, {("train", "accuracy"): LOW_ACCURACY}),
        (network, {("train", "rmse"): 3.0}),
        (run_config("two_moons", kind="baseline", method="kmeans"), LOW),
    ):
        assert training_advice(run, metrics) == ""
