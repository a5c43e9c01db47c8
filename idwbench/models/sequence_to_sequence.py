"""Networks that write one sequence for another: an encoder, and a decoder that looks up its states.

With the states h_j of the source and the states s_t of the decoder,

    P(y_t | y_1 … y_(t−1), x) = softmax(W tanh(M [s_t; c_t] + b) + b'),  c_t = Σ_j a(q(s_t), k(h_j)) v(h_j)

The source is a table that is written once and looked up for each letter (Bahdanau et al. 2015, *Neural machine
translation by jointly learning to align and translate*; the look-up after the decoder's step is that of Luong et al.
2015). The weights a are those of a score and a weighting: ``softmax`` is a soft look-up, ``straight_through`` a hard
one, of one state. Without look-up c_t is one vector, the last states of the encoder (Cho et al. 2014).

- h_j are the states of two LSTMs with width/2 units each, which read the source from both ends.
- The decoder is an LSTM that reads the letter before; it begins with tanh(A [last states] + a) and an empty cell.
- q, k and v are linear, in one head of `idwbench.attention.layers.MultiheadAttention`.

Metrics of a split, where the decoder reads the right letters before each letter (teacher forcing):

- ``exact_match``: the fraction of targets of which every letter and the end is the most probable one. These are the
  targets that the network writes by itself, since it then reads the same letters.
- ``token_accuracy``: the fraction of letters and ends that are the most probable ones.
- ``alignment``: the mean weight of those letters of the source that a letter of the target is written for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from idwbench.attention.layers import MultiheadAttention
from idwbench.data.dataset import Dataset, Split
from idwbench.data.sequences import END, PADDING, Piece, SequenceTask, sequence_task
from idwbench.errors import ConfigError
from idwbench.models.modules import complete_run, with_parameters
from idwbench.runs.dataset_base import SequencePairsConfig
from idwbench.runs.kinds.sequence_to_sequence import SequenceToSequenceConfig

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = [
    "Encoded",
    "SequenceModel",
    "SequenceToSequence",
    "Written",
    "initial_sequence_network",
    "letters_of",
    "load_sequence_model",
    "metrics_by_length",
    "narrowed",
    "sequence_metrics",
    "sequence_model_from_arrays",
]

_ROWS_AT_ONCE = 256
_MOST_LETTERS = 3  # that are written for each letter of a source, before the network is stopped

State = tuple[Tensor, Tensor]


class Encoded(NamedTuple):
    """A batch of sources: what the decoder looks up, and begins with.

    Attributes:
        states: The table (batch, length, width).
        last: The last states of both directions, (batch, width).
        padding: Whether a place is behind the end of its source, (batch, length).
    """

    states: Tensor
    last: Tensor
    padding: Tensor


class SequenceToSequence(nn.Module):
    """An encoder, a decoder and a look-up, see the module.

    Initial embeddings are normal with standard deviation 1; all other weights are uniform between ±1/√width, as those
    of `torch.nn.LSTM`.

    Args:
        config: Sizes, attention score, weighting and their parameters.
        n_source: How many numbers sources have, see `Alphabet.n_codes`.
        n_target: How many numbers targets have.
        generator: Source of the initial weights; by default that of torch.
    """

    def __init__(
        self, config: SequenceToSequenceConfig, n_source: int, n_target: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        embedding, width = config.embedding, config.width
        self.source_letters, self.target_letters = nn.Embedding(n_source, embedding), nn.Embedding(n_target, embedding)
        self.forwards, self.backwards = (nn.LSTM(embedding, width // 2, batch_first=True) for _ in range(2))
        self.start = nn.Linear(width, width)
        self.decoder = nn.LSTM(embedding, width, batch_first=True)
        options: dict[str, Any] = {"weighting": config.weighting, "bias": False, "batch_first": True}
        options |= config.parameters
        self.look_up = MultiheadAttention(width, 1, config.method, **options) if config.has_look_up else None
        self.mixed = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, n_target)
        self._initialise(width**-0.5, generator)

    @torch.no_grad()
    def _initialise(self, bound: float, generator: torch.Generator | None) -> None:
        for name, parameter in self.named_parameters():
            if name.endswith("_letters.weight"):
                parameter.normal_(generator=generator)
            else:
                parameter.uniform_(-bound, bound, generator=generator)

    def encode(self, source: Tensor) -> Encoded:
        """Return the states of sources (batch, length), whose rows end with padding."""
        padding = source == PADDING
        lengths, places = (~padding).sum(1, keepdim=True), torch.arange(source.shape[1], device=source.device)
        # From the end of each source; what is behind it stays there and is read last.
        turned = torch.where(places < lengths, lengths - 1 - places, places)
        letters = self.source_letters(source)
        forwards = self.forwards(letters)[0]
        backwards = _reordered(self.backwards(_reordered(letters, turned))[0], turned)
        last = torch.cat([_reordered(forwards, lengths - 1)[:, 0], backwards[:, 0]], -1)
        return Encoded(torch.cat([forwards, backwards], -1), last, padding)

    def begin(self, encoded: Encoded) -> State:
        """Return the state with which the decoder begins."""
        hidden = self.start(encoded.last).tanh()[None]
        return hidden, torch.zeros_like(hidden)

    def step(self, encoded: Encoded, before: Tensor, state: State) -> tuple[Tensor, Tensor | None, State]:
        """Return what follows letters (batch, letters) that are read from a state.

        These are the logits (batch, letters, target numbers), the weights (batch, letters, length) or None without
        look-up, and the next state.
        """
        states, state = self.decoder(self.target_letters(before), state)
        if self.look_up is None:
            context, weights = encoded.last[:, None].expand_as(states), None
        else:
            context, weights = self.look_up(states, encoded.states, encoded.states, key_padding_mask=encoded.padding)
        logits: Tensor = self.head(self.mixed(torch.cat([states, context], -1)).tanh())
        return logits, weights, state

    def forward(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the logits and weights for each letter of targets (batch, letters), after the right ones before."""
        encoded = self.encode(source)
        before = torch.cat([torch.full_like(target[:, :1], END), target[:, :-1]], 1)
        logits, weights, _ = self.step(encoded, before, self.begin(encoded))
        return logits, weights

    @torch.no_grad()
    def write(self, source: Tensor, most: int) -> tuple[Tensor, Tensor | None]:
        """Return the most probable letters (1, letters) for one source (1, length) and the weights of each.

        Each letter is read before the next is written; the last is the end, unless there are `most` before.
        """
        encoded = self.encode(source)
        letter, state = torch.full_like(source[:, :1], END), self.begin(encoded)
        letters, rows = [], []
        for _ in range(most):
            logits, weights, state = self.step(encoded, letter, state)
            letter = logits.argmax(-1)
            letters.append(letter)
            rows.append(weights)
            if letter.item() <= END:
                break
        return torch.cat(letters, 1), None if self.look_up is None else torch.cat(rows, 1)  # type: ignore[arg-type]


