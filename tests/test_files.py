import errno
import hashlib
import os
import stat
from unittest.mock import Mock

import pytest

from idwbench.errors import OutputError, OutputExistsError, PatchError
from idwbench.files import check_output, file_sha256, full_disk_error, make_folder, read_file, write_file


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


def test_a_symbolic_link_that_leads_nowhere_or_in_a_circle_is_refused(tmp_path):
    (tmp_path / "lost").symlink_to("absent/file")
    (tmp_path / "circle").symlink_to("circle")
    for name, message in {"lost": "absent does not exist", "circle": "cannot be written"}.items():
        with pytest.raises(OutputError, match=message):
            check_output(tmp_path / name, overwrite=True)


def test_pipes_devices_and_folders_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, message in {"pipe": "a pipe or a device", ".": "is a folder"}.items():
        with pytest.raises(OutputError, match=message):
            write_file(tmp_path / name, b"", overwrite=True)
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


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_or_is_interrupted_leaves_the_old_file_and_nothing_else(error, tmp_path, refuse):
    (tmp_path / "file").write_bytes(b"old")
    refuse("os.replace", error)
    with pytest.raises((OutputError, KeyboardInterrupt), match=r"No space left on device|^$"):
        write_file(tmp_path / "file", b"new", overwrite=True)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize(("number", "exit_code"), [(errno.ENOSPC, 1), (errno.EROFS, 2)])
def test_a_full_disk_is_a_failure_and_another_refusal_wrong_input(tmp_path, refuse, number, exit_code):
    refuse("os.replace", OSError(number, os.strerror(number)))
    with pytest.raises(OutputError, match=os.strerror(number)) as error:
        write_file(tmp_path / "file", b"new")
    refuse("pathlib.Path.mkdir", OSError(number, os.strerror(number)))
    with pytest.raises(OutputError, match=rf"cannot be created \({os.strerror(number)}\)") as of_folder:
        make_folder(tmp_path / "folder")
    assert error.value.exit_code == of_folder.value.exit_code == exit_code
    assert list(tmp_path.iterdir()) == []


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


def test_a_file_larger_than_the_memory_is_not_read(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**42)
    with pytest.raises(PatchError, match=r"sparse needs 4\.4 TB of memory, and .* are free"):
        read_file(tmp_path / "sparse", PatchError)


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


def test_what_is_read_must_be_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"content")
    assert read_file(tmp_path / "file", PatchError) == b"content"
    assert file_sha256(tmp_path / "file", PatchError) == hashlib.sha256(b"content").hexdigest()
    for name, message in {
        "absent": "no such file",
        "file/in": "no such file",
        ".": "is a folder",
        "pipe": "a pipe",
        "x" * 300: "cannot be read",
        "a\0b": "no such file",
        "\ud800": "no such file",
    }.items():
        for read in (read_file, file_sha256):
            with pytest.raises(PatchError, match=message) as error:
                read(tmp_path / name, PatchError)
            assert error.value.file == str(tmp_path / name)
