"""The training passages that a recorded LSTM language model attends to when it reads a prompt.

A layer's query is its input at the last token T: the embedding x_T for ``lstm.input``, the state h_{T−1} for
``lstm.recurrent``, the state h_T for ``head``; its keys are the inputs at every step and position of the training,
α_t = x_t·x + 1 with the bias. Slots of the same position of the text, and of neighbouring positions, are one passage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.data.loading import load_dataset
from idwbench.data.text import Tokenizer
from idwbench.dual.memory import LayerMemory
from idwbench.dual.recording import Recording, open_recording
from idwbench.errors import ExplanationError, RecordingError
from idwbench.explanations.explanation import Answer
from idwbench.explanations.memory import OnSlots, chosen_layers, layer_progress
from idwbench.explanations.source_text import TrainingText, placed_text
from idwbench.explanations.training_data import residual_warnings
from idwbench.models.text_model import LstmLanguageModel, TextModel, load_language_model
from idwbench.report.labels import cell_label
from idwbench.results.records import StoredRun
from idwbench.results.store import Results
from idwbench.runs.dataset_base import LARGEST_VOCABULARY, DatasetConfig
from idwbench.runs.datasets import dataset_label
from idwbench.runs.kinds.lstm_lm import LstmConfig

__all__ = ["HITS", "LINE_END", "ExplainedPrompt", "Passage", "PassageLayer", "PassageRank", "explain_prompt"]

HITS = 1000
LINE_END = "⏎"  # in texts of one line
# Characters, or words, that are shown on either side of the attended tokens.
_AROUND = {"characters": 30, "words": 8}

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Passage:
    """Attended tokens of the training text, with those around them.

    Attributes:
        rows: The attended positions: rows of the training data, in order, without gaps.
        tokens: The text.
        marked: Whether each of `tokens` is attended: it was the input of an attended step, as the last token of the
            prompt is that of the query.
        hits: Number of slots: visits of these positions that are among the largest attentions.
        attention: The sum of their attention.
        largest: The largest of it, or the least of a passage with little attention.
        step: The training step, from 1, of the largest.
        title: The last title in the text at or before them, such as that of the fable; None if there is none.
        contribution: What the hits add to the logit of the most probable next token; None in layers without logits.
    """

    rows: tuple[int, ...]
    tokens: tuple[str, ...]
    marked: tuple[bool, ...]
    hits: int
    attention: float
    largest: float
    step: int
    title: str | None = None
    contribution: float | None = None


@dataclass(frozen=True)
class PassageRank:
    """The place of a given passage among all stretches of the training text that are as long as it.

    Attributes:
        row: Its first position; of a passage that the text has several times, the one with the most attention.
        title: The last title in the text at or before it.
        attention: The sum of the attention to all slots of its positions.
        rank: 1 if no other stretch has more.
        stretches: Number of stretches.
    """

    row: int
    title: str | None
    attention: float
    rank: int
    stretches: int


@dataclass(frozen=True)
class PassageLayer:
    """The passages of one layer.

    Attributes:
        name: The layer.
        slots: Number of slots in its memory.
        hits: Number of slots with the largest attention that passages are made of.
        total: The sum of the attention to all slots.
        passages: In order of decreasing attention.
        lowest: The passage with the least attention, as far below 0 as it goes, made of as many slots.
        given: The place of the passage that was asked for, or None.
    """

    name: str
    slots: int
    hits: int
    total: float
    passages: tuple[Passage, ...]
    lowest: Passage
    given: PassageRank | None = None


@dataclass(frozen=True)
class ExplainedPrompt:
    """What a recorded language model attends to at the last token of a prompt.

    Attributes:
        run_key: Key of the run.
        model: Label of the model.
        tokenizer: What the tokens are.
        prompt: The tokens that were read.
        following: The token that follows a prompt of the data, or None.
        next_tokens: The most probable next tokens with their probability.
        layers: The recorded layers.
        warnings: One line for each.
    """

    run_key: str
    model: str
    tokenizer: Tokenizer
    prompt: tuple[str, ...]
    next_tokens: tuple[tuple[str, float], ...]
    layers: tuple[PassageLayer, ...]
    warnings: tuple[str, ...] = ()
    following: str | None = None

    def text(self, passage: Passage, mark: tuple[str, str] = ("[", "]")) -> str:
        """Return a passage as one line: neighbouring attended tokens between marks, line ends as ⏎."""
        begin, end = mark
        parts = []
        for is_marked, run in groupby(zip(passage.tokens, passage.marked, strict=True), key=lambda pair: pair[1]):
            # The spaces between words stand outside the marks.
            text = self.tokenizer.join([token.replace("\n", LINE_END) for token, _ in run])
            parts.append(f"{begin}{text}{end}" if is_marked else text)
        return self.tokenizer.join(parts)

    def table(self, layer: PassageLayer) -> dict[str, list[str]]:
        """Return the columns of a table of the passages of a layer, as texts by header; none is empty."""
        columns = {
            "attention": [cell_label(passage.attention) for passage in layer.passages],
            "hits": [cell_label(passage.hits) for passage in layer.passages],
            "step": [cell_label(passage.step) for passage in layer.passages],
            "contribution": [f"{p.contribution:+.4g}" for p in layer.passages if p.contribution is not None],
            "title": [passage.title or "" for passage in layer.passages],
            "passage": list(map(self.text, layer.passages)),
        }
        return {name: column for name, column in columns.items() if any(column)}

    def facts(self) -> dict[str, Any]:
        """Return the explanation as values for JSON."""
        return {
            "run_key": self.run_key,
            "model": self.model,
            "tokens": self.tokenizer.unit,
            "prompt": list(self.prompt),
            "following": self.following,
            "next": [{"token": token, "probability": probability} for token, probability in self.next_tokens],
            "layers": [
                {
                    "layer": layer.name,
                    "slots": layer.slots,
                    "hits": layer.hits,
                    "total": layer.total,
                    "passages": [{**vars(passage), "text": self.text(passage)} for passage in layer.passages],
                    "lowest": {**vars(layer.lowest), "text": self.text(layer.lowest)},
                    "given": layer.given and vars(layer.given),
                }
                for layer in self.layers
            ],
            "warnings": list(self.warnings),
        }


def explain_prompt(
    results: Results,
    run_key: str,
    prompt: str,
    top: int = 10,
    *,
    layer: str | None = None,
    hits: int | None = None,
    steps: tuple[int, int] | None = None,
    passage: str | None = None,
    data_dir: Path | None = None,
    on_slots: OnSlots = lambda done, total: None,
) -> ExplainedPrompt:
    """Return the training passages with the largest attention at the last token of a prompt, for each recorded layer.

    Args:
        results: The database.
        run_key: Key of a recorded run of kind ``lstm_lm``, or the beginning of it.
        prompt: A text, or a place in the data of the run, such as ``aesop:test:100``: the text up to token 100 of the
            test text, from 0. The last tokens within the context are read, from the state zero.
        top: Largest number of passages of each layer, by the sum of their attention.
        layer: The only layer to return, or None for all.
        hits: Number of slots with the largest attention that passages are made of; by default `HITS`, in a short
            recording a hundredth of its slots, and at least `top`.
        steps: The first and the last step of the training, from 1, whose slots are looked at; by default all.
        passage: A part of the training text, whose place among all stretches of its length is returned.
        data_dir: Folder of the texts.
        on_slots: Called with the number of slots that were looked at, and of all.

    Raises:
        ExplanationError: the run is of another kind, or an argument is not valid.
        ResultsError: no such run, or its recording is missing, cut, or of another model.
        TrainingError: the run is not complete.
        DatasetError: the text cannot be loaded.
    """
    _check_counts({"top": top, "hits": hits})
    run, model, context = _read_model(results, run_key)
    prompt, following = placed_text(run.config.dataset, model.tokenizer, prompt, context, data_dir)
    codes = _codes(model, prompt, context)
    recording = open_recording(results, run)
    names = chosen_layers(recording.layers, layer, "the recording has no layer")
    where = None if steps is None else _slots_of_steps(recording, steps)
    text = TrainingText(_training_tokens(run.config.dataset, recording, data_dir), model.tokenizer)
    given = None if passage is None else (text.find(passage), len(model.tokenizer.split(passage)))
    queries, logits = _queries(model, codes)
    search = _Search(recording, text, _AROUND[model.tokenizer.unit], logits, top, hits, where, given)
    layers = [search.layer(name, queries[name], layer_progress(on_slots, names, name)) for name in names]
    read = tuple(model.vocabulary[code] for code in codes)
    likely, warnings = _next_tokens(model.vocabulary, logits, top), _warnings(model, prompt, codes, recording)
    facts = (run.run_key, run.config.model.label, model.tokenizer, read, likely, tuple(layers), warnings)
    return ExplainedPrompt(*facts, following=following)


def _check_counts(counts: Mapping[str, int | None]) -> None:
    for name, number in counts.items():
        if number is not None and number < 1:
            raise ExplanationError(f"expected at least 1, got {number}", location=(name,))


def _slots_of_steps(recording: Recording, steps: tuple[int, int]) -> NDArray[np.bool_]:
    """Return which slots belong to some steps, the first and the last from 1."""
    first, last = steps
    if not 1 <= first <= last <= recording.steps:
        problem = f"expected steps from 1 to {recording.steps:,}, the first before the last, got {first}:{last}"
        raise ExplanationError(problem, location=("steps",))
    return np.asarray((recording.slot_steps >= first - 1) & (recording.slot_steps < last))


def _read_model(results: Results, run_key: str) -> tuple[StoredRun, TextModel, int]:
    """Return the run of a recorded LSTM, its model, and how many tokens it reads."""
    run = results.find_run(run_key)
    settings = run.config.model
    if not isinstance(settings, LstmConfig):
        raise ExplanationError(f"only a run of kind lstm_lm reads one, not {settings.kind}", location=("prompt",))
    return run, load_language_model(results, run_key), settings.context


def _codes(model: TextModel, prompt: str, context: int) -> Codes:
    """Return the numbers of the tokens that a model reads of a prompt."""
    codes = model.encode(prompt)[-context:]
    if not len(codes):
        problem = f"expected at least one {model.tokenizer.unit.removesuffix('s')}"
        raise ExplanationError(problem, location=("prompt",))
    return codes


def _training_tokens(config: DatasetConfig, recording: Recording, data_dir: Path | None) -> tuple[str, ...]:
    """Return the training text: token r is the input of row r, and the last one the label of the last row.

    Its own words are also where the vocabulary has none.

    Raises:
        RecordingError: it is not what was recorded.
        DatasetError: it cannot be loaded.
    """
    dataset = load_dataset(config, data_dir)
    if dataset.sha256 != recording.facts.data_sha256:
        problem = f"the text {dataset_label(config)} is not what was recorded: the checksums differ"
        raise RecordingError(problem, file=recording.folder)
    if not dataset.train.labels.all():  # some are unknown
        dataset = load_dataset(config.model_copy(update={"vocabulary_size": LARGEST_VOCABULARY}), data_dir)
    train = dataset.train
    codes = np.append(train.inputs[:, 0].astype(np.int64), train.labels[-1])
    return tuple(dataset.class_names[code] for code in codes)


@torch.no_grad()
def _queries(model: TextModel, codes: Codes) -> tuple[dict[str, NDArray[np.float32]], NDArray[np.float64]]:
    """Return the query (1, features) of each layer at the last token, and the logits (vocabulary,) after it."""
    network = model.network
    assert isinstance(network, LstmLanguageModel)
    embedded = network.tokens(torch.from_numpy(codes)[None])
    states = network.lstm(embedded)[0]
    before = states[:, -2] if len(codes) > 1 else torch.zeros_like(states[:, -1])
    inputs = {"lstm.input": embedded[:, -1], "lstm.recurrent": before, "head": states[:, -1]}
    logits = network.head(states[0, -1]).double().numpy()
    return {name: tensor.numpy() for name, tensor in inputs.items()}, logits


def _next_tokens(vocabulary: tuple[str, ...], logits: NDArray[np.float64], n: int) -> tuple[tuple[str, float], ...]:
    probabilities = Answer.from_logits(logits).probabilities
    assert probabilities is not None
    order = np.argsort(-probabilities, kind="stable")[:n]
    return tuple((vocabulary[code], float(probabilities[code])) for code in order)


def _warnings(model: TextModel, prompt: str, codes: Codes, recording: Recording) -> tuple[str, ...]:
    warnings = []
    tokens = model.tokenizer.split(prompt)
    if len(tokens) > len(codes):
        warnings.append(f"only the last {len(codes)} of {len(tokens)} {model.tokenizer.unit} are read")
    known = {*model.vocabulary}
    unknown = [token for token in dict.fromkeys(tokens[-len(codes) :]) if token not in known]
    if unknown:
        warnings.append(f"not in the vocabulary: {', '.join(unknown)}")
    if len(codes) == 1 and "lstm.recurrent" in recording.layers:
        warnings.append("the state before the only token is zero: lstm.recurrent attends to all slots alike")
    return (*warnings, *residual_warnings(recording))


class _Search(NamedTuple):
    """The search for at most `top` passages of a layer, made of `hits` slots, with `around` tokens on either side.

    Only slots in `where` are looked at; `given` are the first rows and the length of a passage whose rank is asked for.
    """

    recording: Recording
    text: TrainingText
    around: int
    logits: NDArray[np.float64]
    top: int
    hits: int | None
    where: NDArray[np.bool_] | None
    given: tuple[list[int], int] | None

    def layer(self, name: str, query: NDArray[np.float32], on_slots: OnSlots) -> PassageLayer:
        """Return the passages of one layer for a query (1, features)."""
        memory = self.recording.layers[name]
        n_slots = memory.slots if self.where is None else int(self.where.sum())
        n_hits = min(n_slots, max(self.top, min(HITS, n_slots // 100)) if self.hits is None else self.hits)
        slots, attention = (part[0] for part in memory.top(query, n_hits, where=self.where, on_slots=on_slots))
        passages = self._passages(name, slots, attention.astype(np.float64))
        passages.sort(key=lambda passage: (-passage.attention, passage.rows))
        # The largest of 1 − x_t·x are the least of x_t·x + 1.
        slots, mirrored = (part[0] for part in memory.top(-query, n_hits, where=self.where))
        least = self._passages(name, slots, 2.0 * memory.has_bias - mirrored.astype(np.float64), least=True)
        groups = np.zeros(memory.slots, np.int64) if self.where is None else self.where.astype(np.int64) - 1
        total = memory.totals(query, groups, 1)[0, 0]
        return PassageLayer(
            name,
            n_slots,
            n_hits,
            float(total),
            tuple(passages[: self.top]),
            min(least, key=lambda passage: (passage.attention, passage.rows)),
            None if self.given is None else self._rank(memory, query, *self.given),
        )

    def _rank(self, memory: LayerMemory, query: NDArray[np.float32], starts: list[int], length: int) -> PassageRank:
        """Return the rank of a passage among all stretches of its length, by the attention to all their slots."""
        n_rows = len(self.text.tokens)
        groups = self.recording.rows if self.where is None else np.where(self.where, self.recording.rows, -1)
        sums = np.convolve(memory.totals(query, groups, n_rows)[0], np.ones(length), "valid")
        row = max(starts, key=lambda start: float(sums[start]))
        rank = 1 + int((sums > sums[row]).sum())
        return PassageRank(row, self.text.title(row), float(sums[row]), rank, len(sums))

    def _passages(
        self, name: str, slots: Codes, attention: NDArray[np.float64], *, least: bool = False
    ) -> list[Passage]:
        """Return the passages of some slots with their attention, the largest or the `least`, in no order."""
        memory, added = self.recording.layers[name], None
        if name == "head":
            likely = int(self.logits[1:].argmax()) + 1 if len(self.logits) > 1 else 0  # not the unknown token
            added = attention * memory.errors(slots)[:, likely]
        groups = _neighbours(self.recording.rows[slots])
        return [
            self._passage(slots[group], attention[group], None if added is None else float(added[group].sum()), least)
            for group in groups
        ]

    def _passage(self, slots: Codes, attention: NDArray[np.float64], added: float | None, least: bool) -> Passage:
        """Return the passage around neighbouring rows, from the slots that attend to them."""
        rows = np.unique(self.recording.rows[slots])
        tokens = self.text.tokens
        first, stop = max(0, rows[0] - self.around), min(len(tokens), rows[-1] + 1 + self.around)
        largest = int(attention.argmin() if least else attention.argmax())
        return Passage(
            rows=tuple(rows.tolist()),
            tokens=tokens[first:stop],
            marked=tuple(np.isin(np.arange(first, stop), rows).tolist()),
            hits=len(slots),
            attention=float(attention.sum()),
            largest=float(attention[largest]),
            step=int(self.recording.slot_steps[slots[largest]]) + 1,
            title=self.text.title(int(rows[0])),
            contribution=added,
        )


def _neighbours(rows: Codes) -> list[NDArray[np.intp]]:
    """Return groups of places in `rows`: those with the same row or the one after it are in one group."""
    order = np.argsort(rows, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(rows[order]) > 1) + 1)
