"""The training passages that a recorded LSTM language model attends to when it reads a prompt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.dual.memory import LayerMemory
from idwbench.dual.recording import Recording, open_recording
from idwbench.errors import ExplanationError, did_you_mean
from idwbench.explanations.passage_texts import ExplainedPrompt, PassageLayer
from idwbench.explanations.training_text import TrainingText
from idwbench.models.lstm import LstmLanguageModel
from idwbench.models.text_model import TextModel, find_language_model
from idwbench.results.store import Results
from idwbench.runs.kinds.lstm_lm import LstmConfig

__all__ = ["HITS", "explain_prompt"]

HITS = 1000
Codes = NDArray[np.int64]


def explain_prompt(
    results: Results,
    run_key: str,
    prompt: str,
    top: int = 10,
    *,
    layer: str | None = None,
    hits: int | None = None,
    data_dir: Path | None = None,
    on_slots: Callable[[int, int], None] = lambda done, total: None,
) -> ExplainedPrompt:
    """Return the training passages with the largest attention at the last token of a prompt, for each recorded layer.

    A layer's query is its input at the last token T: the embedding x_T for ``lstm.input``, the state h_{T−1} for
    ``lstm.recurrent``, the state h_T for ``head``; its keys are the inputs at every step and position of the training,
    α_t = x_t·x + 1 with the bias. The `hits` slots with the largest attention are found; those of the same position of
    the text, and of neighbouring positions, are merged to one passage, whose attention is their sum. The passages with
    the largest sums are returned.

    Args:
        results: The database.
        run_key: Key of a recorded run of kind ``lstm_lm``, or the beginning of it.
        prompt: A text; its last tokens within the context are read, from the state zero.
        top: Largest number of passages of each layer.
        layer: The only layer to return, or None for all.
        hits: Number of slots that passages are made of; by default `HITS`, in a short recording a hundredth of its
            slots, and at least `top`.
        data_dir: Folder of the texts.
        on_slots: Called with the number of slots that were looked at, and of all.

    Raises:
        ExplanationError: the run is of another kind, or an argument is not valid.
        ResultsError: no such run, or its recording is missing, cut, or of another model.
        TrainingError: the run is not complete.
        DatasetError: the text cannot be loaded.
    """
    for name, number in (("top", top), ("hits", hits)):
        if number is not None and number < 1:
            raise ExplanationError(f"expected at least 1, got {number}", location=(name,))
    config = results.find_run(run_key).config
    if not isinstance(config.model, LstmConfig):
        raise ExplanationError(f"only a run of kind lstm_lm reads one, not {config.model.kind}", location=("prompt",))
    run, model = find_language_model(results, run_key)
    codes = model.encode(prompt)[-config.model.context :]
    if not len(codes):
        problem = f"expected at least one {model.tokenizer.unit.removesuffix('s')}"
        raise ExplanationError(problem, location=("prompt",))
    recording = open_recording(results, run)
    chosen = _chosen_layers(recording, layer)
    text = TrainingText.load(config.dataset, recording, model.tokenizer.unit, data_dir)
    queries, logits = _queries(model, codes)
    likely = int(logits[1:].argmax()) + 1 if len(logits) > 1 else 0
    slots = len(recording.rows)
    n_hits = min(slots, max(top, min(HITS, slots // 100)) if hits is None else hits)
    layers = [
        _layer(
            name,
            recording,
            queries[name],
            text,
            n_hits,
            top,
            likely if name == "head" else None,
            partial(_count, on_slots, place * slots, len(chosen) * slots),
        )
        for place, name in enumerate(chosen)
    ]
    return ExplainedPrompt(
        run_key=run.run_key,
        model=config.model.label,
        tokenizer=model.tokenizer,
        prompt=tuple(model.vocabulary[code] for code in codes),
        next_tokens=_next_tokens(model.vocabulary, logits, top),
        layers=tuple(layers),
        warnings=_warnings(model, prompt, codes, recording),
    )


def _chosen_layers(recording: Recording, layer: str | None) -> list[str]:
    if layer is None:
        return [*recording.layers]
    if layer not in recording.layers:
        hint = did_you_mean(layer, recording.layers)
        raise ExplanationError(f"the recording has no layer '{layer}'", location=("layer",), hint=hint)
    return [layer]


def _count(on_slots: Callable[[int, int], None], before: int, total: int, done: int) -> None:
    on_slots(before + done, total)


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
    powers = np.exp(logits - logits.max())
    probabilities = powers / powers.sum()
    order = np.argsort(-probabilities, kind="stable")[:n]
    return tuple((vocabulary[code], float(probabilities[code])) for code in order)


def _warnings(model: TextModel, prompt: str, codes: Codes, recording: Recording) -> tuple[str, ...]:
    found = []
    tokens = model.tokenizer.split(prompt)
    if len(tokens) > len(codes):
        found.append(f"only the last {len(codes)} of {len(tokens)} {model.tokenizer.unit} are read")
    known = {*model.vocabulary}
    unknown = [token for token in dict.fromkeys(tokens[-len(codes) :]) if token not in known]
    if unknown:
        found.append(f"not in the vocabulary: {', '.join(unknown)}")
    if len(codes) == 1 and "lstm.recurrent" in recording.layers:
        found.append("the state before the only token is zero: lstm.recurrent attends to all slots alike")
    shares = {name: facts.residual_share for name, facts in recording.facts.layers.items() if facts.residual_share}
    if shares:
        listed = ", ".join(f"{100 * share:.2g} % in {name}" for name, share in shares.items())
        found.append(f"the dual form of {recording.facts.optimizer} leaves out a part of the update: {listed}")
    return tuple(found)


def _layer(
    name: str,
    recording: Recording,
    query: NDArray[np.float32],
    text: TrainingText,
    hits: int,
    top: int,
    output: int | None,
    on_chunk: Callable[[int], None],
) -> PassageLayer:
    """Return the passages of one layer; `output` is the one whose contributions are wanted."""
    memory = recording.layers[name]
    slots, attention = _top(memory, query, hits, on_chunk)
    errors = None if output is None else memory.errors(slots)[:, output].astype(np.float64)
    rows = recording.rows[slots]
    passages = []
    for group in _neighbours(rows):
        of_group = attention[group]
        largest = group[of_group.argmax()]
        facts = {
            "hits": len(group),
            "attention": float(of_group.sum()),
            "largest": float(attention[largest]),
            "step": int(recording.slot_steps[slots[largest]]) + 1,
            "contribution": None if errors is None else float(of_group @ errors[group]),
        }
        passages.append(text.passage(np.unique(rows[group]), facts))
    passages.sort(key=lambda passage: (-passage.attention, passage.rows))
    return PassageLayer(name, memory.slots, hits, float(_total(memory, query)), tuple(passages[:top]))


def _top(
    memory: LayerMemory, query: NDArray[np.float32], hits: int, on_chunk: Callable[[int], None]
) -> tuple[Codes, NDArray[np.float64]]:
    """Return the slots (hits,) with the largest attention, and it; slots are counted up for `on_chunk`."""
    done = 0

    def count(slots: int) -> None:
        nonlocal done
        done += slots
        on_chunk(done)

    slots, attention = memory.top(query, hits, on_chunk=count)
    return slots[0], attention[0].astype(np.float64)


def _total(memory: LayerMemory, query: NDArray[np.float32]) -> float:
    """Return the sum of the attention to all slots."""
    return float(memory.totals(query, np.zeros(memory.slots, np.int64), 1)[0, 0])


def _neighbours(rows: Codes) -> list[NDArray[np.intp]]:
    """Return groups of places in `rows`: those with the same row or the one after it are in one group."""
    order = np.argsort(rows, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(rows[order]) > 1) + 1)
