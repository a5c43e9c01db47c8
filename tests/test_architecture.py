"""What the package promises of itself: names, light imports, errors without options."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys

import pytest
from sources import PACKAGE, nodes

import idwbench

# Alembic runs these itself, inside a migration.
MODULES = [
    module.name
    for module in pkgutil.walk_packages(idwbench.__path__, "idwbench.")
    if ".migrations" not in module.name and module.name != "idwbench.__main__" and not module.ispkg
]


def test_each_module_declares_what_is_public_and_documents_it():
    for name in MODULES:
        module = importlib.import_module(name)
        own = {
            word: member
            for word, member in vars(module).items()
            if (inspect.isclass(member) or inspect.isfunction(member)) and member.__module__ == name
        }
        assert list(module.__all__) == sorted(module.__all__, key=_order), name
        assert all(hasattr(module, word) for word in module.__all__), name
        public = {word for word in own if not word.startswith("_")}
        assert public - set(module.__all__) <= INTERNAL.get(name, set()), name
        assert not [word for word in set(module.__all__) & own.keys() if not inspect.getdoc(own[word])], name


# Building blocks of one module that others have no use for.
INTERNAL: dict[str, set[str]] = {
    "idwbench.cli.app": {"LazyCommands", "OneLineErrors", "options"},
}


def _order(word: str) -> tuple[int, str]:
    """Constants, classes, functions: as the linter sorts `__all__`."""
    return (0 if word.isupper() else 1 if word[:1].isupper() else 2, word)


# One interpreter imports these in order: what one loads, all after it are allowed too.
ROOMS = [
    ("idwbench", "pydantic numpy torch sqlalchemy typer matplotlib pandas sklearn scipy numba rich"),
    ("idwbench.sweep.spec", "torch sqlalchemy matplotlib sklearn scipy numba pandas"),
    ("idwbench.sweep.execution", "numpy urllib.request torch matplotlib alembic sklearn scipy numba pandas"),
    ("idwbench.results.store", "torch matplotlib alembic sklearn scipy numba pandas safetensors"),
    ("idwbench.attention.weightings, idwbench.models.modules", "typer matplotlib pandas sklearn alembic numba"),
    ("idwbench.models.patching, idwbench.models.saved_model", "typer matplotlib pandas sklearn alembic numba"),
    (
        "idwbench.explanations.explain, idwbench.explanations.training_data",
        "typer matplotlib pandas sklearn alembic numba",
    ),
]
# Reports stand on a table of pandas.
REPORTS = [
    ("idwbench.report.render, idwbench.report.selection", "torch matplotlib alembic sklearn scipy numba safetensors"),
    ("idwbench.claims.verdicts, idwbench.claims.table", "torch matplotlib alembic sklearn scipy numba safetensors"),
]
PROGRAM = """
import importlib, json, sys
for names, forbidden in json.loads(sys.argv[1]):
    for name in names.split(", "):
        importlib.import_module(name)
    print(names, [name for name in forbidden.split() if name in sys.modules])
"""


@pytest.mark.slow
@pytest.mark.parametrize("rooms", [ROOMS, REPORTS], ids=["rooms", "reports"])
def test_a_room_loads_no_more_than_it_needs(rooms):
    program = [sys.executable, "-c", PROGRAM, json.dumps(rooms)]
    result = subprocess.run(program, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == [f"{names} []" for names, _ in rooms]


def test_the_public_names_are_loaded_when_used_and_hide_no_subpackage():
    assert dir(idwbench) == sorted([*idwbench.__all__, "__version__"])
    for name in idwbench.__all__:
        assert callable(getattr(idwbench, name))
    packages = {module.name for module in pkgutil.iter_modules(idwbench.__path__)}
    assert not packages & set(idwbench.__all__)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        idwbench.trian  # noqa: B018


OPTION = re.compile(r"(?<![-\w])--[a-z]")


def test_no_message_of_the_library_names_an_option():
    for path in PACKAGE.rglob("*.py"):
        if path.parts[len(PACKAGE.parts)] == "cli":
            continue
        texts = [node.value for node in nodes(path) if isinstance(node, ast.Constant)]
        named = [text for text in texts if isinstance(text, str) and OPTION.search(text) and not text.startswith("--")]
        assert named == [], path
