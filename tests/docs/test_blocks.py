"""Every code block of README.md, CONTRIBUTING.md and docs/ is run, or checked as `pages.py` says.

The blocks of a page are run in order, in one folder, and those of Python in one namespace. Commands of idwbench run in
this process; those that take minutes are only parsed. A sweep in a block is planned, and saved under its name. Pages
that train are marked `slow`.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from blocks import PAGES, ROOT, Block, blocks_of, page_text
from pages import (
    COMPILED,
    ELSEWHERE,
    FILES,
    HOLDS,
    NOT_CODE,
    PARSED,
    PREPARED,
    PROGRAMS,
    SHORTER,
    SHOWN,
    SMALLER,
)
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.sweep.shipped import shipped_sweeps, sweep_path
from idwbench.sweep.spec import plan, read_sweep

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
SHELLS, QUICK = ("sh", "console"), {"CONTRIBUTING.md", "docs/cluster.md", "docs/index.md", "docs/layers.md"}


def is_run(page: str, command: str) -> bool:
    return not any(page == one and command.startswith(prefix) for one, prefix in PARSED)


def trains(page: str) -> bool:
    languages = {block.language for block in blocks_of(page)}
    return page not in QUICK and bool(languages & {"python", *SHELLS})


PARAMETERS = [
    pytest.param(page, id=page, marks=pytest.mark.slow if trains(page) else ())
    for page in PAGES
    if {block.language.split(" ")[0] for block in blocks_of(page)} - NOT_CODE
]


@pytest.mark.parametrize("page", PARAMETERS)
def test_the_blocks_of_the_page_run_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # a program finds the modules beside it
    monkeypatch.delenv("IDWBENCH_DB", raising=False)
    known = dict(shipped_sweeps())
    names: dict[str, Any] = {"__name__": "docs"}
    printed: list[str] = []
    try:
        PREPARED.get(page, lambda: None)()
        capsys.readouterr()
        for block in blocks_of(page):
            printed += run_block(block, names)
            printed += capsys.readouterr().out.splitlines()
    finally:
        shipped_sweeps().update(known)
    assert {*FILES.get(page, ())} <= {path.name for path in tmp_path.iterdir()}
    words = {" ".join(line.split()) for line in printed}
    for line in "".join(block.text for block in blocks_of(page, "text")).splitlines():
        if any(word in line for word in SHOWN.get(page, ())):
            assert " ".join(line.split()) in words
    for expression in HOLDS.get(page, ()):
        context = {"np": np, "Path": Path} | names | {"printed": printed, "words": words, "output": "\n".join(printed)}
        assert eval(expression, context), expression


def run_block(block: Block, names: dict[str, Any]) -> list[str]:
    """Run or check a block, and return what its commands printed."""
    printed: list[str] = []
    if block.language == "python":
        run_python(block, names)
    elif block.language == "yaml":
        path = saved(block)
        spec = read_sweep(path)
        assert spec.sampler is not None or plan(spec), f"{block.page}:{block.line}"
        for long, short in SMALLER.get(block.page, ()):
            assert long in block.text, (block.page, long)
            path.write_text(path.read_text(encoding="utf-8").replace(long, short), encoding="utf-8")
    elif block.language in SHELLS:
        outputs = block.outputs() if block.language == "console" else []
        for number, command in enumerate(block.commands()):
            lines = run_command(block.page, command)
            printed += lines
            expected = {masked(line) for line in outputs[number]} if outputs and lines else set()
            assert expected <= {masked(line) for line in lines}, f"{block.page}:{block.line}: {command}"
    else:
        known = block.language.split(" ")[0] in NOT_CODE
        assert known, f"{block.page}:{block.line}: which language is '{block.language}'?"
    return printed


def run_python(block: Block, names: dict[str, Any]) -> None:
    """Run a block as a file, since the source of a registered score is part of the keys of its runs."""
    same = blocks_of(block.page, "python")
    path = Path(f"block_{block.line}.py").absolute()
    path.write_text(block.text, encoding="utf-8")
    code = compile(block.text, str(path), "exec")
    if (block.page, same.index(block)) not in COMPILED and block.page not in ELSEWHERE:
        exec(code, names)


def saved(block: Block) -> Path:
    name = re.search(r"^name: (\w+)$", block.text, flags=re.MULTILINE)
    assert name is not None, f"{block.page}:{block.line}: a sweep without a name"
    path = Path(f"{name[1]}.yaml")
    path.write_text(block.text, encoding="utf-8")
    return path


def run_command(page: str, command: str) -> list[str]:
    """Run or check one command, and return what it printed."""
    program, *words = shlex.split(command, comments=True)
    if program == "make":
        assert words[0] in TARGETS
    elif program == "pip":
        extra = re.fullmatch(r"(idwbench|\.)(?:\[(\w+)\])?", words[-1])
        assert words[0] == "install" and extra is not None and extra[2] in (None, *EXTRAS)
    elif program != "idwbench":
        assert any(command.startswith(prefix) for prefix in PROGRAMS), f"{page}: {command}"
    elif not is_run(page, command):
        parse(words)
    else:
        extra = [options for (one, prefix), options in SHORTER.items() if one == page and command.startswith(prefix)]
        result = CliRunner().invoke(app, [*words, *chain.from_iterable(extra)])
        assert result.exit_code == 0, f"{page}: {command}\n{result.output}"
        return result.stdout.splitlines()
    return []


def parse(words: list[str]) -> None:
    """Fail unless the command line accepts the words, and has the sweep that they name."""
    command: Any = typer.main.get_command(app)
    if words[0].startswith("--"):
        assert words[0] in {option for one in command.params for option in one.opts}
        return
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    context = command.make_context(command.name, list(words))
    if command.name == "sweep" and context.params["file"] != "FILE":
        file = context.params["file"]
        assert (ROOT / file if "/" in file else sweep_path(file)).is_file(), file


def masked(line: str) -> str:
    """The line with its numbers masked: their digits differ between processors."""
    return " ".join(re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", line).split())


def test_every_treatment_is_needed():
    commands = [
        (page, command)
        for page in PAGES
        for block in blocks_of(page)
        if block.language in SHELLS
        for command in block.commands()
    ]
    for page, prefix in [*PARSED, *SHORTER]:
        assert any(page == one and command.startswith(prefix) for one, command in commands), (page, prefix)
    for prefix in PROGRAMS:
        assert any(command.startswith(prefix) for _, command in commands), prefix
    for page, number in COMPILED:
        assert number < len(blocks_of(page, "python"))
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


def test_commands_in_the_text_have_only_options_that_exist():
    """Of commands in a sentence or an indented block, such as `idwbench runs list --state failed`."""
    group: Any = typer.main.get_command(app)
    found: list[tuple[str, str]] = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page_text(page), flags=re.DOTALL | re.MULTILINE)
        lines = [*re.findall(r"`idwbench ([^`&]+)", text), *re.findall(r"^    idwbench (.+)$", text, re.MULTILINE)]
        found += [(page, line) for line in lines]
    for page, line in found:
        command, words = group, line.split()
        while words and hasattr(command, "commands") and words[0] in command.commands:
            command, words = command.commands[words[0]], words[1:]
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
        used = {word.split("=")[0].rstrip(".,") for word in words if word.startswith("--")}
        assert used <= known, f"{page}: idwbench {line}"
