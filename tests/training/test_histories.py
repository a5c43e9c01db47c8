"""What a training left: shares of samples in the movement of keys, by float64 and engines; studies of a memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from blob_data import make_dataset, make_regression
from engine_runs import torch_optimizer, torch_step, train_run
from kinds import PROTOCOLS, prototypes_run
from recorded_mlp import OF, PROTOCOL, SETTINGS, layers_of, made_parts, outputs, store_recorded
from scipy.special import softmax

import idwbench
from idwbench.attention.forward import prototype_logits
from idwbench.attention.scores import METHODS
from idwbench.data.dataset import Split
from idwbench.dual.key_history import KeyHistory
from idwbench.dual.recording import open_recording
from idwbench.errors import ConfigError, ResultsError, TrainingError
from idwbench.results.store import Results
from idwbench.runs.config import run_config
from idwbench.training import replay as replay_module
from idwbench.training.replay import AbstractReplay, Prototypes, Steps, key_history, replay_keys, run_replay
from idwbench.training.threads import limited_threads


class Float64Replay(AbstractReplay):
    """Trains in float64 by the optimizers of torch; goes back by beginning anew."""

    def __init__(self, config, dataset):
        super().__init__(config, dataset, np.random.default_rng(config.seed))
        self.begin()

    def begin(self):
        generator, model = np.random.default_rng(1), self.config.network
        sizes = (model.prototypes, self.dataset.n_features), (model.prototypes, self.dataset.n_outputs)
        self.parameters = [torch.from_numpy(generator.normal(size=size)).requires_grad_() for size in sizes]
        self.optimizer, self.taken, self.clip = torch_optimizer(self.protocol, self.parameters), 0, 1.0

    def loss(self, rows):
        train, model = self.dataset.train, self.config.network
        inputs, targets = torch.from_numpy(train.inputs[rows]).double(), torch.from_numpy(train.targets[rows])
        outputs = prototype_logits(model.method_record, model.parameters, inputs, *self.parameters)
        if self.dataset.task == "regression":
            return torch.nn.functional.mse_loss(outputs, targets.double())
        return torch.nn.functional.cross_entropy(outputs, targets)

    def take(self, steps):
        for rows in steps.rows:
            norm = torch_step(self.optimizer, self.protocol, self.loss(rows), steps.rate)
            self.clip = min(1.0, (self.protocol.gradient_clip or np.inf) / (norm + 1e-6))
            self.taken += 1

    def prototypes(self):
        names = {"adam": "exp_avg_sq", "adam_amsgrad": "max_exp_avg_sq"}
        state, name = self.optimizer.state[self.parameters[0]], names.get(self.protocol.optimizer)
        keys, values = (parameter.detach().numpy().copy() for parameter in self.parameters)
        squares = state[name].numpy().copy() if state and name else np.zeros(keys.shape)
        return Prototypes(keys, values, squares if name else None)

    def snapshot(self):
        now = self.prototypes()
        return {"keys": now.keys, "values": now.values, "taken": np.array(self.taken)}

    def restore(self, snapshot):
        self.begin()
        for steps in self.steps(0, int(snapshot["taken"])):
            self.take(steps)


def superposed_shares(replay):
    """Train, and return the shares of each sample, (rows, prototypes), and of the initial keys in the last row.

    The steps of an optimizer are a linear function of the gradients once the divisors of Adam are given. So the keys
    that follow from the gradients of one sample alone, and those that follow from the initial keys alone, sum to the
    trained keys. What each sample's gradients do alone is added up forwards in time.
    """
    first, p = replay.prototypes().keys, replay.protocol
    parts = np.zeros((len(replay.dataset.train) + 1, *first.shape))
    parts[-1] = first
    velocities, (old, new) = np.zeros_like(parts), (p.momentum, 1.0) if p.optimizer == "sgd" else (0.9, 0.1)
    for steps in replay.steps(0, replay.n_steps):
        for rows in steps.rows:
            alone = [torch.autograd.grad(replay.loss(row[None]), replay.parameters[0])[0].numpy() for row in rows]
            replay.take(Steps(replay.taken, rows[None], steps.rate))
            gradients = p.weight_decay * parts
            gradients[rows] += replay.clip / len(rows) * np.stack(alone)
            velocities = old * velocities + new * gradients
            divisor = np.ones(())
            if (squares := replay.prototypes().squares) is not None:
                divisor = np.sqrt(squares / (1 - 0.999**replay.taken)) + 1e-8
                divisor *= 1 - 0.9**replay.taken
            parts -= steps.rate * velocities / divisor
    moved = replay.prototypes().keys - first
    parts[-1] -= first
    np.testing.assert_allclose(parts.sum(0), moved, rtol=0, atol=1e-12)
    return np.einsum("ipf,pf->ip", parts, moved) / (moved**2).sum(1)


OTHERS = [{"weighting": "entmax15"}, {"power": 3.0}, {"epsilon": 0.0}, {"power": 1.0, "epsilon": 0.0}]
CASES = [
    *((make_dataset(11), {"epochs": 3, **protocol}) for protocol in PROTOCOLS),
    *(
        (make_dataset(7, 4), settings)
        for settings in [*({"method": name} for name, one in METHODS.items() if not one.learned), *OTHERS]
    ),
    *((make_regression(9, 3, targets), {}) for targets in (1, 2)),
]


@pytest.mark.parametrize(("dataset", "settings"), CASES)
def test_shares_are_those_of_superposed_trainings_for_every_optimizer_method_and_task(dataset, settings):
    base = {"method": "idw", "epochs": 2, "batch_size": 4, "prototypes": 3, "seed": 3, "learning_rate": 0.02}
    trained = Float64Replay(run_config(dataset.config, **{**base, **settings}), dataset)
    expected, end = superposed_shares(trained), trained.prototypes()
    history = replay_keys(Float64Replay(trained.config, dataset), end.keys, end.values)
    assert history.is_exact
    np.testing.assert_allclose(history.shares, expected[:-1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(history.initial_share, expected[-1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(history.remainder, 0, atol=1e-9)
    has_decayed = np.abs(history.initial_share) > 1e-3
    assert has_decayed.all() if "weight_decay" in settings else not history.initial_share.any()


def test_top_samples_are_sorted_by_share_with_ties_by_row_and_counted_for_a_half():
    keys, none = np.array([[3.0, 4.0], [0.0, 1.0]], np.float32), np.zeros(2)
    shares = np.array([[0.2, 0.1], [0.4, 0.1], [-0.3, 0.0], [0.3, 0.1], [0.4, 0.1]])
    history = KeyHistory(0 * keys, keys, np.eye(3)[:2], shares, np.zeros((1, 3, 2)), none, none, True)
    assert history.top(0, 3).tolist() == [1, 4, 3]
    assert history.top(0, 2, against=True).tolist() == [2, 0]
    assert len(history.top(0, 99)) == 5
    assert history.n_for().tolist() == [2, -1]
    assert history.n_for(0.4).tolist() == [1, 4]
    assert (history.distance.tolist(), history.classes.tolist()) == ([5.0, 1.0], [0, 1])


# The engines
def trained_and_replayed(dataset, engine="torch", **settings):
    """Return the replay of a run, and its keys and values."""
    base = {"prototypes": 3, "learning_rate": 0.02, "initialisation": "mean"}
    config = prototypes_run(dataset, **{**base, **settings})
    with limited_threads(1):
        arrays = train_run(config, dataset, engine=engine).arrays
        return run_replay(config, dataset, engine, "cpu"), arrays["keys"], arrays["values"]


def history(dataset, **settings):
    return replay_keys(*trained_and_replayed(dataset, **settings))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [PROTOCOLS[0], PROTOCOLS[5], {**PROTOCOLS[6], "learning_rate": 0.1}])
def test_a_replay_arrives_at_the_stored_bytes_with_the_same_shares_by_both_engines(protocol):
    dataset = make_regression(9, 20) if "weight_decay" in protocol else make_dataset()
    shares = []
    for engine in ("torch", "fused"):
        replay, keys, values = trained_and_replayed(dataset, engine, **protocol)
        done = []
        history = replay_keys(replay, keys, values, on_step=lambda n, total, done=done: done.append((n, total)))
        assert history.is_exact
        np.testing.assert_array_equal(history.keys, keys)
        np.testing.assert_allclose(history.shares.sum(0) + history.initial_share, 1, rtol=0, atol=1e-3)
        np.testing.assert_allclose(history.remainder, 1 - history.shares.sum(0) - history.initial_share, atol=1e-12)
        assert done == sorted(done) and done[-1] == (2 * replay.n_steps, 2 * replay.n_steps)
        shares.append(history.shares)
    np.testing.assert_allclose(shares[0], shares[1], rtol=0, atol=1e-3)


def test_shares_by_epoch_and_class_are_sums_of_those_of_samples_in_blocks_of_any_size(blobs, monkeypatch):
    two = history(blobs, epochs=2)
    class_sums = [two.shares[blobs.train.labels == label].sum(0) for label in range(3)]
    np.testing.assert_allclose(two.class_shares.sum(0), class_sums, rtol=0, atol=1e-12)
    np.testing.assert_allclose(sum(two.own_class_shares()), two.class_shares.sum(1), rtol=0, atol=1e-12)
    monkeypatch.setattr(replay_module, "_BLOCK_NUMBERS", 1)
    np.testing.assert_allclose(history(blobs, epochs=2).class_shares, two.class_shares, rtol=0, atol=1e-12)
    still = history(blobs, learning_rate=1e-30, epochs=1)  # keys that do not move
    assert not still.shares.any() and not still.remainder.any() and not still.distance.any()
    np.testing.assert_array_equal(still.n_for(), -1)


def test_keys_within_rounding_are_accepted_and_others_and_too_little_memory_are_refused_in_one_line(blobs):
    replay, keys, values = trained_and_replayed(blobs, epochs=1)
    start = replay.snapshot()
    assert not replay_keys(replay, np.nextafter(keys, np.float32(9)), values).is_exact
    for other, memory, problem in (
        (keys + np.float32(0.01), 2**31, "the repeated training ends .* from the stored keys, expected at most 0.001"),
        (keys, 1000, "6 steps of 3 prototypes need 0.0 GiB, expected at most 0.0 GiB of memory$"),
    ):
        replay.restore(start)
        with pytest.raises(TrainingError, match=f"^{problem}"):
            replay_keys(replay, other, values, memory=memory)


def test_the_history_of_a_stored_run_is_one_call_and_others_are_refused_in_one_line(tmp_path, monkeypatch):
    def trained(engine="torch", **settings):
        return idwbench.train(run_config("two_moons", prototypes=2, **settings), tmp_path / "results.db", engine=engine)

    run, diverged = trained(epochs=1), trained(method="gaussian", epochs=2, learning_rate=1e37)
    baseline, bounded = trained("auto", kind="baseline", method="samples"), trained(epochs=1, key_bounds="data")
    sloped, additive = trained(epochs=1, slope_rank=1), trained(epochs=1, method="additive")
    smoothed, penalised = trained(epochs=1, label_smoothing=0.1), trained(epochs=1, key_penalty=0.1)
    results = idwbench.Results(tmp_path / "results.db")
    history = idwbench.key_history(results, run.run_key[:10])
    assert history.shares.shape == (200, 2) and history.is_exact
    lines = [*history.lines()]
    assert len(lines) == 2 and lines[0].startswith("key 0: moved ")
    [planned] = results.plan([run_config("two_moons", prototypes=2)])
    for key, problem in {
        baseline.run_key: "is of kind 'baseline': expected a run of kind",
        diverged.run_key: "is diverged in epoch 1: it has no keys$",
        bounded.run_key: "has key_bounds 'data': its keys are no sum of steps \\(train it with key_bounds: none\\)$",
        sloped.run_key: "learned slopes of its values too, which move with the keys .train it with slope_rank: 0.$",
        smoothed.run_key: "has label_smoothing 0.1, whose steps no history attributes",
        penalised.run_key: "has key_penalty 0.1, whose steps no history attributes .train it with key_penalty: 0.$",
        additive.run_key: "learned query_weight, key_weight, vector too",
        planned: "is planned: it has no keys$",
    }.items():
        with pytest.raises(TrainingError, match=f"^run {key[:12]} {problem}"):
            key_history(results, key)
    with pytest.raises(ResultsError, match="no run"):
        key_history(results, "feedfeed")
    monkeypatch.setattr(replay_module, "load_dataset", lambda config, data_dir: make_dataset())
    with pytest.raises(TrainingError, match=r"was trained on other data: the data set has changed$"):
        key_history(results, run.run_key)


# Studies of the memory of recorded perceptrons: masks beside training again, and layers with limited memory


DATA = made_parts()
SIZES = {name: SETTINGS[name] for name in ("width", "depth")}
OF_STUDY = {name: value for name, value in {**SETTINGS, **PROTOCOL}.items() if name not in SIZES}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A database with a recorded run, its key, and its recording."""
    db = tmp_path_factory.mktemp("studies") / "results.db"
    config, results = store_recorded(db), Results(db)
    return results, config, open_recording(results, results.find_run(config.run_key))


