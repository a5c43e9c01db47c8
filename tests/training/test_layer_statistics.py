"""Statistics of layers by step against their definitions, and trainings that they leave as they are."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from engine_runs import train_run
from kinds import IDW_HEAD, images, network_run
from scipy.special import softmax
from texts import text_dataset, text_file, text_run
from torch.nn import functional

from idwbench.models.networks import initial_network
from idwbench.models.text_model import language_network
from idwbench.runs.metrics import LAYER_STATISTICS
from idwbench.training.language_model_engine import random_windows
from idwbench.training.layer_statistics import LayerStatistics, layer_names, measured_steps

TOLERANCE = 1e-4  # of float32 networks, whose sums have some hundred terms


def table(arrays, name):
    """Return a statistic (steps, layers), and the names of the layers."""
    return arrays[f"statistics.{name}"], arrays["statistics.layers"].tobytes().decode().split("\n")


@pytest.mark.parametrize(
    ("n_steps", "steps"), [(1, [0]), (2, [0, 1]), (12, [0, 1, 2, 5, 10, 11]), (101, [0, 1, 2, 5, 10, 20, 50, 100])]
)
def test_steps_are_the_first_the_last_and_a_few_between(n_steps, steps):
    assert measured_steps(n_steps) == steps


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Return the configuration, data and result of a language model with statistics."""
    path = text_file(tmp_path_factory.mktemp("texts"))
    config = text_run(path, statistics=True, depth=2, method="scaled_dot")
    return SimpleNamespace(config=config, data=text_dataset(path), run=train_run(config, text_dataset(path)), path=path)


def test_a_training_with_statistics_is_the_one_without(texts):
    plain = train_run(text_run(texts.path, depth=2, method="scaled_dot"), texts.data)
    added = {name for name in texts.run.arrays if name.startswith("statistics.")}
    assert added == {f"statistics.{name}" for name in ("steps", "layers", *LAYER_STATISTICS)}
    assert texts.run.arrays.keys() - plain.arrays.keys() == added
    for name, array in plain.arrays.items():
        assert array.tobytes() == texts.run.arrays[name].tobytes()
    costs = {("train", "seconds_per_step")}
    metrics = {name: value for name, value in texts.run.metrics.items() if name[1] not in LAYER_STATISTICS}
    assert metrics.keys() == plain.metrics.keys()
    assert {name: metrics[name] for name in metrics.keys() - costs} == {
        name: plain.metrics[name] for name in metrics.keys() - costs
    }


def first_step(texts):
    """Return the untrained model in float64, and inputs and labels of its first batch, by the rules of the docs."""
    generator = np.random.default_rng(texts.config.seed)
    draws = torch.Generator().manual_seed(int(generator.integers(2**63)))
    model = language_network(texts.config.model, texts.data.n_outputs, draws).double()
    train, size = texts.data.train, texts.config.protocol.batch_size
    rows = next(iter(random_windows(len(train), model.context, size)(generator, 0)))
    return model, torch.from_numpy(train.inputs[:, 0].astype(np.int64)[rows]), torch.from_numpy(train.labels[rows])


def test_gradients_of_the_first_step_are_those_of_automatic_differentiation(texts):
    model, inputs, labels = first_step(texts)
    functional.cross_entropy(model(inputs).flatten(0, 1), labels.flatten()).backward()
    groups = {"embedding": ("tokens.", "positions."), "head": ("transformer.norm.", "head.")}
    groups |= {f"block {n + 1}": (f"transformer.blocks.{n}.",) for n in range(2)}
    whole, layers = table(texts.run.arrays, "gradient_norm")
    assert layers == ["embedding", "block 1", "block 2", "head"]
    for place, layer in enumerate(layers):
        own = [p.grad.flatten() for name, p in model.named_parameters() if name.startswith(groups[layer])]
        assert whole[0, place] == pytest.approx(float(torch.cat(own).norm()), rel=TOLERANCE)
    scored, _ = table(texts.run.arrays, "score_gradient_norm")
    assert np.isnan(scored[:, [0, 3]]).all()
    for n in range(2):
        gradient = model.transformer.blocks[n].self_attn.in_proj_weight.grad[:16]  # of queries and keys
        assert scored[0, 1 + n] == pytest.approx(float(gradient.norm()), rel=TOLERANCE)


