"""`TextModel`: a trained language model with its vocabulary, for texts instead of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.data.tokens import CHARACTERS, Tokenizer, text_tokenizer
from idwbench.errors import ConfigError
from idwbench.models.language import NextTokenModel, bits_per_character, language_network
from idwbench.models.modules import complete_run, with_parameters
from idwbench.results.records import StoredRun
from idwbench.results.store import Results
from idwbench.runs.datasets import LanguageConfig
from idwbench.runs.kinds.lstm_lm import LstmConfig
from idwbench.runs.kinds.transformer_lm import LanguageModelConfig

__all__ = ["TextModel", "find_language_model", "load_language_model", "text_model_from_arrays"]


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
        return bits_per_character(self.network, codes[:-1], codes[1:], characters)

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
    return find_language_model(results, run_key)[1]


def find_language_model(results: Results, run_key: str) -> tuple[StoredRun, TextModel]:
    """Return a stored run and its trained language model; arguments and errors as for `load_language_model`."""
    run = complete_run(results, run_key, (LanguageModelConfig, LstmConfig), ("language model", "language model"))
    model, dataset = run.config.model, run.config.dataset
    assert isinstance(model, LanguageModelConfig | LstmConfig) and isinstance(dataset, LanguageConfig)
    return run, text_model_from_arrays(model, results.load_arrays(run.run_key), text_tokenizer(dataset))


def _check_generation(unit: str, n_prompt: int, length: int, temperature: float) -> None:
    if not n_prompt:
        raise ConfigError(f"expected at least one {unit.removesuffix('s')}", location=("prompt",))
    if length < 0:
        raise ConfigError(f"expected a number from 0, got {length}", location=("length",))
    if not 0 <= temperature < math.inf:
        raise ConfigError(f"expected a finite number from 0, got {temperature:g}", location=("temperature",))
