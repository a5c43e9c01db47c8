"""Every code block of README.md, CONTRIBUTING.md and docs/ is run, or checked as `pages.yaml` says.

The blocks of a page are run in order and folder, and Python blocks in one namespace. Commands of idwbench run in this
process; those that take minutes are only parsed. A sweep in a block is planned, and saved under its name. Pages that
train are marked `slow`.
"""

import re
import shlex
import tomllib
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import typer.main
from blocks import PAGES, ROOT, blocks_of, page_text
from ruamel.yaml import YAML
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.spec import plan, read_sweep, shipped_sweeps, sweep_path

SPECIAL = YAML(typ="safe").load(Path(__file__).with_name("pages.yaml"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
SHELLS, QUICK = ("sh", "console"), {"CONTRIBUTING.md", "docs/cluster.md", "docs/index.md", "docs/layers.md"}


# The reference of commands is compared with them by tests/cli/test_output.py.
WRITTEN = [page for page in PAGES if page != "docs/cli.md"]
NOT_CODE = {*SPECIAL["not_code"]}
LANGUAGES = {page: {block.language.split(" ")[0] for block in blocks_of(page)} - NOT_CODE for page in WRITTEN}
PARAMETERS = [
    pytest.param(page, id=page, marks=() if page in QUICK or languages == {"yaml"} else pytest.mark.slow)
    for page, languages in LANGUAGES.items()
    if languages
]


# What the blocks of a page find in their folder before the first is run.


def sweep(name, dataset, grid, db="results/idwbench.db", protocol="{epochs: 1}"):
    """Train a small sweep under the name of a long one."""
    path = Path(f"small_{name}.yaml")
    path.write_text(f"name: {name}\ndataset: {dataset}\nprotocol: {protocol}\nseeds: 1\ngrid: {grid}\n")
    run_sweep(path, db, jobs=1)
    path.unlink()


def tutorial():
    """Shorten the shipped sweep to one seed."""
    text = (ROOT / "sweeps/two_moons.yaml").read_text(encoding="utf-8")
    Path("two_moons.yaml").write_text(text.replace("seeds: 10", "seeds: 1"), encoding="utf-8")
    shipped_sweeps()["two_moons"] = Path("two_moons.yaml").absolute()


def patching():
    [rows] = blocks_of("docs/patching.md", "csv")
    Path("patches.csv").write_text(rows.text, encoding="utf-8")


PREPARED = {"docs/patching.md": patching, "docs/tutorial.md": tutorial}


@pytest.mark.parametrize("page", PARAMETERS)
def test_the_blocks_of_the_page_run_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # a program finds the modules beside it
    monkeypatch.delenv("IDWBENCH_DB", raising=False)
    monkeypatch.setitem(shipped_sweeps(), "two_moons", shipped_sweeps()["two_moons"])  # the tutorial shortens it
    names = {"__name__": "docs"}
    printed = []
    PREPARED.get(page, lambda: None)()
    for name, source in SPECIAL["files"].get(page, {}).items():
        Path(name).write_bytes((ROOT / source).read_bytes())
    for settings in SPECIAL["sweeps"].get(page, ()):
        sweep(**settings)
    capsys.readouterr()
    for block in blocks_of(page):
        printed += run_block(block, names)
        printed += capsys.readouterr().out.splitlines()
    words = {" ".join(line.split()) for line in printed}
    for line in "".join(block.text for block in blocks_of(page, "text")).splitlines():
        if any(word in line for word in SPECIAL["shown"].get(page, ())):
            assert " ".join(line.split()) in words
    for expression in SPECIAL["holds"].get(page, ()):
        context = {"np": np, "Path": Path} | names | {"printed": printed, "words": words, "output": "\n".join(printed)}
        assert eval(expression, context), expression


def run_block(block, names):
    """Run or check a block, and return what its commands printed; one that begins with a file's name is that file."""
    printed = []
    if name := re.match(r"# (\w+\.\w+)\n", block.text):
        Path(name[1]).write_text(block.text, encoding="utf-8")
    elif block.language == "python":
        run_python(block, names)
    elif block.language == "yaml":
        path = Path(re.findall(r"^name: (\w+)$", block.text, flags=re.MULTILINE)[0]).with_suffix(".yaml")
        path.write_text(block.text, encoding="utf-8")
        spec = read_sweep(path)
        assert spec.sampler is not None or plan(spec), f"{block.page}:{block.line}"
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


def run_python(block, names):
    """Run a block as a file, since the source of a registered score is part of the keys of its runs."""
    path = Path(f"block_{block.line}.py").absolute()
    path.write_text(block.text, encoding="utf-8")
    code = compile(block.text, str(path), "exec")
    if block.page not in SPECIAL["compiled"]:
        exec(code, names)


def run_command(page, command):
    """Run or check one command, and return what it printed."""
    program, *words = shlex.split(command, comments=True)
    if program == "make":
        assert words[0] in TARGETS
    elif program == "pip":
        extra = re.fullmatch(r"(idwbench|\.)(?:\[(\w+)\])?", words[-1])
        assert words[0] == "install" and extra is not None and extra[2] in (None, *EXTRAS)
    elif program != "idwbench":
        assert any(command.startswith(prefix) for prefix in SPECIAL["programs"]), f"{page}: {command}"
    elif any(map(command.startswith, SPECIAL["parsed"].get(page, ()))):
        parse(words)
    else:
        shorter = SPECIAL["shorter"].get(page, {})
        extra = [options for prefix, options in shorter.items() if command.startswith(prefix)]
        result = CliRunner().invoke(app, [*words, *chain.from_iterable(extra)])
        assert result.exit_code == 0, f"{page}: {command}\n{result.output}"
        return result.output.splitlines()
    return []


def parse(words):
    """Fail unless the command line accepts the words, and has the sweep that they name."""
    command = typer.main.get_command(app)
    if words[0].startswith("--"):
        assert words[0] in {option for one in command.params for option in one.opts}
        return
    while hasattr(command, "commands"):
        command, words = command.get_command(None, words[0]), words[1:]
    context = command.make_context(command.name, list(words))
    if command.name == "sweep" and context.params["file"] != "FILE":
        file = context.params["file"]
        assert (ROOT / file if "/" in file else sweep_path(file)).is_file(), file


def masked(line):
    """The line with its numbers masked: their digits differ between processors."""
    return " ".join(re.sub(r"[-+]?\d[\d.,]*(e[-+]?\d+)?", "#", line).split())


def test_commands_in_the_text_have_only_options_that_exist():
    """Of commands in a sentence or an indented block, such as `idwbench runs list --state failed`."""
    group = typer.main.get_command(app)
    text = re.sub(r"^```.*?^```$", "", "\n".join(map(page_text, PAGES)), flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r"(?:`|^    )idwbench ([^`&\n]+)", text, flags=re.MULTILINE):
        command, words = group, line.split()
        while words and hasattr(command, "commands") and words[0] in command.list_commands(None):
            command, words = command.get_command(None, words[0]), words[1:]
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
        used = {word.split("=")[0].rstrip(".,") for word in words if word.startswith("--")}
        assert used <= known, f"idwbench {line}"


def test_the_error_that_the_readme_shows_is_that_of_its_sweep(tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text(blocks_of("README.md", "yaml")[0].text.replace("method: [", "methd: ["))
    message = re.search(r"`scores.yaml:(\d+:\d+: [^`]*)`", page_text("README.md"))
    result = CliRunner().invoke(app, ["sweep", str(broken)])
    assert result.stderr.strip() == f"{broken}:{' '.join(message[1].split())}"


def test_the_sweeps_that_pages_show_and_name_are_shipped(tmp_path):
    path = tmp_path / "perceptrons.yaml"
    path.write_text(blocks_of("docs/dual_form.md", "yaml")[0].text)
    shipped = plan(read_sweep(shipped_sweeps()["dual_form"]))
    assert [run.run_key for run in plan(read_sweep(path))] == [run.run_key for run in shipped]
    named = {name for page in PAGES for name in re.findall(r"\bsweeps/[\w/]+\.yaml", page_text(page))}
    assert {"sweeps/two_moons.yaml", "sweeps/dual_history.yaml"} <= named
    assert named - {"sweeps/x.yaml"} <= {str(path.relative_to(ROOT)) for path in (ROOT / "sweeps").rglob("*.yaml")}
