"""Explanations by recordings: attention to training samples and to passages, against sums over all slots."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from case_tables import case_table
from recorded_mlp import OF, PROTOCOL, layers_of, load_made, made_parts, outputs, store_recorded
from scipy.special import softmax
from texts import TEXT, lstm_run, text_dataset, text_file

from idwbench import Results, explain_prompt, run_config, train
from idwbench.data.dataset import Split
from idwbench.data.text import CHARACTERS
from idwbench.dual.recording import open_recording
from idwbench.errors import ConfigError, ExplanationError, IdwbenchError, RecordingError
from idwbench.explanations.explain import explain, explain_memory
from idwbench.explanations.memory import Request
from idwbench.explanations.source_text import TrainingText
from idwbench.explanations.training_data import history_memory
from idwbench.models.text_model import load_language_model
from idwbench.results.records import StoredRun

DATA = made_parts()
X = "sequence:test:4"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A database with a recorded run on two parts, that run, and its recording."""
    db = tmp_path_factory.mktemp("recorded") / "results.db"
    config, results = store_recorded(db), Results(db, read_only=True)
    return results, config, open_recording(results, results.find_run(config.run_key))


@pytest.fixture(autouse=True)
def _made_data(monkeypatch):
    monkeypatch.setattr("idwbench.explanations.explain.load_dataset", load_made)


@pytest.fixture
def explains(recorded):
    """Explains an input by the recorded run."""
    results, config, _ = recorded
    return lambda x=X, **options: explain(config.run_key[:10], x, results, **options)


@pytest.fixture
def recording(recorded):
    return recorded[2]


@pytest.mark.parametrize("place", [0, 1])
def test_attention_totals_curves_and_contributions_are_those_of_single_slots(place, recording, explains):
    explained = explains(top=len(DATA.train))
    layer, memory = explained.layers[place], recording.layers[f"layer_{place}"]
    inputs, first = DATA.test.inputs[4].astype(np.float64), recording.layers["layer_0"]
    query = np.maximum(first.weight @ inputs + first.bias, 0) if place else inputs
    attention = memory.keys(slice(None)).astype(np.float64) @ query + 1
    for label in range(3):
        of_class = attention[DATA.train.labels[recording.rows] == label]
        np.testing.assert_allclose(layer.totals[label], of_class.sum(), rtol=1e-5)
        np.testing.assert_allclose(layer.curves[label], np.sort(of_class)[::-1], rtol=1e-5)
        for number, part in enumerate(layer.tasks):
            slots = (DATA.train.labels == label) & (DATA.train.tasks == number)
            own = attention[slots[recording.rows]]
            np.testing.assert_allclose(part.totals[label], own.sum(), rtol=1e-5)
            np.testing.assert_allclose(part.curves[label], np.sort(own)[::-1], rtol=1e-5)
    facts = explained.facts()["layers"][place]["tasks"]
    assert [part.task for part in layer.tasks] == OF == [part["task"] for part in facts]
    assert [one["total"] for one in facts[1]["classes"]] == layer.tasks[1].totals.tolist()
    weights = np.bincount(recording.rows, attention)
    assert [item.row for item in layer.items] == np.argsort(-weights, kind="stable").tolist()
    for item in layer.items:
        visits = np.flatnonzero(recording.rows == item.row)
        np.testing.assert_allclose(item.weight, weights[item.row], rtol=1e-5)
        [visit] = visits[recording.slot_steps[visits] == item.step - 1]  # of equal ones, in the first layer, any
        np.testing.assert_allclose(attention[visit], attention[visits].max(), rtol=1e-5)
        assert (item.source, item.visits) == (f"sequence:train:{item.row}", PROTOCOL["epochs"])
        assert (item.label, item.task) == (DATA.train.labels[item.row], OF[DATA.train.tasks[item.row]])
        np.testing.assert_allclose(item.picture, 255 * DATA.train.inputs[item.row], rtol=1e-6)
    if place == 0:
        assert {item.contribution for item in layer.items} == {None}
    else:  # with the first weights they make the answer
        start = memory.initial_factor * (memory.initial @ np.append(query, 1))
        answer, added = explained.answer, sum(item.contribution for item in layer.items)
        np.testing.assert_allclose(start[answer.label] + added, answer.outputs[answer.label], atol=1e-5)


