import shutil
import subprocess

import pytest
from case_tables import case_table

from idwbench.results import provenance
from idwbench.results.provenance import checkout_of, cpu_model


def git(folder, *words):
    identity = ["-c", "user.name=me", "-c", "user.email=me@localhost", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def known(package):
    checkout_of.cache_clear()
    return checkout_of(package)


@pytest.fixture
def package(tmp_path):
    """A package in a checkout of its own."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    package = tmp_path / "checkout" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git(package.parent, "init", "--quiet")
    git(package.parent, "add", "package")
    git(package.parent, "commit", "--quiet", "-m", "first")
    return package


def test_a_checkout_is_known_by_its_commit(package, monkeypatch):
    expected = {"commit": git(package, "rev-parse", "HEAD"), "dirty": False}
    (package.parent / "notes.txt").write_text("beside the package")
    assert known(package) == expected
    monkeypatch.setenv("GIT_DIR", str(package / "nowhere"))  # as in a git hook
    assert known(package) == expected


def test_without_git_an_answer_in_time_or_a_commit_nothing_is_known(package, tmp_path, monkeypatch):
    installed, empty = package.parent / ".venv" / "idwbench", tmp_path / "empty"
    for folder in (installed, empty, tmp_path):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
        assert known(folder) is None
    git(empty, "init", "--quiet")
    git(empty, "add", ".")
    assert known(empty) is None
    with monkeypatch.context() as patched:
        patched.setattr(provenance, "_TIMEOUT_SECONDS", 0.0)
        assert known(package) is None
    monkeypatch.setenv("PATH", "")
    assert known(package) is None


def test_changes_are_counted_and_known_by_a_checksum_of_their_content(package):
    (package / "__init__.py").write_text("x = 1\n")
    (package / "new.py").write_text("new")
    (package.parent / "notes.txt").write_text("beside the package")
    first = known(package)
    assert (first["changed_files"], len(first["diff"])) == (2, 64)
    for name in ("color.diff", "diff.external"):  # the user's settings of git do not matter
        git(package, "config", name, "always")
    git(package, "add", "__init__.py")
    assert known(package) == first
    (package / "new.py").write_text("newer")
    second = known(package)
    (package / "__init__.py").write_text("x = 2\n")
    assert len({first["diff"], second["diff"], known(package)["diff"]}) == 3
    (package / "other.py").touch()
    assert known(package)["changed_files"] == 3


@pytest.mark.parametrize(("content", "model"), case_table("processors"))
def test_the_processor_is_known_by_its_model_or_else_by_the_platform(tmp_path, monkeypatch, content, model):
    if content is not None:
        (tmp_path / "cpuinfo").write_text(content)
    monkeypatch.setattr(provenance, "_CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(provenance.platform, "processor", lambda: "")
    monkeypatch.setattr(provenance.platform, "machine", lambda: "riscv64")
    assert cpu_model.__wrapped__() == model
