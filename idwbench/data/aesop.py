"""Aesop's fables in the version of J. H. Stickney (1915), from Project Gutenberg."""

from pathlib import Path

from idwbench.data.preparation import RawData
from idwbench.data.text import cut_text, split_text
from idwbench.data.text_files import read_text
from idwbench.runs.datasets import AesopConfig

__all__ = ["load_aesop"]

FILE = "aesop/49010-0.txt"
SHA256 = "ccc57f278fd84a9ea2193928cca1cbb14b37248c091f9b3edb7bb0b621bf9fc2"
# Left out: title pages and table of contents before, and after it shorter forms of the first fables, the publisher's
# announcements and Project Gutenberg's last line.
_FIRST, _AFTER = "\nINTRODUCTION\n", "\nAPPENDIX\n"


def load_aesop(config: AesopConfig, folder: Path) -> RawData:
    """Return the introduction and the fables; raises like `read_text` and `split_text`."""
    source = "the plain text of https://www.gutenberg.org/ebooks/49010"
    whole = read_text(folder, FILE, SHA256, source=source)
    start = whole.index(_FIRST)
    text = whole[start : whole.index(_AFTER, start)].strip() + "\n"
    return split_text(config, *cut_text(config, text, config.test_fraction))
