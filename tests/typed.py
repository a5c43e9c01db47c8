"""Commands as they are typed."""

import numpy as np
from case_tables import ASSETS
from typer.testing import CliRunner

from idwbench.cli.app import app
from idwbench.models.model_file import load_model

SMALL_SWEEP = (ASSETS / "small_sweep.yaml").read_text(encoding="utf-8")


def typed(first, *others):
    """Type a command: words, of which the first argument may have several."""
    return CliRunner().invoke(app, [*first.split(" "), *map(str, others)] if first else [])


def files(folder):
    """Names of files, less what SQLite keeps beside a database that is being read."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if not name.endswith(("-wal", "-shm"))}


def assert_one_line(result, exit_code, *words):
    """The whole complaint is one line on stderr: no traceback, no box, nothing on stdout."""
    assert result.exit_code == exit_code, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    for word in words:
        assert word in result.stderr


def wrong_label(model, point):
    """The class, of two, that a model does not give to numbers such as ``0,1``."""
    return 1 - int(load_model(model).outputs(np.float32([point.split(",")]))[0].argmax())
