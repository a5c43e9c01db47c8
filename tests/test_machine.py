"""The machine: control characters of a terminal, files and full disks, and memory."""

import errno
import hashlib
import json
import os
import stat
import sys
import unicodedata
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import psutil
import pytest
import torch
from case_tables import case_table
from texts import text_dataset, text_file

from idwbench import machine, run_config
from idwbench.data.dataset import Split
from idwbench.data.loading import load_dataset
from idwbench.errors import ConfigError, OutputError, OutputExistsError, PatchError, printable
from idwbench.files import check_output, file_sha256, full_disk_error, make_folder, read_file, write_file
from idwbench.machine import allocation_problem, check_memory, free_memory
from idwbench.models.scikit_learn import check_data
from idwbench.runs.datasets import parse_dataset
from idwbench.training.selection import check_run_memory


def test_control_characters_are_escaped_writing_is_not_and_json_stays_json():
    controls = "\x1b[31mred\x07\r\0 a\u202eb\u2066 \x7f\x9b\x85\u2028 \ud800 \U000e0041"
    shown = r"\x1b[31mred\x07\r\x00 a\u202eb\u2066 \u007f\u009b\u0085\u2028 \ud800 \udb40\udc41"
    assert printable(controls) == shown
    writing = "p=2, ε=0.001 · ± 1\n\tb می\u200cخواهم\u3000日本\u00a0"
    assert printable(writing) == writing
    characters = map(chr, range(sys.maxunicode + 1))
    odd = "".join(char for char in characters if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs"))
    assert printable(odd, kept="").isprintable()
    passed = printable(odd)
    assert {unicodedata.category(char) for char in passed} & {"Cc", "Cf", "Cs", "Zl", "Zp"} == {"Cc", "Cf"}
    assert {char for char in passed if unicodedata.category(char) in ("Cc", "Cf")} == set("\n\t\u200c\u200d")
    content = {"a": "\x1b\x7f\x9b\u202e\U000e0041 é"}
    assert json.loads(printable(json.dumps(content, ensure_ascii=False))) == content


def test_a_symbolic_link_is_written_through_and_stays(tmp_path):
    (tmp_path / "target").mkdir()
    link, target = tmp_path / "link", tmp_path / "target/file"
    link.symlink_to("target/file")
    write_file(link, b"first")
    write_file(tmp_path / ("long" * 60), b"content")
    assert len([*tmp_path.rglob("*")]) == 4  # nothing is left beside a file
    with pytest.raises(OutputExistsError, match="exists already"):
        write_file(link, b"second")
    write_file(link, b"second", overwrite=True)
    assert link.is_symlink()
    assert target.read_bytes() == b"second"


def test_links_that_lead_nowhere_or_in_a_circle_pipes_devices_and_folders_are_not_replaced(tmp_path):
    (tmp_path / "lost").symlink_to("absent/file")
    (tmp_path / "circle").symlink_to("circle")
    os.mkfifo(tmp_path / "pipe")
    problems = {"lost": "absent does not exist", "circle": "cannot be written", "pipe": "a pipe or", ".": "is a folder"}
    for name, problem in problems.items():
        for write in (check_output, lambda path, overwrite: write_file(path, b"", overwrite=overwrite)):
            with pytest.raises(OutputError, match=problem):
                write(tmp_path / name, overwrite=True)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.fixture
def refuse(monkeypatch):
    """Let a function raise an error."""
    return lambda name, error: monkeypatch.setattr(name, Mock(side_effect=error))


def test_a_folder_that_cannot_be_written_to_or_is_locked_is_found_early(tmp_path, monkeypatch, refuse):
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    with pytest.raises(OutputError, match="is not writable"):
        check_output(tmp_path / "file", overwrite=False)
    refuse("pathlib.Path.stat", PermissionError(13, "Permission denied"))
    with pytest.raises(OutputError, match=r"file: cannot be written \(Permission denied\)"):
        check_output(tmp_path / "file", overwrite=False)


@pytest.mark.parametrize(("number", "exit_code"), [(errno.ENOSPC, 1), (errno.EROFS, 2)])
def test_a_full_disk_is_a_failure_another_refusal_wrong_input_and_old_files_stay(tmp_path, refuse, number, exit_code):
    (tmp_path / "file").write_bytes(b"old")
    refuse("os.replace", OSError(number, os.strerror(number)))
    with pytest.raises(OutputError, match=os.strerror(number)) as error:
        write_file(tmp_path / "file", b"new", overwrite=True)
    refuse("pathlib.Path.mkdir", OSError(number, os.strerror(number)))
    with pytest.raises(OutputError, match=rf"cannot be created \({os.strerror(number)}\)") as of_folder:
        make_folder(tmp_path / "folder")
    assert error.value.exit_code == of_folder.value.exit_code == exit_code
    refuse("os.replace", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "file", b"new", overwrite=True)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_full_disk_is_found_among_the_causes_of_an_error(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device", "folder/slots.bin")
    outer = RuntimeError("no recording")
    outer.__cause__ = full
    found = full_disk_error(outer)
    assert str(found) == "folder/slots.bin: cannot be written: No space left on device"
    assert found is not None
    assert full_disk_error(found) is found
    assert full_disk_error(OSError(errno.EROFS, "Read-only file system")) is None
    assert full_disk_error(None) is None
    # A descriptor is no name.
    assert "a file of the training: cannot be written" in str(full_disk_error(OSError(errno.EDQUOT, "over quota", 7)))


def test_a_new_file_follows_the_umask_and_a_replaced_one_keeps_its_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "new", b"")
        (tmp_path / "private").touch()
        (tmp_path / "private").chmod(0o600)
        write_file(tmp_path / "private", b"", overwrite=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_what_is_read_must_be_a_file_that_fits_into_memory(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**42)
    with pytest.raises(PatchError, match=r"sparse needs 4\.4 TB of memory, and .* are free"):
        read_file(tmp_path / "sparse", PatchError)
    (tmp_path / "file").write_bytes(b"content")
    assert read_file(tmp_path / "file", PatchError) == b"content"
    assert file_sha256(tmp_path / "file", PatchError) == hashlib.sha256(b"content").hexdigest()
    absent = dict.fromkeys(("absent", "file/in", "a\0b", "\ud800"), "no such file")
    for name, message in {**absent, ".": "is a folder", "pipe": "a pipe", "x" * 300: "cannot be read"}.items():
        for read in (read_file, file_sha256):
            with pytest.raises(PatchError, match=message) as error:
                read(tmp_path / name, PatchError)
            assert error.value.file == str(tmp_path / name)
    for name, hint in {"fiel": "did you mean 'file'?", "sprase": "did you mean 'sparse'?", "other": ""}.items():
        with pytest.raises(PatchError, match="no such file") as error:
            read_file(tmp_path / name, PatchError)
        assert error.value.hint == hint


HUGE = 2_000_000_000


@pytest.fixture
def free(monkeypatch):
    """Say how many bytes are free."""
    return lambda number: monkeypatch.setattr(machine, "free_memory", lambda: number)


def test_free_memory_is_that_of_machine_and_container_and_small_amounts_are_not_looked_up(tmp_path, monkeypatch, free):
    whole = psutil.virtual_memory().total + psutil.swap_memory().total
    assert 0 < free_memory() <= whole
    (tmp_path / "limit").write_text("4096\n")
    (tmp_path / "none").write_text("max\n")
    names = [str(tmp_path / name) for name in ("limit", "none", "absent")]
    monkeypatch.setattr(machine, "_LIMITS", names)
    assert free_memory() == 4096
    free(10**10)
    check_memory(10**10, "it", ConfigError)
    with pytest.raises(ConfigError, match=r"^a\.b: it needs 10\.0 GB of memory, and 10\.0 GB are free$"):
        check_memory(10**10 + 1, "it", ConfigError, ("a", "b"))
    monkeypatch.setattr(machine, "free_memory", lambda: pytest.fail("looked up"))
    check_memory(2**30 - 1, "it", ConfigError)


@pytest.mark.parametrize(("settings", "setting"), case_table("wrong_sizes")["memory"])
def test_an_absurd_size_of_a_model_or_of_its_batch_is_refused(settings, setting, free, tmp_path):
    free(16 * 10**9)
    is_text = settings.get("kind") == "lstm_lm"
    data = text_dataset(text_file(tmp_path)) if is_text else load_dataset(parse_dataset("two_moons"))
    check_run_memory(run_config(data.config, **settings), data)
    with pytest.raises(ConfigError, match=r" needs .* of memory, and 16.0 GB are free$"):
        check_run_memory(run_config(data.config, **{**settings, setting: HUGE}), data)


def test_the_pairs_of_an_analysis_of_neighbourhoods_are_counted(free):
    config = run_config("two_moons", kind="scikit_learn", method="nca_knn")
    data = load_dataset(config.dataset)
    check_data(config.model, data)
    many = replace(data, train=Split(np.zeros((60_000, 2), np.float32), np.zeros(60_000, np.int64)))
    free(16 * 10**9)
    with pytest.raises(ConfigError, match=r"^nca_knn · k=5 needs 86.4 GB of memory"):
        check_data(config.model, many)


@pytest.mark.parametrize("allocate", [np.zeros, torch.zeros, lambda n: bytearray(8 * n)])
@pytest.mark.parametrize("n", [2**48, 2**60])
def test_an_allocation_that_fails_is_known_by_its_error_and_other_errors_are_not_taken_for_it(allocate, n):
    with pytest.raises((MemoryError, RuntimeError, ValueError, OverflowError)) as caught:
        allocate(n)
    if not isinstance(caught.value, OverflowError):  # `bytearray` does not count so far
        problem = allocation_problem(caught.value)
        assert problem is not None and problem.startswith("out of memory") and "\n" not in problem
    for error in (ValueError("shapes differ"), RuntimeError("size mismatch"), KeyError("memory")):
        assert allocation_problem(error) is None