def study(**settings):
    return run_config({"name": "sequence", "of": OF}, kind="memory_study", **SIZES, **OF_STUDY, **settings)


def measured(stored, **settings):
    config = study(**settings)
    assert config.required == stored[1]
    return train_run(config, DATA, results=stored[0]).metrics


def again(stored, rows, seed=0):
    """Return the layers of the network trained on some rows."""
    config = stored[1].model_copy(update={"seed": seed})
    plain = config.model_copy(update={"model": config.model.model_copy(update={"record": False})})
    train = Split(DATA.train.inputs[rows], DATA.train.labels[rows], DATA.train.tasks[rows])
    arrays = train_run(plain, replace(DATA, train=train)).arrays
    return [np.column_stack([arrays[f"layer_{n}.weight"], arrays[f"layer_{n}.bias"]]).astype(float) for n in range(2)]


@pytest.mark.parametrize("mask", ["label=1", "task=mnist", "rows=0.3"])
def test_a_mask_is_measured_beside_networks_that_are_trained_again_without_its_rows(mask, stored):
    train, test = DATA.train, DATA.test
    drawn = np.random.default_rng(0).permutation(len(train))[: round(0.3 * len(train))]
    rows, where = {
        "label=1": (train.labels == 1, test.labels == 1),
        "task=mnist": (train.tasks == 0, test.tasks == 0),
        "rows=0.3": (np.isin(np.arange(len(train)), drawn), np.zeros(len(test), bool)),
    }[mask]
    metrics, recording = measured(stored, mask=mask), stored[2]
    slots = rows[recording.rows]
    networks = {
        "whole": layers_of(recording),
        "masked": layers_of(recording, slots),
        "masked_last": layers_of(recording, slots, last_alone=True),
        "retrained": again(stored, ~rows),
        "other_seed": again(stored, ~rows, seed=1_000_000),
    }
    part = (test.inputs[where], test.labels[where]) if where.any() else (train.inputs[rows], train.labels[rows])
    exact = {way: outputs(layers, test.inputs) for way, layers in networks.items()}
    for way, own in exact.items():
        right = own.argmax(1) == test.labels
        masked = outputs(networks[way], part[0]).argmax(1) == part[1]
        assert metrics[way, "masked_accuracy"] == pytest.approx(masked.mean())
        assert metrics[way, "rest_accuracy"] == pytest.approx(right[~where].mean())
        if way != "retrained":
            variation = np.abs(softmax(own, 1) - softmax(exact["retrained"], 1)).sum(1) / 2
            differ = own.argmax(1) != exact["retrained"].argmax(1)
            assert metrics[way, "different_answers"] == pytest.approx(differ.mean())
            assert metrics[way, "total_variation"] == pytest.approx(variation.mean(), abs=1e-5)
    assert ("retrained", "total_variation") not in metrics
    assert metrics["other_seed", "total_variation"] > 0
    assert {way for way, _ in metrics} == {*networks, "ascended", "fine_tuned"}
    moved = {metrics[way, "total_variation"] for way in ("whole", "ascended", "fine_tuned")}
    assert len(moved) == 3


