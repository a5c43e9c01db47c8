"""Loading of data sets by their settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from idwbench.data.dataset import Dataset
from idwbench.data.files import load_csv, load_npz
from idwbench.data.folder import data_folder, resolve_files
from idwbench.data.images import ARCHIVES, load_images, load_parts
from idwbench.data.preparation import RawData, prepare
from idwbench.data.sequences import SEQUENCE_TASKS, load_sequences
from idwbench.data.synthetic import GENERATORS, TABLES, drawn_numbers, load_lookup, load_synthetic, load_table
from idwbench.data.text import load_aesop, load_text, load_wikitext_2
from idwbench.errors import DatasetError
from idwbench.machine import check_memory
from idwbench.runs.dataset_base import DatasetConfig, FileConfig, SequencePairsConfig
from idwbench.runs.datasets import LookupConfig, dataset_label

__all__ = ["LOADERS", "check_size", "load_dataset"]

# A number is drawn in float64, and kept while it is scaled and stored in float32.
_BYTES_OF_A_NUMBER = 16

# By the name of the data set; called with the settings and the data folder.
LOADERS: dict[str, Callable[[Any, Path], RawData]] = {
    **dict.fromkeys(GENERATORS, load_synthetic),
    **dict.fromkeys(TABLES, load_table),
    **dict.fromkeys(ARCHIVES, load_images),
    "joint": load_parts,
    "sequence": load_parts,
    "lookup": load_lookup,
    "npz": load_npz,
    "csv": load_csv,
    "text": load_text,
    "aesop": load_aesop,
    "wikitext_2": load_wikitext_2,
    **dict.fromkeys(SEQUENCE_TASKS, load_sequences),
}


def check_size(config: DatasetConfig) -> None:
    """Check that a data set that is drawn fits into memory; raises `DatasetError` at the setting that needs most."""
    numbers: dict[str, int] = {}
    if isinstance(config, LookupConfig):  # a key and a value for each item and query
        sizes = {"items": config.items, "queries": config.queries, "validation": config.validation}
        numbers = {name: 2 * size * config.dimensions for name, size in sizes.items()}
    elif isinstance(config, SequencePairsConfig):
        length = max(config.longest, config.longest_holdout)
        sizes = {"train_size": config.train_size, "test_size": config.test_size, "holdout_size": config.holdout_size}
        numbers = {name: 2 * size * length for name, size in sizes.items()}
    elif config.name in GENERATORS:
        numbers = drawn_numbers(config)
    if numbers:
        setting = max(numbers, key=lambda name: numbers[name])
        needed = _BYTES_OF_A_NUMBER * sum(numbers.values())
        check_memory(needed, f"the data set {config.name}", DatasetError, (setting,))


def load_dataset(config: DatasetConfig, data_dir: Path | None = None) -> Dataset:
    """Return a data set; it is read or drawn at each call.

    Args:
        config: Its settings; a relative path starts at the working directory.
        data_dir: Folder of the archives; see `data_folder` for the default.

    Raises:
        DatasetError: data is missing, altered, not of the expected form, or does not fit into memory.
    """
    resolved = resolve_files(config, Path.cwd())
    check_size(resolved)
    if resolved.name not in LOADERS:
        raise DatasetError("the data set of the prototypes is not known")
    try:
        return prepare(resolved, LOADERS[resolved.name](resolved, data_folder(data_dir)))
    except MemoryError:
        raise DatasetError(f"the data set {dataset_label(resolved)} does not fit into memory") from None
    except DatasetError as error:
        if not isinstance(resolved, FileConfig) or error.file is not None:
            raise
        raise DatasetError(error.problem, location=error.location, hint=error.hint, file=resolved.path) from None
