"""The commands and examples of the README and the Python page are run unchanged."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.planner import plan
from idwbench.sweep.spec import read_sweep

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands_in(text: str) -> list[list[str]]:
    """The words after `idwbench` of every command in a block of the README."""
    return [shlex.split(line, comments=True)[1:] for line in text.splitlines() if line.startswith("idwbench ")]


@pytest.mark.slow
def test_the_commands_of_the_readme_run_unchanged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweeps").mkdir()
    sweep = (ROOT / "sweeps/two_moons.yaml").read_text()
    (tmp_path / "sweeps/two_moons.yaml").write_text(sweep.replace("seeds: 10", "seeds: 1"))
    commands = commands_in(blocks("sh")[1])
    assert [words[0] for words in commands] == ["train", "sweep", "report", "report", "explain", "runs", "patch"]
    for words in commands:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{words}: {result.output}"
    assert {"model.pt", "moons.png", "patched.pt"} <= {path.name for path in tmp_path.iterdir()}


def test_the_sweep_of_the_readme_can_be_planned(tmp_path):
    path = tmp_path / "powers.yaml"
    path.write_text(blocks("yaml")[0])
    assert len(plan(read_sweep(path))) == 2 * 2 * 3 * 10 + 2 * 10
    broken = tmp_path / "broken.yaml"
    broken.write_text(path.read_text().replace("method: [idw", "methd: [idw"))
    message = re.search(r"`powers.yaml:(\d+:\d+: [^`]*)`", README)
    assert message is not None
    expected = " ".join(message[1].split())
    result = CliRunner().invoke(app, ["sweep", str(broken)])
    assert result.stderr.strip() == f"{broken}:{expected}"


@pytest.mark.slow
def test_the_method_of_the_readme_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [method] = (block for block in blocks("python") if "@register" in block)
    Path("laplace.py").write_text(method)
    command = commands_in(blocks("sh")[-1])[0]
    result = CliRunner().invoke(app, [*command, "--epochs", "1"])
    assert result.exit_code == 0, result.output


@pytest.mark.slow
def test_the_functions_of_the_readme_have_a_result_for_each_query():
    [example] = (block for block in blocks("python") if "kernel_regression" in block)
    lines = example.replace("idwbench.kernel_regression", "estimate = idwbench.kernel_regression")
    names: dict[str, Any] = {}
    exec(lines.replace("idwbench.attend", "answers = idwbench.attend"), names)
    assert names["estimate"].shape == names["answers"].shape == names["y"].shape
    outputs, _ = names["layer"](*[torch.zeros(2, 5, 32)] * 3)
    assert outputs.shape == (2, 5, 32)


def test_the_examples_of_the_python_page_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(examples) >= 8
    for number, example in enumerate(examples):
        path = tmp_path / f"example_{number}.py"  # a file: the source of a registered score is part of its run keys
        path.write_text(example)
        runpy.run_path(str(path))


def test_the_examples_of_the_page_of_layers_run(capsys):
    page = (ROOT / "docs/layers.md").read_text(encoding="utf-8")
    examples = blocks("python", page)
    assert len(examples) >= 3
    for example in examples:
        exec(compile(example, "docs/layers.md", "exec"), {})
    assert capsys.readouterr().out.count("torch.Size") == 6


@pytest.mark.slow
def test_the_examples_of_the_page_of_reports_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/reports.md").read_text(encoding="utf-8")
    Path("rates.yaml").write_text(blocks("yaml", page)[0])
    printed = []
    for words in commands_in("".join(blocks("sh", page))):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{words}: {result.output}"
        printed += [line.rstrip() for line in result.stdout.splitlines()]
    # Digits differ between processors, titles and headers do not.
    for example in blocks("text", page):
        title, _, *header = example.splitlines()[:4]
        assert title in printed
        assert {line for line in header if "test" in line or "types" in line} <= set(printed)
    path = tmp_path / "example.py"
    path.write_text(blocks("python", page)[0])
    runpy.run_path(str(path))


@pytest.mark.slow
def test_the_examples_of_the_page_of_runs_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/runs.md").read_text(encoding="utf-8")
    Path("sizes.yaml").write_text(blocks("yaml", page)[0])
    *commands, remove = commands_in("".join(blocks("sh", page)))
    program = "".join(blocks("python", page)).partition("writable = ")
    printed = []
    for words in commands:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{words}: {result.output}"
        printed += [line.split() for line in result.stdout.splitlines()]
    [heading] = blocks("text", page)
    assert heading.split() in printed
    Path("example.py").write_text(program[0])
    names = runpy.run_path("example.py")
    assert names["replay"].identical and Path("idw.csv").exists()
    assert CliRunner().invoke(app, remove).exit_code == 0
    Path("removal.py").write_text("".join(program[1:]))
    removal = runpy.run_path("removal.py", {"rows": names["rows"], "Results": type(names["results"])})["removal"]
    assert removal.planned == (names["rows"][0].run_key,)


@pytest.mark.slow
def test_the_examples_of_the_patching_page_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/patching.md").read_text(encoding="utf-8")
    found = {language: re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL) for language in ("sh", "csv")}
    Path("patches.csv").write_text(found["csv"][0])
    for words in commands_in("".join(found["sh"])):
        result = CliRunner().invoke(app, [*words, *(["--epochs", "5"] if words[0] == "train" else ["--force"])])
        assert result.exit_code == 0, f"{words}: {result.output}"
    assert Path("restored.pt").read_bytes() == Path("model.pt").read_bytes()
    program = "".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
    Path("example.py").write_text(program)
    names = runpy.run_path("example.py")
    assert [patch.holds for patch in names["patched"].recorded_patches()] == [True] * len(names["patched"].patches)
    assert Path("without.pt").exists()


@pytest.mark.slow
def test_the_examples_of_the_page_of_explanations_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/explain.md").read_text(encoding="utf-8")
    commands = commands_in(blocks("sh", page)[0])
    assert [words[0] for words in commands] == ["train", "explain", "explain"]
    for words in commands:
        result = CliRunner().invoke(app, [*words, *(["--epochs", "3"] if words[0] == "train" else [])])
        assert result.exit_code == 0, f"{words}: {result.output}"
    assert Path("why.png").exists()
    Path("example.py").write_text(blocks("python", page)[0])
    names = runpy.run_path("example.py")
    assert [layer.name for layer in names["explained"].layers] == ["layer_0", "layer_1", "layer_2"]


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_every_link_leads_somewhere(page):
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), f"{page}: {target}"


def test_the_sweeps_that_the_docs_name_are_shipped():
    text = README + (ROOT / "docs/sweeps.md").read_text(encoding="utf-8")
    named = set(re.findall(r"sweeps/(\w+)\.yaml", text)) - {"x"}
    assert {"two_moons", "mnist_quick"} <= named <= {path.stem for path in (ROOT / "sweeps").glob("*.yaml")}


def test_the_examples_of_the_page_of_language_models_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/language_models.md").read_text(encoding="utf-8")
    exec(compile(blocks("python", page)[0], "docs/language_models.md", "exec"), {})
    bits, text, *others = capsys.readouterr().out.splitlines()
    assert 0 < float(bits) < 4 and text
    assert others[-1].endswith("(5, 17)")  # 16 characters and the unknown ones
    Path("my_text.yaml").write_text(blocks("yaml", page)[0])
    assert len(plan(read_sweep(Path("my_text.yaml")))) == 6 * (2 * 2 + 3 * 2)


def test_the_examples_of_the_page_of_lstms_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/lstm.md").read_text(encoding="utf-8")
    exec(compile(blocks("python", page)[0], "docs/lstm.md", "exec"), {})
    perplexity, likely, *layers = capsys.readouterr().out.splitlines()
    assert 1 < float(perplexity) < 2 and likely.startswith("('crow', 0.")
    assert [line.split()[0] for line in layers] == ["lstm.input", "lstm.recurrent", "head"]
    assert "saw [a] crow" in layers[0]
    Path("my_lstm.yaml").write_text(blocks("yaml", page)[0])
    assert len(plan(read_sweep(Path("my_lstm.yaml")))) == 5 * 2


def test_the_sweep_of_the_page_of_perceptrons_is_the_shipped_one(tmp_path):
    page = (ROOT / "docs/mlp.md").read_text(encoding="utf-8")
    Path(tmp_path / "perceptrons.yaml").write_text(blocks("yaml", page)[0])
    shipped = plan(read_sweep(ROOT / "sweeps/dual_form.yaml"))
    assert [run.run_key for run in plan(read_sweep(tmp_path / "perceptrons.yaml"))] == [run.run_key for run in shipped]


def test_the_examples_of_the_page_of_perceptrons_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/mlp.md").read_text(encoding="utf-8")
    for name, record in (("dual_form", False), ("dual_history", True)):
        grid = f"{{kind: mlp, width: 3, record: {str(record).lower()}}}"
        text = f"name: {name}\ndataset: two_moons\nprotocol: {{epochs: 1, optimizer: sgd}}\nseeds: 1\ngrid: {grid}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
        run_sweep(tmp_path / f"{name}.yaml", jobs=1)
    exec(compile("\n".join(blocks("python", page)), "docs/mlp.md", "exec"), {})
    first, *table = capsys.readouterr().out.splitlines()
    assert first == "two_moons 20" and any("| layer_2 |" in line for line in table)
