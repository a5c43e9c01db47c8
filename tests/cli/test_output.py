"""What all commands print, whatever terminal, stream and locale it goes to; signals; help and completion."""

import functools
import io
import json
import math
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import PropertyMock

import pytest
import typer
import typer.cli
from case_tables import case_table
from rich.console import Console
from rich.text import Text
from typed import SMALL_SWEEP
from typer.testing import CliRunner

import idwbench
from idwbench import Results, run_config
from idwbench.cli import main
from idwbench.cli.app import COMMANDS, RUNS, app
from idwbench.cli.interruption import interruptible
from idwbench.cli.output import echo_json, print_facts, print_line
from idwbench.cli.progress import EPOCHS, progress_bars
from idwbench.errors import NoResultsError


@pytest.fixture
def terminal(monkeypatch):
    """Stand in for a terminal of 40 columns."""
    monkeypatch.setattr("idwbench.cli.output.terminal_width", lambda *, err=False: 40)


def test_json_has_null_for_numbers_that_are_not_finite(capsys):
    echo_json({"values": [1.5, math.nan, (math.inf, {"low": -math.inf})], "name": "ε \x1b\x7f\u202e"})
    text = capsys.readouterr().out
    expected = {"values": [1.5, None, [None, {"low": None}]], "name": "ε \x1b\x7f\u202e"}
    assert json.loads(text, parse_constant=pytest.fail) == expected
    assert text.strip().isprintable()


def test_lines_of_a_terminal_are_broken_between_words_and_a_pipe_has_no_width(terminal, capsys, monkeypatch):
    words = "[12/60] idw · 16 prototypes · learning rate 0.0123: test accuracy 97.51 ± 0.42 % (5 of 5 seeds)"
    print_line(words)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines).split()) == words
    monkeypatch.undo()
    print_line(words)
    print_facts({"name": words})
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_names_of_every_kind_are_listed_with_what_they_stand_for(run):
    shown = json.loads(run("list --json").stdout)
    assert {"idw", "fc_relu"} <= shown["methods"].keys() and "p=2, ε=0.001" in shown["methods"]["idw"]
    assert "mnist" in shown["datasets"] and "moons" in shown["figures"] and "hash_table" in shown["kinds"]
    assert all(text for words in shown.values() for text in words.values())
    assert json.loads(run("list kernels --json").stdout) == {"kernels": shown["kernels"]}
    lines = run("list weightings").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*shown["weightings"]]
    assert run("list methds").exit_code == 2


def test_facts_are_two_columns_without_what_is_empty(terminal, capsys):
    print_facts({"name": 0, "nothing": None, "empty": "", "a long\nname": f"{'word ' * 8}\x1b"}, indent=2)
    assert capsys.readouterr().out.splitlines() == [
        r"  name          0",
        r"  a long\nname  word word word word word",
        r"                word word word \x1b",
    ]


@pytest.mark.parametrize(("width", "bar"), [(80, 20), (200, 40)])
def test_bars_keep_their_width_and_long_labels_are_cut(monkeypatch, width, bar):
    monkeypatch.setenv("COLUMNS", str(width))
    bars = progress_bars(60)
    what = "wine · idw · 16 prototypes · learning rate 0.01 · 12 runs" * 3
    bars.update(bars.task_ids[EPOCHS], description=what, completed=12, total=3000, visible=True)
    stream = io.StringIO()
    terminal = Console(file=stream, width=width, force_terminal=True, color_system="standard")
    terminal.print(bars.get_renderable())
    runs, epochs = (Text.from_ansi(line).plain for line in stream.getvalue().splitlines())
    assert [sum(map(line.count, "━╸╺")) for line in (runs, epochs)] == [bar, bar]
    assert "…" in epochs and "12/3000" in epochs and max(len(runs), len(epochs)) <= width


NAME, SHOWN = "own\x1b]0;title\x07\u202e.csv", r"own\x1b]0;title\x07\u202e.csv"
RED, LABEL = "\x1b[31mred\x9b", r"\x1b[31mred\u009b"