def test_the_answer_is_that_of_all_slots_and_a_mask_leaves_its_slots_out_of_every_layer(explains, recording):
    explained = explains(top=1, mask=["task=fashion_mnist"])
    answer, effect = explained.answer, explained.effect
    where = DATA.train.tasks[recording.rows] == 1
    full, layers = layers_of(recording), layers_of(recording, where)
    np.testing.assert_allclose(effect.answer.outputs, outputs(layers, DATA.test.inputs[4]), atol=1e-5)
    assert (effect.removed, effect.size) == (where.sum(), len(where))
    expected = outputs(full, DATA.test.inputs[4].astype(np.float64))
    np.testing.assert_allclose(answer.outputs, expected, atol=1e-5)
    np.testing.assert_allclose(answer.probabilities, softmax(expected), atol=1e-5)
    assert (answer.label, explained.query.label) == (expected.argmax(), DATA.test.labels[4])
    assert {layer.name: layer.size for layer in explained.layers} == {"layer_0": 42, "layer_1": 42}
    assert [change.name for change in effect.accuracy] == ["test mnist", "test fashion_mnist"]
    hits = [outputs(each, DATA.test.inputs).argmax(1) == DATA.test.labels for each in (full, layers)]
    for task, change in enumerate(effect.accuracy):
        rows = DATA.test.tasks == task
        assert [change.before, change.after, change.n] == [hits[0][rows].mean(), hits[1][rows].mean(), rows.sum()]


def test_a_part_of_the_data_is_an_input_and_one_layer_is_explained_alone_with_its_progress(recorded, explains):
    by_name = explains("fashion_mnist:test:1", top=1)
    part = load_made(recorded[1].dataset.parts[1])
    np.testing.assert_array_equal(by_name.query.inputs, part.test.inputs[1])
    assert by_name.query.label == part.test.labels[1]
    by_numbers = explains(255 * part.test.inputs[1], top=1)
    np.testing.assert_allclose(by_numbers.answer.outputs, by_name.answer.outputs, atol=1e-5)
    assert by_numbers.query.label is None
    seen = []
    alone = explains(layer="layer_1", on_slots=lambda *counts: seen.append(counts))
    assert [layer.name for layer in alone.layers] == ["layer_1"]
    assert alone.layers[0].items[0].contribution is not None
    explains(on_slots=lambda *counts: seen.append(counts))
    assert (42, 42) in seen and seen[-2:] == [(42, 84), (84, 84)]


def test_unvisited_samples_are_left_out_other_data_refused_and_a_residual_is_said(recorded):
    _, config, recording = recorded

    def explained_by(recording=recording, **changes):
        memory = history_memory(config, recording, replace(DATA, **changes))
        return explain_memory(memory, Request(255 * DATA.test.inputs[0], top=100))

    train = DATA.train
    twice = Split(*(np.concatenate([part] * 2) for part in (train.inputs, train.targets, train.tasks)))
    assert len(explained_by(train=twice).layers[0].items) == len(train)
    with pytest.raises(RecordingError, match="the data sequence is not what was recorded"):
        explained_by(sha256="1" * 64)
    layers = {name: replace(facts, residual_share=0.25) for name, facts in recording.facts.layers.items()}
    facts = replace(recording.facts, optimizer="adam", layers=layers)
    expected = "the dual form of adam leaves out a part of the update: 25 % in layer_0, 25 % in layer_1"
    assert explained_by(replace(recording, facts=facts)).warnings == (expected,)


LAYERS = ("lstm.input", "lstm.recurrent", "head")


class Trained:
    """A recorded run on a text file, and its data."""

    def __init__(self, folder, tokens, **settings):
        self.path = text_file(folder)
        config = lstm_run(self.path, tokens=tokens, record=True, gradient_clip=0.2, **settings)
        self.run: StoredRun = train(config, folder / "results.db")
        self.results = Results(folder / "results.db")
        self.recording = open_recording(self.results, self.run)

    def explain(self, prompt, *arguments, **options):
        return explain_prompt(self.results, self.run.run_key, prompt, *arguments, **options)

    def keys(self, name):
        return np.load(self.recording.folder / f"{name}.keys.npy").astype(np.float64)


@pytest.fixture(scope="module")
def characters(tmp_path_factory):
    return Trained(tmp_path_factory.mktemp("characters"), "characters")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return Trained(tmp_path_factory.mktemp("words"), "words", context=4)


def test_the_layers_of_an_lstm_answer_as_attention_over_its_training(characters):
    network = load_language_model(characters.results, characters.run.run_key).network
    weight_ih, weight_hh, bias_ih, bias_hh = network.lstm.all_weights[0]
    primal = [(weight_ih, bias_ih), (weight_hh, bias_hh), (network.head.weight, network.head.bias)]
    for name, (weight, bias) in zip(LAYERS, primal, strict=True):
        queries = np.random.default_rng(0).normal(size=(5, weight.shape[1])).astype(np.float32)
        expected = torch.nn.functional.linear(torch.from_numpy(queries), weight, bias).detach().numpy()
        np.testing.assert_allclose(characters.recording.layers[name].answers(queries), expected, rtol=0, atol=1e-4)
    clips = np.load(characters.recording.folder / "steps.npy")[:, 1]
    assert (clips < 1).any() and (clips == 1).any()  # gradients that were clipped, and others
    # Two epochs of whole windows: 372 rows make 12 batches of 4 windows of 8.
    assert len(characters.recording.rows) == 2 * 12 * 32


