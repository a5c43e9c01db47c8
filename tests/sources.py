"""The package's source files as syntax trees, parsed once for all tests that read them."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import idwbench

PACKAGE = Path(idwbench.__file__).parent


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a file's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
