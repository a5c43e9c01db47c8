"""What the package promises of itself: names, light imports, errors without options, and few places to touch."""

import ast
import functools
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from case_tables import case_table

import idwbench
from idwbench.cli.app import COMMANDS, RUNS

PACKAGE = Path(idwbench.__file__).parent
FILES = [*PACKAGE.rglob("*.py")]
# Building blocks of one module that others have no use for.
INTERNAL = {"idwbench.cli.app": {"options"}}


@functools.cache
def nodes(path):
    """Return all nodes of a file's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def order(word):
    """Constants, classes, functions: as the linter sorts `__all__`."""
    return (0 if word.isupper() else 1 if word[:1].isupper() else 2, word)


def test_each_module_declares_what_is_public_and_documents_it():
    for path in FILES:
        if path.stem in ("__init__", "__main__"):
            continue
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        module = importlib.import_module(name)
        is_own = {
            word: member
            for word, member in vars(module).items()
            if (inspect.isclass(member) or inspect.isfunction(member)) and member.__module__ == name
        }
        assert list(module.__all__) == sorted(module.__all__, key=order), name
        assert all(hasattr(module, word) for word in module.__all__), name
        public = {word for word in is_own if not word.startswith("_")}
        assert public - set(module.__all__) <= INTERNAL.get(name, set()), name
        assert not [word for word in set(module.__all__) & is_own.keys() if not inspect.getdoc(is_own[word])], name


STRUCTURE = case_table("structure")
PROGRAM = """
import json, sys
for statement, forbidden in json.loads(sys.argv[1]):
    exec(statement)
    print([name for name in forbidden.split() if name in sys.modules])
"""


@pytest.mark.slow
def test_a_room_loads_no_more_than_it_needs_and_a_use_neither(tmp_path):
    for statements in STRUCTURE["loads"].values():
        program = [sys.executable, "-c", PROGRAM, json.dumps(statements)]
        result = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert result.stdout.splitlines() == ["[]"] * len(statements), statements


def test_the_public_names_are_loaded_when_used_and_hide_no_subpackage():
    assert dir(idwbench) == sorted([*idwbench.__all__, "__version__"])
    for name in idwbench.__all__:
        assert callable(getattr(idwbench, name))
    packages = {module.name for module in pkgutil.iter_modules(idwbench.__path__)}
    assert not packages & set(idwbench.__all__)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        idwbench.trian  # noqa: B018


def test_no_message_of_the_library_names_an_option_and_only_one_file_prints_and_none_imports_torchvision():
    option = re.compile(r"(?<![-\w])--[a-z]")
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] != "cli":
            texts = [node.value for node in nodes(path) if isinstance(node, ast.Constant)]
            texts = [text for text in texts if isinstance(text, str) and not text.startswith("--")]
            assert not [text for text in texts if option.search(text)], path
    for text, files in {"import torchvision": [], "typer.echo(": [PACKAGE / "cli/output.py"]}.items():
        assert [path for path in FILES if text in path.read_text(encoding="utf-8")] == files


# How many files a newcomer touches to add one thing: those named after the last one of its kind or mentioning it.


@functools.cache
def words(path):
    """Names, attributes and strings of a file's code, without docstrings and comments."""
    docstrings = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    texts = []
    for node in nodes(path):
        match node:
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.keyword(arg=text) | ast.arg(arg=text):
                texts.append(str(text))
            case ast.alias(name=text) | ast.Constant(value=str(text)) if id(node) not in docstrings:
                texts.append(text)
    return set(re.findall(r"\w+", " ".join(texts)))


def mentioning(word):
    return {path.relative_to(PACKAGE).as_posix() for path in FILES if word in {path.stem, *words(path)}}


@pytest.mark.parametrize(("kind", "word", "files"), STRUCTURE["touched"])
def test_the_files_to_touch_are_those_of_the_design_page(kind, word, files):
    assert mentioning(word) - {*STRUCTURE["published"]} == {*files}, kind


def test_a_command_is_a_function_and_its_name_in_the_application():
    assert {file for file in mentioning("sweep") if file.startswith("cli/")} >= {"cli/sweep.py", "cli/app.py"}
    places = [place.split(".") for place in (COMMANDS | RUNS).values() if " " not in place]
    assert all(f"\ndef {function}(" in (PACKAGE / f"cli/{module}.py").read_text() for module, function in places)
