"""WikiText-2 (Merity et al. 2016, arXiv 1609.07843): Wikipedia articles, with rare words replaced by ``<unk>``."""

from pathlib import Path

from idwbench.data.preparation import RawData
from idwbench.data.text import split_text
from idwbench.data.text_files import read_text
from idwbench.runs.datasets import WikiText2Config

__all__ = ["load_wikitext_2"]

TRAIN, TEST = "wikitext-2/valid.txt", "wikitext-2/test.txt"
CHECKSUMS = {
    TRAIN: "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
    TEST: "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
}


def load_wikitext_2(config: WikiText2Config, folder: Path) -> RawData:
    """Return the validation file for training and validation, and the test file; raises like `read_text`.

    The training file is ten times as long, and is not used: results do not compare with published ones.
    """
    train, test = (
        read_text(folder, file, sha256, source="the files of wikitext-2-v1") for file, sha256 in CHECKSUMS.items()
    )
    return split_text(config, train, test)
