import hashlib
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from idwbench.data.folder import data_folder, resolve_files
from idwbench.errors import DatasetError
from idwbench.runs.datasets import CsvConfig, DigitsConfig, NpzConfig


def test_the_data_folder_is_the_argument_before_the_variable_before_the_platforms_cache(monkeypatch, tmp_path):
    assert data_folder() == user_cache_path("idwbench")
    monkeypatch.setenv("IDWBENCH_DATA", "")
    assert data_folder() == user_cache_path("idwbench")
    monkeypatch.setenv("IDWBENCH_DATA", str(tmp_path / "named"))
    assert data_folder() == tmp_path / "named"
    assert data_folder(tmp_path / "given") == tmp_path / "given"


def test_a_relative_data_folder_begins_at_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert data_folder(Path("here")) == tmp_path / "here"


@pytest.mark.parametrize("config", [NpzConfig(path="x.bin"), CsvConfig(path="../sub/x.bin", label="y")])
def test_a_file_is_found_from_the_base_and_known_by_its_content(config, tmp_path):
    base = tmp_path / "sub"
    base.mkdir()
    (base / "x.bin").write_bytes(b"content")
    found = resolve_files(config, base)
    assert found.path == str(base / "x.bin")
    assert found.sha256 == hashlib.sha256(b"content").hexdigest()
    assert resolve_files(found, tmp_path) == found
    assert found.model_copy(update={"path": config.path, "sha256": None}) == config


def test_an_absolute_path_stays(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"")
    assert resolve_files(NpzConfig(path=str(tmp_path / "x.npz")), Path("/")).path == str(tmp_path / "x.npz")


def test_other_data_sets_are_unchanged(tmp_path):
    config = DigitsConfig(seed=3)
    assert resolve_files(config, tmp_path) is config


def test_a_changed_file_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"content")
    config = resolve_files(NpzConfig(path="x.npz"), tmp_path)
    (tmp_path / "x.npz").write_bytes(b"other content")
    with pytest.raises(DatasetError, match=r"x\.npz: has changed: its SHA-256 begins with [0-9a-f]{12}, expected"):
        resolve_files(config, tmp_path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(DatasetError, match=r"x\.npz: no such file$"):
        resolve_files(NpzConfig(path="x.npz"), tmp_path)
    (tmp_path / "x.npz").mkdir()
    with pytest.raises(DatasetError, match=r"x\.npz: is a folder, expected a file$"):
        resolve_files(NpzConfig(path="x.npz"), tmp_path)
