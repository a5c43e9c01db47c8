"""The code blocks of README.md, CONTRIBUTING.md and docs/."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its fence, from 1."""

    page: str
    line: int
    language: str
    text: str

    def commands(self) -> list[str]:
        """The command lines of a block of a shell, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [line.strip() for line in lines if shlex.split(line, comments=True)]

    def outputs(self) -> list[list[str]]:
        """Of a block of a console the lines below each command."""
        found: list[list[str]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append([])
            else:
                found[-1].append(line)
        return found


def page_text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Block]:
    text = page_text(page)
    found = re.finditer(r"^```([^\n`]*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [Block(page, text[: one.start()].count("\n") + 1, one[1], one[2]) for one in found]
