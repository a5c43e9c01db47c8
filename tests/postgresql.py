"""A PostgreSQL server for the tests: in a folder of its own, without a network port, and stopped at the end.

Its programs (``initdb``, ``pg_ctl``) are looked for on the path and in the version folders of Debian and Homebrew.
PostgreSQL refuses to run as root: then it runs as the user ``postgres``, or ``nobody``.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

_FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
_PROGRAMS = ("initdb", "pg_ctl")
# Nothing survives a test run, so nothing is forced to disk.
_SETTINGS = {
    "listen_addresses": "",  # connections by a socket in the folder only
    "fsync": "off",
    "synchronous_commit": "off",
    "max_connections": "60",
}


def _program(name):
    """Return the program on the path, or that of the newest version."""
    folders = [str(path) for folder in _FOLDERS for path in Path("/").glob(folder[1:])]
    folders.sort(key=lambda folder: (len(folder), folder), reverse=True)
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))
    return None if found is None else Path(found).resolve()


def missing_program():
    """Return the name of a program of the server that is not installed, or None."""
    return next((name for name in _PROGRAMS if _program(name) is None), None)


@dataclass
class Server:
    """A running server; `folder` holds its socket."""

    folder: Path

    def __post_init__(self):
        self._names = (f"test_{number}" for number in count(1))

    def url(self, database="postgres", *, user="idwbench", **query):
        """Return the URL of a database."""
        options = "&".join([f"host={self.folder}", *(f"{name}={value}" for name, value in query.items())])
        return f"postgresql://{user}@/{database}?{options}"

    def execute(self, *statements, database="postgres"):
        """Run statements, each by itself, and return the rows of the last."""
        import psycopg

        rows: list[Any] = []
        with psycopg.connect(host=str(self.folder), user="idwbench", dbname=database, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[call-overload]
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def create(self):
        """Create a database and return its name."""
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return name


@contextmanager
def running_server():
    """Start a server, and stop it at the end."""
    # Sockets have short paths, and the folders of pytest cannot be entered by another user.
    folder = Path(tempfile.mkdtemp(prefix="idwbench-pg-"))
    data = folder / "data"
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = known.get("postgres", known.get("nobody")) if os.geteuid() == 0 else None
    try:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        _run("initdb", user, "--pgdata", data, "--username=idwbench", "--auth=trust", "--encoding=UTF8",
             "--no-locale", "--no-sync", "--no-instructions")  # fmt: skip
        options = {**_SETTINGS, "unix_socket_directories": str(folder)}
        with (data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in options.items())
        _run("pg_ctl", user, "--pgdata", data, "--log", folder / "log", "--wait", "--timeout=60", "start")
        try:
            yield Server(folder)
        finally:
            _run("pg_ctl", user, "--pgdata", data, "--mode=immediate", "--wait", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(name, user, *words):
    program = _program(name)
    assert program is not None
    identity: Any = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    # The server keeps what it inherits open: its output goes to a file, not to a pipe that would then never end.
    with tempfile.TemporaryFile() as output:
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
        done = subprocess.run([program, *words], cwd="/", **streams, **identity)
        output.seek(0)
        if done.returncode:
            raise RuntimeError(f"{name} failed: {output.read().decode(errors='replace')}")
