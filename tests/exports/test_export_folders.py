from __future__ import annotations

import pytest

from idwbench.errors import OutputError, OutputExistsError
from idwbench.exports.folders import written_folder


def test_nothing_is_written_when_an_export_fails(tmp_path):
    with pytest.raises(ValueError, match="half-way"), written_folder(tmp_path / "out", overwrite=False) as folder:
        (folder / "a").write_text("1")
        raise ValueError("half-way")
    assert list(tmp_path.iterdir()) == []


def test_only_files_and_folders_of_the_same_names_are_replaced(tmp_path):
    target = tmp_path / "out"
    (target / "run").mkdir(parents=True)
    (target / "run" / "old").write_text("1")
    (target / "mine").write_text("2")
    with pytest.raises(OutputExistsError), written_folder(target, overwrite=False):
        pass
    with written_folder(target, overwrite=True) as folder:
        (folder / "run").mkdir()
        (folder / "run" / "new").write_text("3")
    assert {str(path.relative_to(target)) for path in target.rglob("*")} == {"mine", "run", "run/new"}
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "out").mkdir()
    with written_folder(tmp_path / "out", overwrite=False) as folder:
        (folder / "a").write_text("1")
    assert (tmp_path / "out" / "a").read_text() == "1"


def test_a_file_or_a_missing_parent_is_refused(tmp_path):
    (tmp_path / "file").write_text("1")
    for place in (tmp_path / "file", tmp_path / "missing" / "out"):
        with pytest.raises(OutputError), written_folder(place, overwrite=True):
            pass
    assert {path.name for path in tmp_path.iterdir()} == {"file"}