def test_a_limited_network_is_measured_on_its_own_answers_and_the_attention_of_the_slots_it_keeps(stored):
    recording = stored[2]
    last = np.arange(recording.facts.slots) >= recording.facts.slots - 9
    own = outputs(layers_of(recording, ~last), DATA.test.inputs)
    metrics = measured(stored, keep="recent", slots=9)
    below = np.maximum(outputs(layers_of(recording, ~last)[:1], DATA.test.inputs), 0)
    memory = recording.layers["layer_1"]
    attention = np.column_stack([below, np.ones(len(below))]) @ np.column_stack(
        [memory.keys(slice(None)), np.ones(memory.slots)]
    ).T.astype(np.float64)
    labels = DATA.train.labels[recording.rows]
    totals = np.stack([attention[:, last & (labels == label)].sum(1) for label in range(3)], axis=1)
    whole = outputs(layers_of(recording), DATA.test.inputs).argmax(1)
    answers = own.argmax(1)
    assert metrics == {
        ("test", "accuracy"): pytest.approx((answers == DATA.test.labels).mean()),
        ("test", "same_answers"): pytest.approx((answers == whole).mean()),
        ("test", "attention_to_answer"): pytest.approx((totals.argmax(1) == answers).mean()),
    }
    merged = measured(stored, keep="merged", slots=recording.facts.slots)  # as many as there are: with all answers
    assert merged.keys() == {("test", "accuracy"), ("test", "same_answers")} and merged["test", "same_answers"] == 1


@pytest.mark.parametrize(
    ("mask", "problem"),
    [("label=7", "mask: no class is called '7'"), ("rows=0.001", "mask: no training rows have rows=0.001")],
)
def test_a_mask_of_nothing_is_refused(mask, problem, stored):
    with pytest.raises(ConfigError, match=problem):
        measured(stored, mask=mask)
