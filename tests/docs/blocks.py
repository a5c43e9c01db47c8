"""The code blocks of README.md, CONTRIBUTING.md and docs/."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md") if "gallery" not in path.parts),
)


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its fence, from 1."""

    page: str
    line: int
    language: str
    text: str

    def commands(self):
        """The command lines of a block of a shell, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line.strip() for line in lines if shlex.split(line, comments=True)]

    def outputs(self):
        """Of a block of a console the lines below each command."""
        return [part.splitlines()[1:] for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]]


def page_text(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page, language=None):
    text = page_text(page)
    matches = re.finditer(r"^```([^\n`]*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    blocks = [Block(page, text[: match.start()].count("\n") + 1, match[1], match[2]) for match in matches]
    return [block for block in blocks if language in (None, block.language)]
