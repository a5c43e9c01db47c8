"""Small texts, and language models on them."""

from array_models import randomise

from idwbench.data.loading import load_dataset
from idwbench.models.text_model import LanguageModel
from idwbench.runs.config import run_config
from idwbench.runs.datasets import TextConfig
from idwbench.runs.kinds.models import parse_model

TEXT = "the cat sat on the mat. a rat ran at the cat! "
SMALL = {"depth": 1, "width": 8, "heads": 2, "context": 8}
PROTOCOL = {"epochs": 2, "batch_size": 4, "optimizer": "adam"}


def text_file(folder, text=TEXT * 10):
    path = folder / "own.txt"
    path.write_text(text, encoding="utf-8")
    return path


def text_run(path, seed=0, **settings):
    """A tiny language model on a text file, with the checksum of the file."""
    given = {"kind": "transformer_lm", **SMALL, **PROTOCOL, **settings}
    return run_config(text_dataset(path).config, seed=seed, **given)


def text_dataset(path, **settings):
    return load_dataset(TextConfig(path=str(path), **settings))


def lstm_run(path, seed=0, tokens="characters", vocabulary_size=0, **settings):
    """A tiny LSTM on a text file, with the checksum of the file."""
    sizes = {"embedding": 4, "width": 6, "context": 8}
    protocol = {"epochs": 2, "batch_size": 4, "optimizer": "sgd", "learning_rate": 0.5, "momentum": 0.9}
    given = {"kind": "lstm_lm", **sizes, **protocol, "gradient_clip": 0.5, **settings}
    return run_config(text_dataset(path, tokens=tokens, vocabulary_size=vocabulary_size).config, seed=seed, **given)


def random_model(vocabulary_size=7, score="idw", **settings):
    config = parse_model({"kind": "transformer_lm", **SMALL, "depth": 2, **settings, "method": score})
    return randomise(LanguageModel(config, vocabulary_size)).eval()
