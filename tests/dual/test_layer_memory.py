"""A layer is attention over its training: sums over all slots in float64, and the answers of the trained layer."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from case_tables import case_table
from engine_runs import torch_optimizer, torch_step
from recorded import RecordedTraining

from idwbench.dual import limited
from idwbench.dual import memory as memory_module
from idwbench.dual.attribution import layer_queries, own_contributions, row_attention, row_contributions
from idwbench.dual.limited import limited_outputs, merged_slots
from idwbench.dual.memory import LayerMemory
from idwbench.runs.protocol import Protocol, learning_rate

SLOTS, FEATURES, OUTPUTS, STEPS = 60, 5, 3, 12
QUERIES = np.random.default_rng(1).normal(size=(8, FEATURES)).astype(np.float32)


def small_memory(*, bias=True, folded=False, dtype="float32", integers=False):
    """Return a memory; with integers, many attentions are equal."""
    generator = np.random.default_rng(4)
    keys = generator.integers(0, 3, (SLOTS, FEATURES)) if integers else generator.normal(size=(SLOTS, FEATURES))
    return LayerMemory(
        stored_keys=(keys[:20] if folded else keys).astype(dtype),
        gradients=generator.normal(size=(SLOTS, OUTPUTS)).astype(dtype),
        slot_steps=np.repeat(np.arange(STEPS), SLOTS // STEPS),
        coefficients=generator.normal(size=STEPS),
        units=np.ones(STEPS),
        initial=generator.normal(size=(OUTPUTS, FEATURES + bias)),
        initial_factor=0.7,
        final=generator.normal(size=(OUTPUTS, FEATURES + bias)),
        key_rows=generator.integers(0, 20, SLOTS) if folded else None,
    )


@pytest.fixture(params=[2**22, 35, 1])
def chunks(request, monkeypatch):
    """Read the memory in one chunk, in several, and slot by slot."""
    monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", request.param)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"folded": True}, {"dtype": "float16"}, {"dtype": "float64"}])
def test_answers_totals_and_a_layer_without_a_part_of_its_memory_are_sums_over_all_slots(options):
    memory, inputs = small_memory(**options), QUERIES.astype(np.float64)
    keys = memory.stored_keys.astype(np.float64)
    keys = keys if memory.key_rows is None else keys[memory.key_rows]
    if memory.has_bias:
        inputs, keys = (np.column_stack([part, np.ones(len(part))]) for part in (inputs, keys))
    errors = memory.gradients.astype(np.float64) * memory.coefficients[memory.slot_steps][:, None]
    attention = inputs @ keys.T
    assert np.allclose(memory.answers(QUERIES), inputs @ (0.7 * memory.initial).T + attention @ errors, atol=1e-4)
    assert np.allclose(memory.attention(QUERIES), attention, atol=1e-5)
    assert np.allclose(memory.attention(QUERIES, slice(3, 9)), attention[:, 3:9], atol=1e-5)
    assert np.allclose(memory.contributions(QUERIES, 1), attention * errors[:, 1], atol=1e-4)
    some = np.array([7, 2, 59])
    assert np.allclose(memory.contributions(QUERIES, 2, some), (attention * errors[:, 2])[:, some], atol=1e-4)

    groups = np.random.default_rng(2).integers(-1, 4, SLOTS)  # of which the last has no slots
    expected = np.stack([attention[:, groups == group].sum(1) for group in range(5)], 1)
    assert np.allclose(memory.totals(QUERIES, groups, 5), expected, atol=1e-4)

    where = np.random.default_rng(3).random(SLOTS) < 0.5
    part, (weight, bias) = errors[where].T @ keys[where], memory.without(where)
    assert np.allclose(weight, memory.weight - part[:, :FEATURES], atol=1e-4)
    assert (bias is None) == (memory.bias is None) == (memory.final.shape[1] == FEATURES)
    assert bias is None or np.allclose(bias, memory.bias - part[:, -1], atol=1e-4)
    assert np.array_equal(memory.without(np.zeros(SLOTS, bool))[0], memory.weight)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize(("k", "masked"), [(1, False), (4, True), (59, False), (60, True), (100, False)])
def test_top_slots_are_those_of_a_sort_also_among_equal_attentions(k, masked):
    memory = small_memory(integers=True)
    queries = np.random.default_rng(0).integers(0, 2, (9, FEATURES)).astype(np.float32)
    where = np.random.default_rng(1).random(SLOTS) < 0.4 if masked else None
    seen: list[tuple[int, int]] = []
    slots, attention = memory.top(queries, k, where=where, on_slots=lambda *counts: seen.append(counts))
    every = memory.attention(queries)
    if where is not None:
        every[:, ~where] = -np.inf
    expected = np.argsort(-every, axis=1, kind="stable")[:, : min(k, SLOTS if where is None else where.sum())]
    assert np.array_equal(slots, expected)
    assert np.array_equal(attention, np.take_along_axis(every, expected, 1))
    assert seen[-1] == (SLOTS, SLOTS)


def test_the_top_of_nothing_is_empty_and_attention_that_is_no_number_comes_last():
    memory = small_memory()
    for queries, k, where, shape in ((2, 3, np.zeros(SLOTS, bool), (2, 0)), (0, 3, None, (0, 3))):
        slots, attention = memory.top(np.ones((queries, FEATURES)), k, where=where)
        assert slots.shape == attention.shape == shape
    memory.stored_keys[:] = np.arange(float(SLOTS))[:, None]
    memory.stored_keys[[0, 59]] = np.nan
    slots, _ = memory.top(np.ones((1, FEATURES), np.float32), SLOTS)
    assert slots.tolist() == [[*range(58, 0, -1), 0, 59]]


def test_chunks_do_not_grow_with_the_memory_or_the_number_of_queries(monkeypatch):
    """Nothing larger than a chunk of keys and a block of attention is computed at once."""
    assert memory_module._CHUNK_NUMBERS <= memory_module._BLOCK_NUMBERS <= 2**24  # numbers: 64 MB in float32
    monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", 2**10)
    monkeypatch.setattr(memory_module, "_BLOCK_NUMBERS", 2**12)
    sizes: list[int] = []

    def counted(numbers):
        sizes.append(numbers.size)
        return numbers

    attention, errors = LayerMemory.attention, LayerMemory.errors
    monkeypatch.setattr(LayerMemory, "attention", lambda *arguments: counted(attention(*arguments)))
    monkeypatch.setattr(LayerMemory, "errors", lambda *arguments: counted(errors(*arguments)))
    keys, steps = np.random.default_rng(0).normal(size=(6000, 8)).astype(np.float32), np.arange(6000)
    none, initial = np.zeros(6000), np.zeros((1, 8))
    memory = LayerMemory(keys, keys[:, :1], steps, none, none, initial, 1.0, initial)
    for call in (lambda: memory.top(keys[:100], 5), lambda: memory.answers(keys[:30])):
        sizes.clear()
        call()
        assert max(sizes) <= 2**12 and len(sizes) > 10


# Scores of training rows

SETTINGS = {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.02, "gradient_clip": 0.3, "schedule": "constant"}
PROTOCOL = Protocol(epochs=3, batch_size=8, learning_rate=0.5, **SETTINGS)


@pytest.fixture(scope="module", params=[{}, {"fold": True}, {"dtype": torch.float32, "record_dtype": "float16"}])
def trained(request, tmp_path_factory):
    """A training, its recording, and how exact scores are in its type."""
    training = RecordedTraining(PROTOCOL, tmp_path_factory.mktemp("recorded") / "run", **request.param)
    return training, training.run(), 1e-5 if "dtype" in request.param else 1e-12


@pytest.fixture
def asked(trained):
    """Queries to each layer, and the outputs that they explain."""
    training = trained[0]
    inputs = np.random.default_rng(0).uniform(size=(14, 4)).astype(training.inputs.dtype)
    outputs = np.arange(14) % 3
    return inputs, outputs, layer_queries(training.module, training.layers, inputs, outputs)


@pytest.mark.parametrize("chunk", [2**22, 40])
@pytest.mark.parametrize("layer", ["layer_0", "layer_1"])
def test_scores_of_rows_are_sums_over_their_slots(trained, asked, layer, chunk, monkeypatch):
    training, recording, error = trained
    monkeypatch.setattr(memory_module, "_CHUNK_NUMBERS", chunk)
    monkeypatch.setattr(memory_module, "_BLOCK_NUMBERS", 2 * chunk)
    memory, rows, queries = recording.layers[layer], recording.rows, asked[2][layer]
    n_rows, every = training.n_train + 2, slice(0, len(rows))  # two rows that were not trained on have no score
    visits = (rows[:, None] == np.arange(n_rows)).astype(np.float64)
    alpha = queries.inputs @ memory.keys(every).astype(np.float64).T + memory.has_bias
    contributions = alpha * (queries.directions @ memory.errors(every).T)
    for scores, expected in (
        (row_attention(memory, rows, n_rows, queries.inputs), alpha @ visits),
        (row_contributions(memory, rows, n_rows, queries), contributions @ visits),
    ):
        assert scores.dtype == training.inputs.dtype
        np.testing.assert_allclose(scores, expected, rtol=error, atol=error)


def test_contributions_to_each_layer_and_the_initial_weights_make_the_answer(trained, asked):
    training, recording, error = trained
    inputs, outputs, queries = asked
    answers = training.module(torch.from_numpy(inputs)).detach().numpy()[np.arange(len(inputs)), outputs]
    added = {  # by the biases
        name: queries[name].directions @ layer.bias.detach().numpy() if layer.bias is not None else 0.0
        for name, layer in training.layers.items()
    }
    for name, memory in recording.layers.items():
        n = memory.features
        initial = queries[name].inputs @ memory.initial[:, :n].T + memory.initial[:, n:].sum(1)
        answer = row_contributions(memory, recording.rows, training.n_train, queries[name]).sum(1)
        answer += memory.initial_factor * (initial * queries[name].directions).sum(1)
        answer += sum(by_bias for later, by_bias in added.items() if later > name)
        # In half precision a key and a gradient have three digits.
        np.testing.assert_allclose(answer, answers, atol=1e-10 if error < 1e-10 else 2e-2)
    own = layer_queries(training.module, training.layers, training.inputs, training.labels.numpy())
    for layer, queries_of_rows in own.items():  # contributions of each row to itself
        memory = recording.layers[layer]
        everything = row_contributions(memory, recording.rows, training.n_train, queries_of_rows)
        of_themselves = own_contributions(memory, recording.rows, queries_of_rows)
        np.testing.assert_allclose(of_themselves, np.diag(everything), rtol=error, atol=error)


# The answers of the trained layer

PROTOCOLS = case_table("kinds")["protocols"]
ADAM = [settings for settings in PROTOCOLS if settings.get("optimizer") != "sgd"]
MOMENTUM = {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.3}


def training(settings, folder, **options):
    base = {"epochs": 3, "batch_size": 8, "learning_rate": 0.01}
    return RecordedTraining(Protocol(**base | settings), folder / "run", **options)


def batches():
    """Return the rows of each step."""
    order = np.random.default_rng(5)
    return [rows for _ in range(3) for rows in np.split(order.permutation(27), [8, 16, 24])]


def difference(memory, layer):
    """Return the largest difference of the dual form's answers, relative to the scale of the answers."""
    queries = np.random.default_rng(0).normal(size=(7, memory.features))
    expected = layer.double()(torch.from_numpy(queries)).detach().numpy()
    return float(np.abs(memory.answers(queries) - expected).max() / np.abs(expected).max())