def test_scores_and_weights_of_the_first_step_are_those_of_the_formula(texts):
    model, inputs, _ = first_step(texts)
    with torch.no_grad():
        hidden = model.tokens(inputs) + model.positions(torch.arange(8))
        block = model.transformer.blocks[0]
        q, k, _ = (part.numpy() for part in (block.norm1(hidden) @ block.self_attn.in_proj_weight.T).chunk(3, -1))
    variances, entropies = [], []
    for head in (slice(0, 4), slice(4, 8)):
        for one, other in zip(q[..., head], k[..., head], strict=True):
            scores = one @ other.T / 2
            for last in range(8):
                own = scores[last, : last + 1]
                weights = softmax(own)
                entropies.append(-(weights * np.log(weights)).sum())
                variances += [own.var()] if last else []
    for name, values in (("score_variance", variances), ("weight_entropy", entropies)):
        statistic, layers = table(texts.run.arrays, name)
        assert statistic[0, layers.index("block 1")] == pytest.approx(np.mean(values), rel=TOLERANCE)


def test_a_head_of_prototypes_has_scores_and_layers_of_an_encoder_have_gradients_alone():
    config = network_run(**IDW_HEAD, statistics=True)
    arrays = train_run(config, images()).arrays
    generator = np.random.default_rng(config.seed)
    network = initial_network(config.model, images(), generator)
    rows = generator.permutation(len(images().train))[:8]
    with torch.no_grad():
        features = network.encoder(torch.from_numpy(images().train.inputs[rows])).double().numpy()
    keys = network.head.keys.detach().double().numpy()
    scores = -np.log(1e-3 + ((features[:, None] - keys) ** 2).sum(2))
    entropies = -(softmax(scores, 1) * np.log(softmax(scores, 1))).sum(1)
    for name, expected in (("score_variance", scores.var(1).mean()), ("weight_entropy", entropies.mean())):
        statistic, layers = table(arrays, name)
        assert layers == ["layer 1", "layer 2", "head"] and np.isnan(statistic[:, :2]).all()
        assert statistic[0, 2] == pytest.approx(expected, rel=1e-3)
    assert np.isfinite(table(arrays, "gradient_norm")[0]).all()
    assert np.isfinite(table(arrays, "score_gradient_norm")[0][:, 2]).all()


def test_the_gradients_through_an_additive_score_are_those_of_its_keys_and_weights():
    config = network_run(**{**IDW_HEAD, "head": "additive"}, statistics=True)
    network = initial_network(config.model, images(), np.random.default_rng(config.seed))
    statistics = LayerStatistics(
        network, lambda rows: network(torch.from_numpy(images().train.inputs[rows])).square(), 1
    )
    with torch.no_grad():
        network.head.values += 0.1
    statistics.measure(0, [0, 1, 2])
    network(torch.from_numpy(images().train.inputs[[0, 1, 2]])).square().mean().backward()
    own = [one.grad.flatten() for name, one in network.head.named_parameters() if name != "values"]
    assert len(own) == 4
    assert statistics.metrics()["head", "score_gradient_norm"] == pytest.approx(float(torch.cat(own).norm()), rel=1e-5)


def test_weights_that_are_no_probabilities_have_no_entropy_and_a_step_is_measured_once():
    config = network_run(**{**IDW_HEAD, "head": "fc_relu"})
    network = initial_network(config.model, images(), np.random.default_rng(0))
    assert set(layer_names(network).values()) == {"layer 1", "layer 2", "head"}
    inputs, calls = torch.from_numpy(images().train.inputs), []

    def losses(rows):
        calls.append(rows)
        return network(inputs[rows]).square()

    statistics = LayerStatistics(network, losses, 3)
    batches = statistics.observed(lambda generator, epoch: iter([[0], [1], [2]]), 3)
    for _ in range(2):  # a continued training draws the batches of its epoch again
        assert list(batches(np.random.default_rng(0), 0)) == [[0], [1], [2]]
    assert calls == [[0], [1], [2]]
    names = {name for _, name in statistics.metrics()}
    assert names == {"score_variance", "gradient_norm", "score_gradient_norm"}
