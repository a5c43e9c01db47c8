import csv
import io
import json
import re
from collections.abc import Callable

import pandas as pd
import pytest
from rich.console import Console

from idwbench.errors import ConfigError
from idwbench.report.latex import escape_latex
from idwbench.report.summaries import Report, summarise
from idwbench.report.tables import TABLE_FORMATS, render
from idwbench.report.terminal import TerminalReport, render_plain
from idwbench.results.records import StoredRun

Make = Callable[..., StoredRun]


@pytest.fixture
def report(stored_run: Make) -> Report:
    """Two sections: ten prototypes' worth of moons with a holdout and divergence, and MNIST with n = 1."""
    runs = []
    for place, method in enumerate(("scaled_dot", "gaussian", "inv_dist", "idw")):
        for seed in range(10):
            state = "diverged" if method == "gaussian" and seed < 2 else "complete"
            common = {"method": method, "seed": seed, "state": state, "features": 2, "classes": 2}
            test = (36 + (seed + place) % 5) / 40
            runs.append(
                stored_run(test, dataset="two_moons", prototypes=16, holdout=0.9 + seed / 300, train=1 / 3, **common)
            )
    runs += [stored_run(0.8780, method="idw"), stored_run(0.9370, method="neg_dist")]
    return summarise(runs)


def test_csv_comes_back_through_pandas_at_full_precision(report: Report) -> None:
    frame = pd.read_csv(io.StringIO(render(report, "csv")))
    rows = [row for section in report.sections for row in section.rows]
    assert len(frame) == len(rows)
    for (_, line), row in zip(frame.iterrows(), rows, strict=True):
        assert row.test is not None
        assert line["test_mean"] == row.test.mean
        assert pd.isna(line["test_std"]) if row.test.std is None else line["test_std"] == row.test.std
        assert (line["method"], line["n"], line["diverged"]) == (row.method, row.n, row.n_diverged)
        assert bool(line["best_test"]) is row.best_test
        assert pd.isna(line["power"]) if row.method in ("scaled_dot", "gaussian") else line["power"] == 2
    assert frame["best_test"].dtype == bool
    assert set(frame["epochs"]) == {25, 50}
    assert json.loads(frame["dataset_config"][0])["train_per_class"] == 100


def test_csv_has_one_header_and_lines_of_one_length(report: Report) -> None:
    lines = list(csv.reader(io.StringIO(render(report, "csv"))))
    assert len({len(line) for line in lines}) == 1
    assert len(set(lines[0])) == len(lines[0])


def test_json_comes_back_and_never_holds_nan(report: Report) -> None:
    text = render(report, "json")
    records = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    rows = [row for section in report.sections for row in section.rows]
    assert [record["test_mean"] for record in records] == [row.test and row.test.mean for row in rows]
    assert [record["parameters"] for record in records] == [dict(row.parameters) for row in rows]
    assert records[-1]["test_std"] is None
    assert records[-1]["authors_test"] == 0.878


def test_markdown_is_a_table_with_the_best_in_bold(report: Report) -> None:
    text = render(report, "markdown")
    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        lines = table.splitlines()
        assert len({line.count("|") for line in lines}) == 1
        assert len({len(line) for line in lines}) == 1
    assert "**93.70**" in tables[1]
    assert "fc_relu" not in text
    assert "scaled_dot" in text
    assert "- n = 1: no spread." in text


def test_markdown_escapes_what_would_break_it(stored_run: Make) -> None:
    run = stored_run(dataset={"name": "csv", "path": "a|b*<i>_c_.csv"})
    assert r"### a\|b\*\<i\>\_c\_.csv" in render(summarise([run]), "markdown")


def test_spread_is_in_percent_with_two_decimals(stored_run: Make) -> None:
    runs = [stored_run(accuracy, seed=seed) for seed, accuracy in enumerate((0.9625, 0.9875))]
    assert "97.50 ± 1.77" in render(summarise(runs), "markdown")
    assert r"\textbf{97.50 $\pm$ 1.77}" in render(summarise(runs), "latex")


def test_latex_is_balanced_and_escaped(report: Report) -> None:
    text = render(report, "latex")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 2
    assert text.isascii()
    bare = re.sub(r"\\.", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    body = text.split("\n", 1)[1]
    assert not re.search(r"(?<!\\)[_%#]", body)
    for tabular in re.findall(r"\\toprule(.*?)\\bottomrule", text, flags=re.DOTALL):
        lines = [line for line in tabular.splitlines() if line.endswith(r"\\")]
        assert len({len(re.findall(r"(?<!\\)&", line)) for line in lines}) == 1


def test_latex_letters_that_mean_something_are_printed_as_they_stand() -> None:
    assert escape_latex("a_b & 5% #1 {x} ~^ \\ $") == (
        r"a\_b \& 5\% \#1 \{x\} \textasciitilde{}\textasciicircum{} \textbackslash{} \$"
    )
    assert escape_latex("p=2, ε=0.001 ± σ²") == r"p=2, $\varepsilon$=0.001 $\pm$ $\sigma$\textsuperscript{2}"


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_terminal_table_fits_and_cuts_no_number(report: Report, width: int) -> None:
    text = render_plain(report, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    if width >= 80:
        for section in report.sections:
            assert section.title in text
        row = report.sections[0].rows[-1]
        assert row.test is not None
        assert row.test.std is not None
        assert f"{100 * row.test.mean:.2f} ± {100 * row.test.std:.2f}" in text


def test_a_narrow_terminal_says_what_it_leaves_out(report: Report) -> None:
    assert "Not shown in 80 columns: learned parameters, train" in render_plain(report, 80)
    assert "Not shown" not in render_plain(report, 140)


def test_the_best_is_bold_on_a_terminal_and_starred_in_a_pipe(report: Report) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100, _environ={"TERM": "xterm"})
    terminal.print(TerminalReport(report))
    shown = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"\x1b\[1m93\.70", shown)
    assert "*" not in shown
    plain = render(report, "rich")
    assert "93.70*" in plain
    assert "\x1b" not in plain


def test_columns_without_content_are_left_out(stored_run: Make) -> None:
    header = render(summarise([stored_run(dataset="digits")]), "markdown").splitlines()[2]
    for word in ("holdout", "paper", "authors", "diverged"):
        assert word not in header


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_every_format_can_say_that_there_is_nothing(table_format: str) -> None:
    text = render(summarise([]), table_format)
    assert text.endswith("\n")
    assert "Traceback" not in text


def test_a_setting_whose_runs_all_diverged_has_a_row_in_every_format(stored_run: Make) -> None:
    report = summarise([stored_run(state="diverged")])
    for table_format in TABLE_FORMATS:
        assert "idw" in render(report, table_format)
    assert json.loads(render(report, "json"))[0]["test_mean"] is None


def test_an_unknown_format_is_told_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown format 'markdwn' \(did you mean 'markdown'\?\)"):
        render(Report(()), "markdwn")