def of_layer(explained, name):
    return next(layer for layer in explained.layers if layer.name == name)


@torch.no_grad()
def queries_by_hand(trained, prompt):
    """The inputs of the three layers at the last of several tokens."""
    model = load_language_model(trained.results, trained.run.run_key)
    embedded = model.network.tokens(torch.from_numpy(model.encode(prompt)))
    states, _ = model.network.lstm(embedded)
    return {name: x.numpy() for name, x in zip(LAYERS, (embedded[-1:], states[-2:-1], states[-1:]), strict=True)}


@pytest.mark.parametrize(("prompt", "steps"), [("the c", None), ("a rat ra", (2, 3))])
def test_attention_and_passages_and_their_rank_are_those_of_sums_over_all_slots_of_some_steps(
    prompt, steps, characters
):
    rows, slot_steps, text = characters.recording.rows, characters.recording.slot_steps, TEXT * 10
    first, last = steps or (1, characters.recording.steps)
    chosen = (slot_steps >= first - 1) & (slot_steps < last)
    explained = characters.explain(prompt, top=1000, hits=60, passage="rat ran", steps=steps)
    for name, query in queries_by_hand(characters, prompt).items():
        attention = characters.keys(name) @ query[0].astype(np.float64) + 1
        layer, in_order = of_layer(explained, name), np.sort(attention[chosen])
        assert (layer.slots, layer.hits) == (chosen.sum(), 60)
        assert layer.total == pytest.approx(attention[chosen].sum(), rel=1e-5)
        passages = layer.passages  # repeated hits and neighbours are one passage, and the largest comes first
        assert sum(p.attention for p in passages) == pytest.approx(in_order[-60:].sum(), rel=1e-5)
        assert max(p.largest for p in passages) == pytest.approx(in_order[-1], rel=1e-5)
        assert sum(p.hits for p in passages) == 60 and any(p.hits > 1 for p in passages)
        assert [p.attention for p in passages] == sorted((p.attention for p in passages), reverse=True)
        assert all(p.rows == tuple(range(p.rows[0], p.rows[-1] + 1)) for p in passages)
        assert not {p.rows[-1] + 1 for p in passages} & {row for p in passages for row in p.rows}
        for passage in passages:
            visits = np.isin(rows, passage.rows) & chosen
            nearest = np.sort(attention[visits])[::-1][: passage.hits]
            assert passage.attention == pytest.approx(nearest.sum(), rel=1e-4)
            assert passage.step == slot_steps[visits][attention[visits].argmax()] + 1
        visits = np.sort(attention[np.isin(rows, layer.lowest.rows) & chosen])
        assert layer.lowest.largest == pytest.approx(visits[0], rel=1e-4, abs=1e-5)
        assert layer.lowest.attention == pytest.approx(visits[: layer.lowest.hits].sum(), rel=1e-4, abs=1e-4)
        if in_order[59] < 0:
            assert layer.lowest.attention <= in_order[0] + 1e-5
        by_row = np.bincount(rows[chosen], attention[chosen], len(text))
        stretches = np.lib.stride_tricks.sliding_window_view(by_row, len("rat ran")).sum(1)
        begins = [row for row in range(len(stretches)) if text[row:].startswith("rat ran")]
        assert layer.given.attention == pytest.approx(stretches[begins].max(), rel=1e-5)
        assert layer.given.row == begins[stretches[begins].argmax()]
        greater = int((stretches > stretches[begins].max() * (1 + 1e-6)).sum())
        assert abs(layer.given.rank - 1 - greater) <= 12  # ties of repeated texts, rounded apart
    assert [len(layer.passages) for layer in characters.explain(prompt, 2, hits=60).layers] == [2, 2, 2]


def test_the_head_says_what_its_passages_add_to_the_most_probable_of_the_next_tokens(characters):
    explained = characters.explain("the c", top=1000, hits=10_000)
    model = load_language_model(characters.results, characters.run.run_key)
    probabilities = torch.from_numpy(model.logits("the c")[-1]).double().softmax(0)
    likely = probabilities.argsort(descending=True).tolist()
    assert [token for token, _ in explained.next_tokens] == [model.vocabulary[code] for code in likely]
    assert [p for _, p in explained.next_tokens] == pytest.approx(probabilities[likely].tolist(), rel=1e-6)
    output = next(code for code in likely if code)  # which is not the unknown character
    memory, query = characters.recording.layers["head"], queries_by_hand(characters, "the c")["head"]
    whole = memory.contributions(query, output)[0].sum(dtype=np.float64)
    layer = of_layer(explained, "head")
    assert layer.hits == len(characters.recording.rows)  # all of them: fewer than asked for
    assert sum(p.contribution or 0 for p in layer.passages) == pytest.approx(whole, rel=1e-4)
    assert all(p.contribution is None for p in of_layer(explained, "lstm.input").passages)


