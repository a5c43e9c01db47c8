"""What the package promises of itself: names, lightness, one place for torchvision."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import idwbench

# Alembic runs these itself, inside a migration.
MODULES = [
    module.name
    for module in pkgutil.walk_packages(idwbench.__path__, "idwbench.")
    if ".migrations" not in module.name and module.name != "idwbench.__main__" and not module.ispkg
]


@pytest.mark.parametrize("name", MODULES)
def test_each_module_declares_what_is_public_and_documents_it(name):
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(module.__all__, key=_order)
    for word in module.__all__:
        member = getattr(module, word)
        if (inspect.isclass(member) or inspect.isfunction(member)) and member.__module__ == name:
            assert inspect.getdoc(member), f"{name}.{word} has no docstring"
    defined = {
        word
        for word, member in vars(module).items()
        if not word.startswith("_")
        and (inspect.isclass(member) or inspect.isfunction(member))
        and member.__module__ == name
    }
    assert defined - set(module.__all__) <= INTERNAL.get(name, set())


# Building blocks of one module that others have no use for.
INTERNAL: dict[str, set[str]] = {
    "idwbench.cli.app": {"OneLineErrors", "options"},
    "idwbench.config": {"FileConfig", "Frozen"},
}


def _order(word: str) -> tuple[int, str]:
    """Constants, classes, functions: as the linter sorts `__all__`."""
    return (0 if word.isupper() else 1 if word[:1].isupper() else 2, word)


@pytest.mark.parametrize(
    ("imports", "forbidden"),
    [
        ("idwbench.scores, idwbench.model", "sqlalchemy typer matplotlib pandas sklearn"),
        ("idwbench.results.store, idwbench.report.tables", "torch matplotlib alembic"),
        ("idwbench.sweep.spec, idwbench.sweep.planner", "torch sqlalchemy matplotlib sklearn"),
        ("idwbench.patching", "sqlalchemy typer matplotlib"),
    ],
)
def test_a_room_loads_no_more_than_it_needs(imports, forbidden):
    program = f"import sys, {imports}; print(*[name for name in {forbidden.split()} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