def joined(layer, part=lambda parameter: parameter):
    """Return [weight, bias], or something of the same shapes."""
    parts = [part(layer.weight)] if layer.bias is None else [part(layer.weight), part(layer.bias)[:, None]]
    return torch.cat(parts, 1).detach().numpy().copy()


# In float64, in smaller types, and with a layer that is used twice in a step: how exact the answers are.
RECORDED = [
    *((settings, {}, 1e-10) for settings in PROTOCOLS),
    *((settings, {"fold": True}, 1e-10) for settings in (PROTOCOLS[5], PROTOCOLS[6])),
    (MOMENTUM, {"record_dtype": "float32"}, 1e-5),
    (MOMENTUM, {"record_dtype": "float16", "fold": True}, 2e-3),
    (MOMENTUM, {"twice": True}, 1e-10),
]


@pytest.mark.parametrize(("settings", "options", "bound"), RECORDED)
def test_a_layer_answers_as_attention_over_its_training(settings, options, bound, tmp_path):
    trained = training(settings, tmp_path, **options)
    recording = trained.run()
    assert max(difference(memory, trained.layers[name]) for name, memory in recording.layers.items()) < bound
    visits = 2 if "twice" in options else 1
    assert np.array_equal(recording.rows, np.concatenate([np.tile(rows, visits) for rows in batches()]))
    for name, memory in recording.layers.items():
        assert "twice" in options or np.array_equal(memory.final, joined(trained.layers[name]))
        share = recording.facts.layers[name].residual_share
        assert (memory.residual is None) == (share is None) == (settings.get("optimizer") == "sgd")
        assert share is None or 0.001 < share < 1