@pytest.mark.slow
def test_labels_and_names_of_files_are_printed_with_escapes(run, tmp_path):
    assert run("train --dataset", NAME).stderr.strip().endswith(f"{SHOWN}: no such file")
    rows = "".join(f"{i},{('y', RED)[i % 2]}\n" for i in range(12))
    (tmp_path / NAME).write_text(f"a,label\n{rows}", encoding="utf-8")
    assert run("train --epochs 1 --prototypes 2 -o model.pt --db own.db --dataset", NAME).exit_code == 0
    (tmp_path / "own.yaml").write_text(SMALL_SWEEP.replace("name: small", 'name: "a\\e[31mb\\u202e"'))
    for words, shown in {
        "report --db own.db": SHOWN,
        f"report --db own.db --table {NAME}": SHOWN,
        "explain model.pt --x 1": LABEL,
        "patch model.pt --x 1 --label y --margin 9 --dry-run": "label ",
        "sweep own.yaml --dry-run": "a\\x1b[31mb\\u202e: 15 runs on two_moons: 15 missing\n",
    }.items():
        result = run(words)
        assert result.exit_code == 0, result.output
        assert shown in result.output and result.output.replace("\n", "").isprintable(), words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("list methods >&-", 0, ""),
        ("list methods 2>&-", 0, ""),
        ("list methods --json > /dev/full", 1, "idwbench: No space left on device\n"),
        ("list methods --json | true", 0, ""),  # a reader that leaves early
        ("report --help | grep -qF '?'", 0, ""),  # a locale without Greek letters
    ],
)
def test_closed_streams_full_disks_and_poor_locales_are_survived(command, code, words):
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    program = f"{sys.executable} -m idwbench {command}"
    result = subprocess.run(program, shell=True, capture_output=True, text=True, env=environment)
    assert (result.returncode, result.stderr) == (code, words)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _heard_signals():
    """As in a shell: nothing is ignored."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_line_is_whole_after_another_signal_and_after_what_libraries_make_of_it(capsys):
    def status():
        os.kill(os.getpid(), signal.SIGTERM)
        raise NoResultsError("does not exist")

    with pytest.raises(typer.Exit) as ended, interruptible(status):
        gone = set()
        watched = weakref.ref(gone, lambda of: os.kill(os.getpid(), signal.SIGINT))  # which cannot raise
        try:
            del gone
            assert watched() is None and threading.Event().wait(60)
        except KeyboardInterrupt as error:
            raise ValueError("cannot be serialised") from error
    assert (ended.value.exit_code, capsys.readouterr().err) == (130, "interrupted: nothing was stored\n")


def test_another_thread_may_use_it_without_signals_and_one_of_the_caller_does_not_end_its_process(capsys):
    seen, end = [], threading.Event()

    def work():
        with interruptible(lambda: ""):
            seen.append(signal.getsignal(signal.SIGTERM))
        end.wait()

    thread = threading.Thread(target=work, name="idwbench_0")
    thread.start()
    try:
        with pytest.raises(typer.Exit) as ended, interruptible(lambda: "2 of 6 done"):
            raise KeyboardInterrupt
    finally:
        end.set()
        thread.join()
    assert (ended.value.exit_code, seen) == (130, [signal.default_int_handler])
    assert {*map(signal.getsignal, SIGNALS)} == {signal.default_int_handler}  # as before


ALL = [*COMMANDS, *(f"runs {name}" for name in RUNS)]


def test_help_has_panels_and_no_type_of_flags(run, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "_IDWBENCH_COMPLETE" in run("--show-completion bash").stdout
    texts = [run(f"{name} --help").stdout for name in ALL]
    assert all("Usage: idwbench" in text and "<bool>" not in text and "--no-" not in text for text in texts)
    for option, panel in {"--data-dir ": "Storage", "--engine ": "Training", "--where ": "Selection of runs"}.items():
        assert all((f"│ {option}" in text) <= (f"╭─ {panel} ─" in text) for text in texts)


def test_the_command_line_reference_is_up_to_date_and_explains_every_option():
    words = ["idwbench.cli.app", "utils", "docs", "--name", "idwbench", "--title", "Command line"]
    reference = CliRunner().invoke(typer.cli.app, words).stdout.rstrip()
    page = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
    assert page.startswith(f"{reference}\n\n## Output and exit codes\n"), "run `make docs`"
    assert [line for line in reference.splitlines() if line.startswith("* `") and "`: " not in line] == []


# A module during whose import Ctrl-C is pressed.
INTERRUPTED = type("Interrupted", (), {"app": PropertyMock(side_effect=KeyboardInterrupt)})()


@pytest.mark.parametrize(
    ("module", "code", "words"),
    [(SimpleNamespace(app=lambda: sys.exit(3)), 3, ""), (INTERRUPTED, 130, "interrupted\n")],
)
def test_the_program_keeps_its_exit_code_and_does_not_search_for_garbage(monkeypatch, capfd, module, code, words):
    steps = []
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "__all__")
    monkeypatch.setitem(sys.modules, "idwbench.cli.app", module)
    for step in ("disable", "freeze"):
        monkeypatch.setattr(f"gc.{step}", functools.partial(steps.append, step))
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capfd.readouterr().err, steps) == (code, words, ["disable", "freeze"])


def test_a_bare_command_prints_its_help_and_no_error(run):
    result = run("")
    assert "Usage: idwbench" in result.stdout and (result.stderr, result.exit_code) == ("", 2)
    assert all(f"│ {name} " in result.stdout for name in COMMANDS)
    assert all(f"│ {name} " in run("runs").stdout for name in RUNS)
    assert run("--version").stdout == f"idwbench {idwbench.__version__}\n"


def test_a_shell_is_offered_commands_options_names_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("two_mine.yaml", "two_mine.txt", "two_folder/inside.yml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).touch()
    moons = run_config("two_moons", prototypes=2)
    Results(tmp_path / "results.db").register_sweep("moons_of_mine", "", "", [moons])
    for line, words in case_table("completions").items():
        line = line.replace("FOLDER", str(tmp_path))
        typed = {"COMP_WORDS": f"idwbench {line}", "COMP_CWORD": str(1 + line.count(" "))}
        done = CliRunner().invoke(app, [], env={"_IDWBENCH_COMPLETE": "complete_bash", **typed})
        assert done.output.split() == [word.replace("FOLDER", str(tmp_path)) for word in words], line