def test_the_attended_token_is_marked_in_its_text(characters, words):
    text = TEXT * 10
    explained = characters.explain("the c", hits=5)
    for passage in of_layer(explained, "lstm.input").passages:
        marked = [t for t, is_marked in zip(passage.tokens, passage.marked, strict=True) if is_marked]
        assert marked == [text[row] for row in passage.rows] == ["c"] * len(marked)
        before, _, rest = explained.text(passage, ("<<", ">>")).partition("<<")
        inside, _, after = rest.partition(">>")
        assert text[passage.rows[0] - len(before) : passage.rows[-1] + 1 + len(after)] == before + inside + after
    explained = words.explain("the cat sat", hits=3)
    assert explained.prompt == ("the", "cat", "sat")
    passage = of_layer(explained, "lstm.input").passages[0]
    assert "cat [sat] on the mat . a rat ran" in explained.text(passage)
    lines = replace(passage, tokens=("a", "\n", "b"), marked=(False, True, False))
    assert explained.text(lines) == "a [⏎] b"


def test_a_prompt_can_be_a_place_in_the_text_with_titles_and_warnings_say_what_was_not_read(characters, words):
    data = text_dataset(characters.path, tokens="characters")
    explained, codes = characters.explain("text:test:40"), data.test.inputs[:41, 0].astype(int)
    context = characters.run.config.model.context
    assert explained.prompt == tuple(data.class_names[code] for code in codes[-context:])
    assert explained.following == data.class_names[data.test.labels[40]] == explained.facts()["following"]
    assert words.explain("text:train:0").prompt == ("the",) and characters.explain("the").following is None
    assert characters.explain("the:test:40").following is None  # another text than that of the run
    tokens = tuple("A\n\nTHE FOX\nAND\n\nhe went\nON\n\n = A Town = \n\nit is")
    text = TrainingText(tokens, CHARACTERS)
    places = {"THE": "THE FOX AND", "went": "THE FOX AND", "ON": "THE FOX AND", "it is": "A Town"}
    assert {part: text.title(text.find(part)[0]) for part in places} == places
    assert text.title(0) == "A" and TrainingText(tuple("no title"), text.tokenizer).title(3) is None
    explained = words.explain("the cat sat on the xylophone")
    assert explained.prompt == ("sat", "on", "the", "<unk>")
    assert explained.warnings == ("only the last 4 of 6 words are read", "not in the vocabulary: xylophone")
    alone = words.explain("the")
    assert alone.warnings == ("the state before the only token is zero: lstm.recurrent attends to all slots alike",)
    assert of_layer(alone, "lstm.recurrent").total == pytest.approx(len(words.recording.rows))


@pytest.mark.parametrize(("arguments", "message"), case_table("wrong_inputs")["prompts"])
def test_impossible_requests_get_one_line(arguments, message, characters):
    with pytest.raises(IdwbenchError) as error:
        characters.explain(**{"prompt": "the", **arguments})
    assert str(error.value) == message and not isinstance(error.value, ConfigError)


def test_unknown_words_are_shown_and_runs_without_a_recording_or_on_another_text_refused(tmp_path, monkeypatch):
    trained = Trained(tmp_path, "words", vocabulary_size=3)
    explained = trained.explain("the cat sat")
    assert explained.prompt == ("the", "cat", "<unk>") and explained.warnings == ("not in the vocabulary: sat",)
    shown = {token for layer in explained.layers for passage in layer.passages for token in passage.tokens}
    assert {"sat", "mat", "rat"} <= shown and "<unk>" not in shown
    other, plain = run_config("two_moons", prototypes=2), lstm_run(trained.path)
    trained.results.plan([other])
    with pytest.raises(ExplanationError, match=r"^prompt: only a run of kind lstm_lm reads one, not prototypes$"):
        explain_prompt(trained.results, other.run_key, "the")
    train(plain, tmp_path / "results.db")
    with pytest.raises(RecordingError, match="was not recorded"):
        explain_prompt(trained.results, plain.run_key, "the")
    other = replace(text_dataset(trained.path, tokens="words"), sha256="1" * 64)
    trained.path.write_text(TEXT * 11)
    with pytest.raises(IdwbenchError, match="has changed"):
        trained.explain("the")
    monkeypatch.setattr("idwbench.explanations.passages.load_dataset", lambda config, data_dir: other)
    with pytest.raises(RecordingError, match="is not what was recorded: the checksums differ"):
        trained.explain("the")