def _reordered(rows: Tensor, places: Tensor) -> Tensor:
    """Return (batch, n, features): those of `rows` (batch, length, features) at places (batch, n)."""
    return rows.gather(1, places[..., None].expand(-1, -1, rows.shape[-1]))


def letters_of(split: Split, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Return the numbers of the letters of sources (n, length) and targets (n, letters)."""
    source, target = (torch.from_numpy(part.astype(np.int64)) for part in (split.inputs, split.targets))
    return source.to(device), target.to(device)


def narrowed(rows: Tensor) -> Tensor:
    """Return rows (batch, length) without the columns that are padding in all of them."""
    return rows[:, : int((rows != PADDING).sum(1).max())]


def initial_sequence_network(
    config: SequenceToSequenceConfig, dataset: Dataset, generator: torch.Generator | None = None
) -> SequenceToSequence:
    """Return an untrained network for a data set."""
    assert isinstance(dataset.config, SequencePairsConfig)
    task = sequence_task(dataset.config)
    return SequenceToSequence(config, task.source.n_codes, task.target.n_codes, generator)


def sequence_metrics(
    model: SequenceToSequence, dataset: Dataset, split: str, *, alignment: bool = True
) -> dict[tuple[str, str], float]:
    """Return the metrics of a split by split and name; the alignment if it is asked for and there is a look-up."""
    assert isinstance(dataset.config, SequencePairsConfig)
    task = sequence_task(dataset.config) if alignment and model.look_up is not None else None
    table = _answers(model, dataset.splits[split], task)
    metrics = {"exact_match": table.exact.mean(), "token_accuracy": table.right.sum() / table.tokens.sum()}
    if task is not None:
        metrics["alignment"] = table.aligned.sum() / (table.tokens - 1).sum()  # the end is written for no letter
    return {(split, name): float(value) for name, value in metrics.items()}


def metrics_by_length(model: SequenceToSequence, dataset: Dataset) -> dict[str, NDArray[np.generic]]:
    """Return the lengths of the sources of test and holdout, and exact match and token accuracy by them."""
    splits = (dataset.splits[name] for name in ("test", "holdout") if name in dataset.splits)
    sums = pandas.concat([_answers(model, split) for split in splits]).assign(n=1).groupby("length").sum()
    return {
        "lengths": sums.index.to_numpy(np.int64),
        "exact_match_by_length": (sums.exact / sums.n).to_numpy(np.float64),
        "token_accuracy_by_length": (sums.right / sums.tokens).to_numpy(np.float64),
    }


@torch.no_grad()
def _answers(model: SequenceToSequence, split: Split, task: SequenceTask | None = None) -> pandas.DataFrame:
    """Return a row for each pair.

    Columns: the length of the source; how many letters the target has with its end (tokens), and how many of them are
    right; whether all are; and with a task the sum of the weights of what each letter is written for.
    """
    pairs = zip(
        *(torch.split(part, _ROWS_AT_ONCE) for part in letters_of(split, model.head.weight.device)), strict=True
    )
    return pandas.concat([_answers_at_once(model, narrowed(one), narrowed(other), task) for one, other in pairs])


def _answers_at_once(
    model: SequenceToSequence, source: Tensor, target: Tensor, task: SequenceTask | None
) -> pandas.DataFrame:
    logits, weights = model(source, target)
    counted = target != PADDING
    right, tokens = ((logits.argmax(-1) == target) & counted).sum(1), counted.sum(1)
    columns = {"length": (source != PADDING).sum(1), "tokens": tokens, "right": right, "exact": right == tokens}
    if task is not None:
        assert weights is not None
        texts = map(task.source.decode, source.tolist())
        columns["aligned"] = torch.stack(
            [_aligned(row, task.pieces(text)) for row, text in zip(weights, texts, strict=True)]
        )
    return pandas.DataFrame({name: column.cpu().numpy() for name, column in columns.items()})


def _aligned(weights: Tensor, pieces: list[Piece]) -> Tensor:
    """Return the sum of the weights (letters, length) of what each letter of a target is written for."""
    rows = [row for row, piece in enumerate(pieces) for _ in range(piece.start, piece.stop)]
    places = [place for piece in pieces for place in range(piece.start, piece.stop)]
    return weights[rows, places].sum()


class Written(NamedTuple):
    """What a network writes for a text.

    Attributes:
        text: The letters.
        weights: The weight of each letter of the source for each letter and the end (letters + 1, length); None without
            look-up.
    """

    text: str
    weights: NDArray[np.float32] | None


@dataclass(frozen=True)
class SequenceModel:
    """A trained network and the task that it has learned."""

    network: SequenceToSequence
    task: SequenceTask

    def write(self, text: str) -> Written:
        """Return what the network writes for a text, at most three letters for each of its letters.

        Raises:
            ConfigError: the text is empty, or has a letter that the network does not know.
        """
        if not text:
            raise ConfigError("expected at least one letter", location=("text",))
        source = torch.tensor([self.task.source.encode(text)])
        letters, weights = self.network.write(source, _MOST_LETTERS * len(text))
        return Written(self.task.target.decode(letters[0].tolist()), None if weights is None else weights[0].numpy())


def sequence_model_from_arrays(
    config: SequenceToSequenceConfig, dataset: SequencePairsConfig, arrays: Mapping[str, NDArray[np.generic]]
) -> SequenceModel:
    """Return the model whose parameters are `arrays`."""
    task = sequence_task(dataset)
    network = SequenceToSequence(config, task.source.n_codes, task.target.n_codes)
    return SequenceModel(with_parameters(network, arrays), task)


def load_sequence_model(results: Results, run_key: str) -> SequenceModel:
    """Return the trained network of a stored run.

    Args:
        results: The database.
        run_key: The run's key, or the beginning of it.

    Raises:
        ResultsError: no such run.
        TrainingError: the run is of another kind, or is not complete.
    """
    run = complete_run(results, run_key, SequenceToSequenceConfig, ("network for sequences", "network"))
    model, dataset = run.config.model, run.config.dataset
    assert isinstance(model, SequenceToSequenceConfig) and isinstance(dataset, SequencePairsConfig)
    return sequence_model_from_arrays(model, dataset, results.load_arrays(run.run_key))