@pytest.mark.parametrize("settings", ADAM)
def test_the_factors_of_adam_are_the_nearest_to_its_updates_and_the_residual_is_what_they_leave(settings, tmp_path):
    recording = training(settings, tmp_path).run()
    again = training(settings, tmp_path / "again")  # the same by torch.optim.Adam
    layers, p = again.layers, again.protocol
    optimizer = torch_optimizer(p, again.module.parameters())
    factors: dict[str, list[np.ndarray]] = {name: [] for name in layers}
    for step, rows in enumerate(batches()):
        before = {name: joined(layer) for name, layer in layers.items()}
        torch_step(optimizer, p, again.losses(rows).mean(), learning_rate(p, step // 4))
        for name, layer in layers.items():
            moment = joined(layer, lambda parameter: optimizer.state[parameter]["exp_avg"]) / (1 - 0.9 ** (step + 1))
            squares = np.maximum((moment**2).sum(1), 1e-300)
            factors[name].append(((joined(layer) - before[name]) * moment).sum(1) / squares)  # by least squares
    for name, memory in recording.layers.items():
        # The bytes of the steps differ in rounding alone.
        np.testing.assert_allclose(memory.final, joined(layers[name]), rtol=0, atol=1e-10)
        scales = np.load(recording.folder / f"{name}.scales.npy")
        np.testing.assert_allclose(scales, factors[name], rtol=1e-6, atol=1e-9)
        if p.weight_decay == 0:  # then W_0 stays as it is
            moved = np.linalg.norm(memory.final - memory.initial)
            share = recording.facts.layers[name].residual_share
            assert share == pytest.approx(np.linalg.norm(memory.residual) / moved, rel=1e-8)
        assert difference(replace(memory, residual=None), layers[name]) > 1e-3


def test_half_precision_keeps_three_digits_also_of_tiny_gradients(tmp_path):
    options = {"dtype": torch.float32, "loss_scale": 1e-7}
    half, whole = (
        training(MOMENTUM, tmp_path / n, record_dtype=n, **options).run().layers for n in ("float16", "float32")
    )
    for name, exact in whole.items():
        assert half[name].stored_keys.dtype == half[name].gradients.dtype == np.float16
        assert np.abs(half[name].change() - exact.change()).max() < 2e-3 * np.abs(exact.change()).max()
        gradients, expected = (memory.output_gradients(slice(5, 9)) for memory in (half[name], exact))
        assert np.allclose(gradients, expected, rtol=2e-3, atol=0)


# Layers that keep a part of their memory, and histories with the same weights

LABELS = np.arange(SLOTS) % 3
INTEGERS = np.random.default_rng(8).integers(0, 3, (8, FEATURES)).astype(np.float32)


def keys_and_errors(memory):
    """Return the keys, with a column of ones for the bias if there is one, and the error signals of all slots."""
    keys = memory.keys(slice(None)).astype(np.float64)
    ones = np.ones((len(keys), int(memory.has_bias)))
    return np.hstack([keys, ones]), memory.errors(slice(None)).astype(np.float64)


def expected(memory, queries, chosen):
    """Return the answers and the total attention by class with the slots `chosen` for each query."""
    keys, errors = keys_and_errors(memory)
    inputs = np.hstack([queries, np.ones((len(queries), int(memory.has_bias)))]).astype(np.float64)
    answers, totals = inputs @ memory.constant.T, np.zeros((len(queries), 3))
    for place, slots in enumerate(chosen):
        attention = keys[slots] @ inputs[place]
        answers[place] += attention @ errors[slots]
        totals[place] = np.bincount(LABELS[slots], attention, minlength=3)
    return answers, totals


KEPT = [*(("top", n) for n in (1, 7, SLOTS, SLOTS + 1)), ("recent", 13), ("random", 12)]


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"folded": True}, {"integers": True}])
@pytest.mark.parametrize(("keep", "n"), KEPT)
def test_a_layer_answers_by_the_slots_that_it_keeps_of_equal_ones_the_first(options, keep, n, monkeypatch):
    monkeypatch.setattr(limited, "_BLOCK_NUMBERS", 3 * SLOTS)
    memory, queries = small_memory(**options), INTEGERS if "integers" in options else QUERIES
    attention, order = memory.attention(queries), np.random.default_rng(0).permutation(SLOTS)
    chosen = {
        "top": np.argsort(-attention, axis=1, kind="stable")[:, :n],
        "recent": [np.arange(SLOTS)[-n:]] * len(queries),
        "random": [order[:n]] * len(queries),
    }[keep]
    if "integers" in options and n == 7:
        assert any(np.sort(row)[-7] == np.sort(row)[-8] for row in attention)
    answers, totals = expected(memory, queries, chosen)
    outputs, kept = limited_outputs([memory], queries, keep, n, LABELS, 0)
    np.testing.assert_allclose(outputs, answers, atol=1e-4)
    np.testing.assert_allclose(kept, totals, atol=1e-4)
    if keep == "random":  # right in the mean if rescaled, as each slot is in one of the parts of an order
        constant = expected(memory, queries, [[]] * len(queries))[0]
        rescaled, _ = limited_outputs([memory], queries, "rescaled", n, LABELS, 0)
        np.testing.assert_allclose(rescaled - constant, SLOTS / n * (outputs - constant), atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_merged_slots_are_the_nearest_sum_and_as_many_as_outputs_replace_all(bias):
    memory = small_memory(bias=bias)
    keys, errors = keys_and_errors(memory)
    change = errors.T @ keys
    sizes = np.linalg.svd(change, compute_uv=False)
    for n in range(1, OUTPUTS + 2):
        merged_keys, merged_errors = merged_slots(memory, n)
        assert merged_keys.shape == (min(n, OUTPUTS), FEATURES + bias) and merged_errors.shape == (
            min(n, OUTPUTS),
            OUTPUTS,
        )
        left = np.linalg.norm(change - merged_errors.T @ merged_keys)
        np.testing.assert_allclose(left, np.sqrt((sizes[n:] ** 2).sum()), atol=1e-4)
    outputs, totals = limited_outputs([memory], QUERIES, "merged", OUTPUTS, LABELS)
    np.testing.assert_allclose(outputs, memory.answers(QUERIES), atol=1e-4)
    assert totals is None
