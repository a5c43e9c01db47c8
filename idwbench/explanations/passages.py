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
from idwbench.dual.recording import Recording, open_recording
from idwbench.errors import ExplanationError, RecordingError
from idwbench.explanations.explanation import Answer
from idwbench.explanations.memory import OnSlots, chosen_layers, layer_progress
from idwbench.explanations.training_data import residual_warnings
from idwbench.models.text_model import LstmLanguageModel, TextModel, load_language_model
from idwbench.results.records import StoredRun
from idwbench.results.store import Results
from idwbench.runs.dataset_base import LARGEST_VOCABULARY, DatasetConfig
from idwbench.runs.datasets import dataset_label
from idwbench.runs.kinds.lstm_lm import LstmConfig

__all__ = ["HITS", "LINE_END", "ExplainedPrompt", "Passage", "PassageLayer", "explain_prompt"]

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
        largest: The largest of it.
        step: The training step, from 1, of the largest.
        contribution: What the hits add to the logit of the most probable next token; None in layers without logits.
    """

    rows: tuple[int, ...]
    tokens: tuple[str, ...]
    marked: tuple[bool, ...]
    hits: int
    attention: float
    largest: float
    step: int
    contribution: float | None = None


@dataclass(frozen=True)
class PassageLayer:
    """The passages of one layer.

    Attributes:
        name: The layer.
        slots: Number of slots in its memory.
        hits: Number of slots with the largest attention that passages are made of.
        total: The sum of the attention to all slots.
        passages: In order of decreasing attention.
    """

    name: str
    slots: int
    hits: int
    total: float
    passages: tuple[Passage, ...]


@dataclass(frozen=True)
class ExplainedPrompt:
    """What a recorded language model attends to at the last token of a prompt.

    Attributes:
        run_key: Key of the run.
        model: Label of the model.
        tokenizer: What the tokens are.
        prompt: The tokens that were read.
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

    def text(self, passage: Passage, mark: tuple[str, str] = ("[", "]")) -> str:
        """Return a passage as one line: neighbouring attended tokens between marks, line ends as ⏎."""
        begin, end = mark
        parts = []
        for is_marked, run in groupby(zip(passage.tokens, passage.marked, strict=True), key=lambda pair: pair[1]):
            # The spaces between words stand outside the marks.
            text = self.tokenizer.join([token.replace("\n", LINE_END) for token, _ in run])
            parts.append(f"{begin}{text}{end}" if is_marked else text)
        return self.tokenizer.join(parts)

    def facts(self) -> dict[str, Any]:
        """Return the explanation as values for JSON."""
        return {
            "run_key": self.run_key,
            "model": self.model,
            "tokens": self.tokenizer.unit,
            "prompt": list(self.prompt),
            "next": [{"token": token, "probability": probability} for token, probability in self.next_tokens],
            "layers": [
                {
                    "layer": layer.name,
                    "slots": layer.slots,
                    "hits": layer.hits,
                    "total": layer.total,
                    "passages": [{**vars(passage), "text": self.text(passage)} for passage in layer.passages],
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
    data_dir: Path | None = None,
    on_slots: OnSlots = lambda done, total: None,
) -> ExplainedPrompt:
    """Return the training passages with the largest attention at the last token of a prompt, for each recorded layer.

    Args:
        results: The database.
        run_key: Key of a recorded run of kind ``lstm_lm``, or the beginning of it.
        prompt: A text; its last tokens within the context are read, from the state zero.
        top: Largest number of passages of each layer, by the sum of their attention.
        layer: The only layer to return, or None for all.
        hits: Number of slots with the largest attention that passages are made of; by default `HITS`, in a short
            recording a hundredth of its slots, and at least `top`.
        data_dir: Folder of the texts.
        on_slots: Called with the number of slots that were looked at, and of all.

    Raises:
        ExplanationError: the run is of another kind, or an argument is not valid.
        ResultsError: no such run, or its recording is missing, cut, or of another model.
        TrainingError: the run is not complete.
        DatasetError: the text cannot be loaded.
    """
    run, model, codes = _read_prompt(results, run_key, prompt, {"top": top, "hits": hits})
    recording = open_recording(results, run)
    names = chosen_layers(recording.layers, layer, "the recording has no layer")
    tokens = _training_tokens(run.config.dataset, recording, data_dir)
    queries, logits = _queries(model, codes)
    search = _Search(recording, tokens, _AROUND[model.tokenizer.unit], logits, top, hits)
    layers = [search.layer(name, queries[name], layer_progress(on_slots, names, name)) for name in names]
    read = tuple(model.vocabulary[code] for code in codes)
    likely, warnings = _next_tokens(model.vocabulary, logits, top), _warnings(model, prompt, codes, recording)
    return ExplainedPrompt(run.run_key, run.config.model.label, model.tokenizer, read, likely, tuple(layers), warnings)


def _read_prompt(
    results: Results, run_key: str, prompt: str, counts: Mapping[str, int | None]
) -> tuple[StoredRun, TextModel, Codes]:
    """Return the run, its model, and the numbers of the tokens that it reads; `counts` must be at least 1."""
    for name, number in counts.items():
        if number is not None and number < 1:
            raise ExplanationError(f"expected at least 1, got {number}", location=(name,))
    run = results.find_run(run_key)
    settings = run.config.model
    if not isinstance(settings, LstmConfig):
        raise ExplanationError(f"only a run of kind lstm_lm reads one, not {settings.kind}", location=("prompt",))
    model = load_language_model(results, run_key)
    codes = model.encode(prompt)[-settings.context :]
    if not len(codes):
        problem = f"expected at least one {model.tokenizer.unit.removesuffix('s')}"
        raise ExplanationError(problem, location=("prompt",))
    return run, model, codes


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
    """The search for at most `top` passages of a layer, made of `hits` slots, with `around` tokens on either side."""

    recording: Recording
    tokens: tuple[str, ...]
    around: int
    logits: NDArray[np.float64]
    top: int
    hits: int | None

    def layer(self, name: str, query: NDArray[np.float32], on_slots: OnSlots) -> PassageLayer:
        """Return the passages of one layer for a query (1, features)."""
        memory = self.recording.layers[name]
        n_hits = min(memory.slots, max(self.top, min(HITS, memory.slots // 100)) if self.hits is None else self.hits)
        all_slots, all_attention = memory.top(query, n_hits, on_slots=on_slots)
        slots, attention = all_slots[0], all_attention[0].astype(np.float64)
        added = None
        if name == "head":
            likely = int(self.logits[1:].argmax()) + 1 if len(self.logits) > 1 else 0  # not the unknown token
            added = attention * memory.errors(slots)[:, likely]
        groups = _neighbours(self.recording.rows[slots])
        passages = [
            self._passage(slots[group], attention[group], None if added is None else float(added[group].sum()))
            for group in groups
        ]
        passages.sort(key=lambda passage: (-passage.attention, passage.rows))
        total = memory.totals(query, np.zeros(memory.slots, np.int64), 1)[0, 0]
        return PassageLayer(name, memory.slots, n_hits, float(total), tuple(passages[: self.top]))

    def _passage(self, slots: Codes, attention: NDArray[np.float64], contribution: float | None) -> Passage:
        """Return the passage around neighbouring rows, from the slots that attend to them."""
        rows = np.unique(self.recording.rows[slots])
        first, stop = max(0, rows[0] - self.around), min(len(self.tokens), rows[-1] + 1 + self.around)
        largest = int(attention.argmax())
        return Passage(
            rows=tuple(rows.tolist()),
            tokens=self.tokens[first:stop],
            marked=tuple(np.isin(np.arange(first, stop), rows).tolist()),
            hits=len(slots),
            attention=float(attention.sum()),
            largest=float(attention[largest]),
            step=int(self.recording.slot_steps[slots[largest]]) + 1,
            contribution=contribution,
        )


def _neighbours(rows: Codes) -> list[NDArray[np.intp]]:
    """Return groups of places in `rows`: those with the same row or the one after it are in one group."""
    order = np.argsort(rows, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(rows[order]) > 1) + 1)
