"""How many files a newcomer touches to add one thing: those named after the last one of its kind or mentioning it."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest
from sources import PACKAGE, nodes

from idwbench.cli.app import COMMANDS, RUNS


@functools.cache
def words(path: Path) -> set[str]:
    """Names, attributes and strings of a file's code, without docstrings and comments."""
    docstrings = {
        id(node.body[0].value)
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.keyword | ast.arg):
            found.add(str(node.arg))
        elif isinstance(node, ast.alias):
            found.update(node.name.split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            found.update(re.findall(r"\w+", node.value))
    return found


def mentioning(word: str) -> set[str]:
    files = (path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts)
    return {path.relative_to(PACKAGE).as_posix() for path in files if word in {path.stem, *words(path)}}


# What repeats the paper of other authors names their methods and figures too; adding another does not touch it.
PUBLISHED = {
    "report/references.py",
    "claims/formulas.py",
    "figures/weights.py",
    "publications/family.py",
    "publications/paper.py",
    "estimators/drawing.py",  # shows the prototypes of an estimator as that figure does
}


SCORES = {"attention/scores.py", "training/kernels/scores.py"}


@pytest.mark.parametrize(
    ("kind", "word", "files"),
    [
        ("a score with a kernel", "sigma_squared", SCORES),
        ("a metric", "r2", {"runs/metrics.py"}),
        ("a data set", "diabetes", {"runs/datasets.py", "data/synthetic.py"}),
        ("a data set that is drawn", "hastie_10_2", {"runs/datasets.py", "data/synthetic.py"}),
        ("a figure", "draw_keys", {"figures/keys.py"}),
        ("the name of a figure", "keys_nearest", {"figures/keys_nearest.py"}),
    ],
)
def test_the_files_to_touch_are_those_of_the_design_page(kind, word, files):
    assert mentioning(word) - PUBLISHED == files, kind


@pytest.mark.parametrize("option", ["momentum", "weight_decay", "gradient_clip", "warmup_epochs"])
def test_a_protocol_option_is_declared_once_and_used_by_the_engines_alone(option):
    # A recording keeps them, and the history of keys reads them, for their coefficients.
    # Parameters of an estimator are written out, as scikit-learn demands; one more need not be among them.
    of_history = {"training/module_training.py", "training/replay.py", "estimators/prototypes.py"}
    found = {file for file in mentioning(option) if not file.startswith("dual/")} - of_history
    assert "runs/protocol.py" in found
    assert all(file == "runs/protocol.py" or file.startswith("training/") for file in found)
    assert len(found) <= 3


def test_an_optimiser_is_its_name_its_step_in_torch_and_its_loop_in_the_kernels():
    # A recording keeps its name, and coefficients of the dual form and the history of keys have a rule for each family.
    files = {file for file in mentioning("sgd") if not file.startswith("dual/")} - {"training/replay.py"}
    assert files == {"runs/protocol.py", "training/optimizers.py", "training/kernels/updates.py"}


def test_a_command_is_a_function_and_its_name_in_the_application():
    assert {file for file in mentioning("sweep") if file.startswith("cli/")} >= {"cli/sweep.py", "cli/app.py"}
    places = [place.split(".") for place in (*COMMANDS.values(), *RUNS.values())]
    assert all(f"\ndef {function}(" in (PACKAGE / f"cli/{module}.py").read_text() for module, function in places)
