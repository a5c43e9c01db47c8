"""A user's own method: from a file, from a package, from a notebook; and every way that it can go wrong."""

import hashlib
import re
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import torch
from case_tables import case_table
from engine_runs import train_run, train_runs

from idwbench import SelfAttention
from idwbench.attention.scores import METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, PluginError
from idwbench.plugins import RESERVED_NAMES, load_entry_points, load_plugin, load_project_plugins, register
from idwbench.runs.config import RunConfig, run_config
from idwbench.runs.datasets import DATASETS
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.protocol import Protocol
from idwbench.training.engine import stack_key

METHODS_DOC = Path(__file__).parents[2] / "docs/methods.md"

GOOD = """
from idwbench.plugins import register

@register("half_dot", parameters={"sharpness": 2, "norm": ("l1", "l2")})
def half_dot(inputs, keys, *, sharpness, norm):
    return inputs @ keys.mT * sharpness / 2
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "my_scores.py"
    file.write_text(text, encoding="utf-8")
    return file


def run_of(method: str) -> RunConfig:
    return run_config("two_moons", method=method, prototypes=2)


@pytest.mark.slow
def test_the_example_in_the_docs_is_ten_lines_and_right_and_trains(tmp_path):
    example = re.search(r"```python\n([^`]*@register.*?)```", METHODS_DOC.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    assert len([line for line in example[1].splitlines() if line]) <= 10
    assert load_plugin(write(tmp_path, example[1])) == ["manhattan"]

    generator = np.random.default_rng(0)
    inputs, keys = generator.normal(size=(3, 5, 4)), generator.normal(size=(3, 2, 4))
    temperature = np.array([1.0, 0.5, 3.0])[:, None, None]
    tensors = map(torch.from_numpy, (inputs, keys))
    scores = METHODS["manhattan"].score(*tensors, temperature=torch.from_numpy(temperature))
    expected = -np.abs(inputs[:, :, None] - keys[:, None]).sum(-1) / temperature
    np.testing.assert_allclose(scores.numpy(), expected, rtol=1e-12)
    settings = {"method": "manhattan", "prototypes": 16, "epochs": 2}
    runs = [run_config("two_moons", temperature=0.3, seed=seed, **settings) for seed in (0, 1)]
    dataset = load_dataset(runs[0].dataset)
    for config, result in zip(runs, train_runs(runs, dataset, engine="torch"), strict=True):
        first, second = (point.values["train", "loss"] for point in result.curve)
        assert result.state == "complete" and second < first
        assert result.arrays["keys"].tobytes() == train_run(config, dataset).arrays["keys"].tobytes()
    # A function may compute with 0.3 in float64, but with the parameters of several runs in float32.
    assert stack_key(runs[0]) != stack_key(run_config("two_moons", temperature=1.0, **settings))
    layer = SelfAttention(4, 2, "manhattan", batch_first=True, dtype=torch.float64)
    with_weights, without = (layer(torch.from_numpy(inputs), need_weights=need)[0] for need in (True, False))
    torch.testing.assert_close(with_weights, without)


def test_a_plugins_checksum_is_part_of_the_run_key(tmp_path):
    file = write(tmp_path, GOOD)
    assert load_plugin(file) == ["half_dot"]
    first = run_of("half_dot")
    assert first.model.plugin_sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert first.model.parameters == {"sharpness": 2.0, "norm": "l1"}
    # The same file again: the new content takes its place. Version 0.1 had another initialisation.
    load_plugin(write(tmp_path, GOOD.replace('"half_dot", ', '"half_dot", initialisation="data", ')))
    assert run_of("half_dot").run_key != first.run_key and METHODS["half_dot"].initialisation == "mean"
    assert run_config("two_moons", method="half_dot", norm="l2").model.parameters["norm"] == "l2"
    with pytest.raises(ConfigError, match=r"^norm: 'l3' is not valid \(expected one of: l1, l2\)$"):
        run_config("two_moons", method="half_dot", norm="l3")


def test_a_score_registered_outside_a_plugin_has_a_checksum_too():
    @register("zero", formula="0", weighting="relu", initialisation="kaiming")
    def zero(inputs: object, keys: object) -> int:
        return 0

    method = METHODS["zero"]
    assert method.sha256 == hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    assert (method.formula, method.weighting, method.initialisation) == ("0", "relu", "kaiming")
    assert zero(None, None) == 0


# What is written in place of a part of the good plugin, or of all of it, and the problem.


@pytest.mark.parametrize(("part", "text", "expected"), case_table("wrong_inputs")["plugins"])
def test_a_bad_plugin_is_one_line_and_registers_nothing(tmp_path, part, text, expected):
    before = dict(METHODS)
    file = write(tmp_path, GOOD.replace(part or GOOD, text))
    with pytest.raises(PluginError) as caught:
        load_plugin(file)
    assert str(caught.value) == f"{file}{expected}"
    assert before == METHODS


def test_what_is_no_python_file_or_takes_the_name_of_another_plugin_is_one_line(tmp_path):
    load_plugin(write(tmp_path, GOOD))
    (tmp_path / "zero.py").write_bytes(b"\x00\x01")
    (tmp_path / "latin.py").write_bytes(b"x = '\xff'\n")
    (tmp_path / "other.py").write_text(GOOD + "# other\n", encoding="utf-8")
    problems = {"no.py": "no such file", ".": "is a folder, expected a file", "zero.py": "Error", "latin.py": "Error"}
    problems["other.py"] = "the name 'half_dot' is taken by a method of another plugin"
    for name, problem in problems.items():
        with pytest.raises(PluginError, match=f"{problem}.*$") as caught:
            load_plugin(tmp_path / name)
        assert len(str(caught.value).splitlines()) == 1


def test_reserved_names_cover_what_a_run_and_a_protocol_use():
    used = {*RunConfig.model_fields, *Protocol.model_fields, *PrototypesConfig.model_fields}
    assert used <= RESERVED_NAMES
    of_methods = {parameter.name for method in METHODS.values() for parameter in method.parameters}
    assert not RESERVED_NAMES & of_methods
    assert not of_methods & {parameter.name for one in WEIGHTINGS.values() for parameter in one.parameters}
    assert not RESERVED_NAMES & set(DATASETS)


def test_the_plugins_of_a_project_are_those_of_the_nearest_pyproject_or_one_line(tmp_path):
    (tmp_path / "inner" / "deep").mkdir(parents=True)
    write(tmp_path, GOOD)
    project, folder = tmp_path / "pyproject.toml", tmp_path / "inner" / "deep"
    project.write_text('[tool.idwbench]\nplugins = ["my_scores.py"]\n', encoding="utf-8")
    assert load_project_plugins(folder) == ["half_dot"]
    for text, problem in (
        ('plugins = "my_scores.py"', "tool.idwbench.plugins: expected a list of paths, got 'my_scores.py'"),
        ("plugins = [", "TOMLDecodeError: "),
    ):
        project.write_text(f"[tool.idwbench]\n{text}\n", encoding="utf-8")
        with pytest.raises(PluginError, match=re.escape(f"{project}: {problem}")):
            load_project_plugins(folder)
    (folder / "pyproject.toml").touch()
    assert load_project_plugins(folder) == []


def test_an_installed_package_brings_its_method_or_is_one_line(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def load(module: str, text: str) -> list[str]:
        (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
        point = EntryPoint("half_dot", module, "idwbench.attention.scores")
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
        return load_entry_points()

    assert load("package_one", GOOD) == load_entry_points() == ["half_dot"]
    assert METHODS["half_dot"].sha256 == hashlib.sha256(GOOD.encode()).hexdigest()
    for module, text, problem in (
        ("package_two", "raise RuntimeError('no')", "RuntimeError: no"),
        ("package_three", "x = 1", "the module registers no method 'half_dot'"),
    ):
        METHODS.pop("half_dot", None)
        with pytest.raises(PluginError) as caught:
            load(module, text)
        assert str(caught.value) == f"entry point 'half_dot = {module}': {problem}"
