"""`TextModel`: a trained language model with its vocabulary, for texts instead of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.data.text import encode
from idwbench.errors import ConfigError, TrainingError
from idwbench.models.language_model import LanguageModel, bits_per_character
from idwbench.results.store import Results
from idwbench.runs.language_models import LanguageModelConfig

__all__ = ["TextModel", "load_language_model", "text_model_from_arrays"]


@dataclass(frozen=True)
class TextModel:
    """A language model and its vocabulary.

    Attributes:
        network: The model, in evaluation mode.
        vocabulary: The character of each number; the first stands for all characters that are not in the others.
    """

    network: LanguageModel
    vocabulary: tuple[str, ...]

    @torch.no_grad()
    def logits(self, text: str) -> NDArray[np.float32]:
        """Return the logits (length, vocabulary) of the character after each one of a text within the context.

        Raises:
            ConfigError: the text is empty or longer than the context.
        """
        context = self.network.context
        if not 1 <= len(text) <= context:
            raise ConfigError(f"expected 1 to {context} characters, got {len(text)}", location=("text",))
        codes = torch.from_numpy(encode(text, self.vocabulary))
        return np.asarray(self.network(codes[None])[0].numpy())

    def bits_per_character(self, text: str) -> float:
        """Return the bits per character of a text after its first character, see `bits_per_character`.

        Raises:
            ConfigError: the text has fewer than two characters.
        """
        if len(text) < 2:
            raise ConfigError(f"expected at least 2 characters, got {len(text)}", location=("text",))
        codes = encode(text, self.vocabulary)
        return bits_per_character(self.network, codes[:-1], codes[1:])

    @torch.no_grad()
    def generate(self, prompt: str = "\n", length: int = 200, *, seed: int = 0, temperature: float = 1.0) -> str:
        """Return `length` characters that continue a prompt, each drawn from softmax(logits / temperature).

        Args:
            prompt: The text before; its last characters within the context are read.
            length: Number of characters.
            seed: Seed of the draws.
            temperature: 0 for the most probable character each time.

        Raises:
            ConfigError: the prompt is empty, the length negative, or the temperature negative or not finite.
        """
        _check_generation(prompt, length, temperature)
        generator = torch.Generator().manual_seed(seed)
        codes = torch.from_numpy(encode(prompt, self.vocabulary))
        n_prompt = len(codes)
        for _ in range(length):
            logits = self.network(codes[None, -self.network.context :])[0, -1].double()
            logits[0] = -math.inf  # the number of unknown characters stands for no character
            if temperature == 0:
                drawn = logits.argmax(keepdim=True)
            else:
                # The largest is 0, so that no temperature makes two logits infinite.
                weights = ((logits - logits.max()) / temperature).softmax(0)
                drawn = torch.multinomial(weights, 1, generator=generator)
            codes = torch.cat([codes, drawn])
        return "".join(self.vocabulary[code] for code in codes[n_prompt:].tolist())


def text_model_from_arrays(config: LanguageModelConfig, arrays: Mapping[str, NDArray[np.generic]]) -> TextModel:
    """Return the model whose parameters and ``vocabulary`` (code points) are `arrays`."""
    vocabulary = tuple(chr(point) for point in arrays["vocabulary"].tolist())
    network = LanguageModel.of(config, len(vocabulary), torch.Generator())
    names = network.state_dict().keys()
    network.load_state_dict({name: torch.from_numpy(np.array(arrays[name])) for name in names})
    return TextModel(network.eval(), vocabulary)


def load_language_model(results: Results, run_key: str) -> TextModel:
    """Return the trained language model of a stored run; the text that it was trained on is not needed.

    Args:
        results: The database.
        run_key: The run's key, or the beginning of it.

    Raises:
        ResultsError: no such run.
        TrainingError: the run is of another kind, or is not complete.
    """
    run = results.find_run(run_key)
    model = run.config.model
    if not isinstance(model, LanguageModelConfig):
        raise TrainingError(f"a run of kind {model.kind} has no language model")
    if run.state != "complete":
        raise TrainingError(f"the run is {run.state}: it has no language model")
    return text_model_from_arrays(model, results.load_arrays(run.run_key))


def _check_generation(prompt: str, length: int, temperature: float) -> None:
    if not prompt:
        raise ConfigError("expected at least one character", location=("prompt",))
    if length < 0:
        raise ConfigError(f"expected a number from 0, got {length}", location=("length",))
    if not 0 <= temperature < math.inf:
        raise ConfigError(f"expected a finite number from 0, got {temperature:g}", location=("temperature",))
