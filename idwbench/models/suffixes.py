"""The suffixes of model files; does not load torch."""

from __future__ import annotations

from pathlib import Path

from idwbench.errors import ModelFileError

__all__ = ["MODEL_SUFFIXES", "check_model_path"]

MODEL_SUFFIXES = (".pt", ".safetensors")


def check_model_path(path: Path) -> None:
    """Raise `ModelFileError` unless `path` has the suffix of a model file."""
    if path.suffix not in MODEL_SUFFIXES:
        raise ModelFileError(f"expected a name ending in {' or '.join(MODEL_SUFFIXES)}", file=path)
