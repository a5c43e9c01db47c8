"""The sweeps that come with idwbench are found by name and plan what they promise; the page on sweep files is right."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from typed import typed

from idwbench.runs.datasets import DATASETS, CsvConfig, NpzConfig
from idwbench.runs.kinds.models import MODELS
from idwbench.runs.protocol import DEFAULT_PROTOCOLS, Protocol
from idwbench.sweep.spec import plan, read_sweep, shipped_descriptions, shipped_sweeps, sweep_path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/sweeps.md").read_text(encoding="utf-8").split("## Searching beyond a grid")[0]
PROTOTYPES = {"scale": "prototypes"}
# The number of runs of each sweep, and the SHA-256 of sorted run keys: of version 0.1.0, and of the paper.
RUNS, KEYS_OF_0_1_0, KEYS_OF_THE_PAPER = json.loads((ROOT / "tests/assets/shipped_sweeps.json").read_text()).values()
PAPER = sorted(file.stem for file in (ROOT / "sweeps/paper").iterdir())


def test_a_bare_name_is_a_shipped_sweep_even_beside_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("two_moons").write_text("not a sweep")
    assert sweep_path("two_moons") == shipped_sweeps()["two_moons"]
    assert sweep_path("paper_mnist").parent.name == "paper"
    assert sweep_path(Path("two_moons")) == Path("two_moons")
    for path in ("two_moons.yaml", "./two_moons", "folder/two_moons", "two_moons/", "", "a\0b"):
        assert sweep_path(path) == Path(path)
    Path("mine").touch()
    assert sweep_path("mine") == Path("mine")


def test_every_sweep_file_of_the_repository_has_a_name_of_its_own_and_is_listed_with_its_description():
    files = sorted((ROOT / "sweeps").rglob("*.yaml"))
    assert sorted(shipped_sweeps().values()) == files
    assert shipped_sweeps().keys() == RUNS.keys() and len(RUNS) == len(files)
    assert {*KEYS_OF_0_1_0, *KEYS_OF_THE_PAPER} <= RUNS.keys()
    lines = typed("sweep --list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*shipped_sweeps()]
    assert [line.split(None, 1)[1] for line in lines] == [*shipped_descriptions().values()]
    listed = json.loads(typed("sweep --list --json").stdout)
    assert {one["name"]: one["description"] for one in listed} == shipped_descriptions()


@pytest.mark.parametrize(("name", "n_runs"), RUNS.items())
def test_a_shipped_sweep_is_short_plans_what_it_promises_and_has_the_keys_that_were_published(name, n_runs):
    spec = read_sweep(shipped_sweeps()[name])
    assert spec.name == name
    assert spec.description
    runs = plan(spec)
    assert len(runs) == n_runs
    assert 8 <= len(spec.source.splitlines()) <= 25
    # The comment at the top gives the number of runs.
    assert name not in PAPER or f" {n_runs} " in spec.source.split(f"name: {name}")[0]
    # Data, methods, prototypes, protocol and seeds of version 0.1.0 and of the paper are those of the results.
    keys = sorted(run.run_key for run in runs if name != "two_moons" or run.model.parameters != PROTOTYPES)
    checksum = hashlib.sha256("".join(keys).encode()).hexdigest()
    assert {KEYS_OF_0_1_0.get(name, checksum), KEYS_OF_THE_PAPER.get(name, checksum)} == {checksum}


def table(section):
    """Return the cells of the first table of a section, without its header."""
    text = PAGE.split(f"### `{section}`\n", 1)[1]
    rows = re.search(r"^\|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1].splitlines()]


def test_the_docs_list_the_settings_of_every_data_set_with_their_defaults():
    rows = table("dataset")
    assert [row[0].strip("`") for row in rows] == [*DATASETS]
    for (_, task, settings), declared in zip(rows, DATASETS.values(), strict=True):
        fields = {name: field.default for name, field in declared.model_fields.items()}
        either = declared in (NpzConfig, CsvConfig)
        assert task == ("either" if either else fields["task"])
        shared = {"name", "validation", "label_noise", "outliers", "path", "sha256", *([] if either else ["task"])}
        expected = {
            name: "required" if declared.model_fields[name].is_required() else str([] if value == () else value)
            for name, value in fields.items()
            if name not in shared
        }
        assert dict(re.findall(r"`(\w+)` \(([^)]*)\)", settings)) == expected
    assert all(f"`{name}` (0)" in PAGE for name in ("validation", "label_noise", "outliers"))
    assert "`path`" in PAGE and "`sha256`" in PAGE


def test_the_docs_list_the_settings_of_the_protocol_with_their_defaults():
    rows = table("protocol")
    assert [row[0].strip("`") for row in rows] == [*Protocol.model_fields]
    defaults = [DEFAULT_PROTOCOLS[name] for name in ("two_moons", "mnist", "joint", "aesop", "copying", "digits")]
    assert DEFAULT_PROTOCOLS["mnist"] == DEFAULT_PROTOCOLS["fashion_mnist"]
    assert DEFAULT_PROTOCOLS["joint"] == DEFAULT_PROTOCOLS["sequence"]
    assert len({DEFAULT_PROTOCOLS[name] for name in ("copying", "reversing", "transliteration")}) == 1
    assert DEFAULT_PROTOCOLS["aesop"] == DEFAULT_PROTOCOLS["wikitext_2"] == DEFAULT_PROTOCOLS["text"]
    for name, _, *documented in rows:
        assert documented == [str(getattr(protocol, name.strip("`"))) for protocol in defaults]


def test_the_docs_name_every_kind_of_run_and_its_settings():
    section = PAGE.split("## Kinds of runs\n", 1)[1].split("\n## ", 1)[0]
    for kind, settings in MODELS.items():
        assert f"| `{kind}`" in section
        for name in settings.model_fields.keys() - {"parameters", "plugin_sha256"}:
            assert f"`{name}`" in section or f"`{name}: " in section
