"""Language models, which predict the next token of a text: a transformer or an LSTM; and `TextModel`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from idwbench.data.dataset import Dataset, Split
from idwbench.data.text import CHARACTERS, Tokenizer, text_tokenizer
from idwbench.errors import ConfigError
from idwbench.models.modules import complete_run, with_parameters
from idwbench.models.transformer import Transformer, initialise_transformer
from idwbench.runs.dataset_base import LanguageConfig
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.runs.kinds.transformer_lm import LanguageModelConfig

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = [
    "LanguageModel",
    "LstmLanguageModel",
    "NextTokenModel",
    "TextModel",
    "bits_per_character",
    "language_network",
    "load_language_model",
    "mean_loss",
    "ngram_bits_per_character",
    "text_metrics",
    "text_model_from_arrays",
]

# Largest number of logits that an evaluation computes at a time: 8 MiB in float32.
LOGITS_AT_A_TIME = 2**21


class NextTokenModel(nn.Module):
    """A module from numbers of tokens (batch, length) to logits (batch, length, vocabulary) of the token after each.

    Attributes:
        tokens: The embedding of tokens.
        context: Number of tokens in a window.
    """

    tokens: nn.Embedding
    context: int


class LanguageModel(NextTokenModel):
    """A causal transformer: logits = head · transformer(tokens + positions), with learned embeddings of both.

    The architecture is that of GPT-2 (Radford et al. 2019) without biases and with a head of its own.

    Args:
        config: Sizes, attention score and its parameters.
        vocabulary_size: Number of different characters.
        generator: Source of the initial weights; by default that of torch.
    """

    def __init__(
        self, config: LanguageModelConfig, vocabulary_size: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        width, self.context = config.width, config.context
        self.tokens = nn.Embedding(vocabulary_size, width)
        self.positions = nn.Embedding(config.context, width)
        options: dict[str, Any] = {"causal": True, "generator": generator, **config.parameters, **config.learned}
        self.transformer = Transformer(config.depth, width, config.heads, config.method, **options)
        self.head = nn.Linear(width, vocabulary_size, bias=False)
        initialise_transformer(self, config.depth, generator)

    def forward(self, codes: Tensor) -> Tensor:
        """Return the logits (batch, length, vocabulary) of the next character after each of `codes` (batch, length)."""
        positions = torch.arange(codes.shape[1], device=codes.device)
        logits: Tensor = self.head(self.transformer(self.tokens(codes) + self.positions(positions)))
        return logits


class LstmLanguageModel(NextTokenModel):
    """logits = head · h_t + b with the states h_t of one LSTM layer (Hochreiter and Schmidhuber 1997).

    The initial state of every sequence is zero. Initial embeddings are normal with standard deviation 1; other weights
    are uniform between ±1/√width, as those of `torch.nn.LSTM` and `torch.nn.Linear`. The arguments are those of
    `LanguageModel`.
    """

    def __init__(self, config: LstmConfig, vocabulary_size: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.context = config.context
        self.tokens = nn.Embedding(vocabulary_size, config.embedding)
        self.lstm = nn.LSTM(config.embedding, config.width, batch_first=True)
        self.head = nn.Linear(config.width, vocabulary_size)
        bound = config.width**-0.5
        with torch.no_grad():
            self.tokens.weight.normal_(generator=generator)
            for parameter in (*self.lstm.parameters(), *self.head.parameters()):
                parameter.uniform_(-bound, bound, generator=generator)

    def forward(self, codes: Tensor) -> Tensor:
        """Return the logits (batch, length, vocabulary) of the next token after each of `codes` (batch, length)."""
        states, _ = self.lstm(self.tokens(codes))
        logits: Tensor = self.head(states)
        return logits


def language_network(
    config: LanguageModelConfig | LstmConfig, vocabulary_size: int, generator: torch.Generator
) -> NextTokenModel:
    """Return an untrained model with the settings of a run."""
    if isinstance(config, LstmConfig):
        return LstmLanguageModel(config, vocabulary_size, generator)
    return LanguageModel(config, vocabulary_size, generator)


@torch.no_grad()
def mean_loss(model: NextTokenModel, inputs: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """Return the mean of −ln P(label | inputs up to it) over all labels of one text, in nats.

    Each label is predicted once, in windows of C = `context` inputs that begin every ⌈C/2⌉ inputs: from more than ⌊C/2⌋
    inputs, or from all inputs before it at the beginning of the text.

    Args:
        model: The model, in evaluation mode.
        inputs: The numbers of consecutive tokens, (n,).
        labels: Those that follow each, (n,).
    """
    length = min(model.context, len(inputs))
    stride = (length + 1) // 2
    # The last window ends with the text.
    starts = np.append(np.arange(0, len(inputs) - length, stride), len(inputs) - length)
    counted_from = np.concatenate([[0], starts[:-1] + length])
    device = model.tokens.weight.device
    at_a_time = max(1, LOGITS_AT_A_TIME // (length * model.tokens.num_embeddings))
    total = 0.0
    for first in range(0, len(starts), at_a_time):
        some = slice(first, first + at_a_time)
        rows = starts[some, None] + np.arange(length)
        logits = model(torch.from_numpy(inputs[rows]).to(device))
        targets = torch.from_numpy(labels[rows]).to(device)
        losses = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        counted = torch.from_numpy(rows >= counted_from[some, None]).to(device)
        total += float(losses.double()[counted].sum())
    return total / len(labels)


def bits_per_character(loss: float, n_labels: int, characters: int | None = None) -> float:
    """Return the bits per character for a `mean_loss` over n labels.

    `characters` is the number of characters of all labels with what separates them, by default one for each label.
    """
    return loss / math.log(2) * (1.0 if characters is None else n_labels / characters)


def text_metrics(model: NextTokenModel, split: Split, first: int = 0) -> dict[str, float]:
    """Return ``bits_per_character`` and ``perplexity`` = exp(mean of −ln P(token)) of a split from a row on.

    A perplexity beyond the range of float64 is left out.
    """
    inputs, labels = split.inputs[first:, 0].astype(np.int64), split.labels[first:]
    characters = None if split.characters is None else int(split.characters[first:].sum())
    loss = mean_loss(model, inputs, labels)
    metrics = {"bits_per_character": bits_per_character(loss, len(labels), characters)}
    if loss < math.log(np.finfo(np.float64).max):
        metrics["perplexity"] = math.exp(loss)
    return metrics


def ngram_bits_per_character(dataset: Dataset, order: int, split: str = "test") -> float:
    """Return the bits per character of a split under P(c | s) = (n(sc) + 1) / (n(s) + V).

    s are the `order` tokens before the token c, n counts the occurrences of a sequence before a token in the training
    part, and V is the size of the vocabulary: Laplace's add-one estimate (Jurafsky and Martin, "Speech and Language
    Processing", chapter 3). Order 0 are the frequencies of tokens. Tokens are characters or words.

    Each token of the split is predicted once; s is shorter for the first of them, which have fewer tokens before them
    in the rows of the split.

    Args:
        dataset: A text.
        order: Number of tokens that a prediction depends on, from 0.
        split: Name of the split.
    """
    train, test = (_codes(dataset, name) for name in ("train", split))
    counts: Counter[bytes] = Counter()
    contexts: Counter[bytes] = Counter()
    # Shorter strings are needed at the beginning of the split.
    for n in range(min(1, order), order + 1):
        for end in range(n, len(train)):
            before = train[end - n : end].tobytes()
            contexts[before] += 1
            counts[before + train[end].tobytes()] += 1
    total = 0.0
    for end in range(1, len(test)):
        before = test[max(0, end - order) : end].tobytes()
        count = counts[before + test[end].tobytes()]
        total -= math.log2((count + 1) / (contexts[before] + dataset.n_outputs))
    characters = dataset.splits[split].characters
    return total / (len(test) - 1 if characters is None else int(characters.sum()))


def _codes(dataset: Dataset, split: str) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    """Return all tokens of a split, with the one before its first label."""
    part = dataset.splits[split]
    return np.concatenate([part.inputs[:1, 0].astype(np.uint32), part.labels.astype(np.uint32)])


@dataclass(frozen=True)
class TextModel:
    """A language model and its vocabulary.

    Attributes:
        network: The model, in evaluation mode.
        vocabulary: The token of each number; the first stands for all tokens that are not in the others.
        tokenizer: Splits texts into tokens: characters or words.
    """

    network: NextTokenModel
    vocabulary: tuple[str, ...]
    tokenizer: Tokenizer = CHARACTERS

    def encode(self, text: str) -> NDArray[np.int64]:
        """Return the number of each token of a text."""
        return self.tokenizer.encode(self.tokenizer.split(text), self.vocabulary)

    @torch.no_grad()
    def logits(self, text: str) -> NDArray[np.float32]:
        """Return the logits (length, vocabulary) of the token after each one of a text within the context.

        Raises:
            ConfigError: the text is empty or longer than the context.
        """
        codes, context = self.encode(text), self.network.context
        if not 1 <= len(codes) <= context:
            problem = f"expected 1 to {context} {self.tokenizer.unit}, got {len(codes)}"
            raise ConfigError(problem, location=("text",))
        return np.asarray(self.network(torch.from_numpy(codes)[None])[0].numpy())

    def bits_per_character(self, text: str) -> float:
        """Return the bits per character of a text after its first token, see `bits_per_character`.

        Raises:
            ConfigError: the text has fewer than two tokens.
        """
        codes, lengths = self.encode(text), self.tokenizer.lengths(text)
        if len(codes) < 2:
            raise ConfigError(f"expected at least 2 {self.tokenizer.unit}, got {len(codes)}", location=("text",))
        characters = None if lengths is None else int(lengths[1:].sum())
        return bits_per_character(mean_loss(self.network, codes[:-1], codes[1:]), len(codes) - 1, characters)

    @torch.no_grad()
    def generate(self, prompt: str = "\n", length: int = 200, *, seed: int = 0, temperature: float = 1.0) -> str:
        """Return `length` tokens that continue a prompt, each drawn from softmax(logits / temperature).

        Args:
            prompt: The text before; its last tokens within the context are read.
            length: Number of tokens.
            seed: Seed of the draws.
            temperature: 0 for the most probable token each time.

        Raises:
            ConfigError: the prompt is empty, the length negative, or the temperature negative or not finite.
        """
        codes = torch.from_numpy(self.encode(prompt))
        _check_generation(self.tokenizer.unit, len(codes), length, temperature)
        generator = torch.Generator().manual_seed(seed)
        n_prompt = len(codes)
        for _ in range(length):
            logits = self.network(codes[None, -self.network.context :])[0, -1].double()
            logits[0] = -math.inf  # the number of unknown tokens stands for no token
            if temperature == 0:
                drawn = logits.argmax(keepdim=True)
            else:
                # The largest is 0, so that no temperature makes two logits infinite.
                weights = ((logits - logits.max()) / temperature).softmax(0)
                drawn = torch.multinomial(weights, 1, generator=generator)
            codes = torch.cat([codes, drawn])
        return self.tokenizer.join([self.vocabulary[code] for code in codes[n_prompt:].tolist()])


def text_model_from_arrays(
    config: LanguageModelConfig | LstmConfig,
    arrays: Mapping[str, NDArray[np.generic]],
    tokenizer: Tokenizer = CHARACTERS,
) -> TextModel:
    """Return the model whose parameters and ``vocabulary`` are `arrays`."""
    vocabulary = tokenizer.vocabulary(arrays["vocabulary"])
    network = language_network(config, len(vocabulary), torch.Generator())
    return TextModel(with_parameters(network, arrays), vocabulary, tokenizer)


def load_language_model(results: Results, run_key: str) -> TextModel:
    """Return the trained language model of a stored run; the text that it was trained on is not needed.

    Args:
        results: The database.
        run_key: The run's key, or the beginning of it.

    Raises:
        ResultsError: no such run.
        TrainingError: the run is of another kind, or is not complete.
    """
    run = complete_run(results, run_key, (LanguageModelConfig, LstmConfig), ("language model", "language model"))
    model, dataset = run.config.model, run.config.dataset
    assert isinstance(model, LanguageModelConfig | LstmConfig) and isinstance(dataset, LanguageConfig)
    return text_model_from_arrays(model, results.load_arrays(run.run_key), text_tokenizer(dataset))


def _check_generation(unit: str, n_prompt: int, length: int, temperature: float) -> None:
    if not n_prompt:
        raise ConfigError(f"expected at least one {unit.removesuffix('s')}", location=("prompt",))
    if length < 0:
        raise ConfigError(f"expected a number from 0, got {length}", location=("length",))
    if not 0 <= temperature < math.inf:
        raise ConfigError(f"expected a finite number from 0, got {temperature:g}", location=("temperature",))
