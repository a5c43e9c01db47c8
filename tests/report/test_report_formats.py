import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from rich.measure import Measurement

from idwbench.errors import ConfigError
from idwbench.report.exports import export_fields
from idwbench.report.formats import TABLE_FORMATS, plain_text, render
from idwbench.report.labels import method_table, value_label
from idwbench.report.latex import escape_latex
from idwbench.report.layout import tables_of
from idwbench.report.plain_table import column_width
from idwbench.report.summaries import Report, summarise
from idwbench.report.tables import Cell, Column, Table
from idwbench.report.terminal import _GAP, TerminalReport, _rich_table
from idwbench.results.records import StoredRun

Make = Callable[..., StoredRun]


@pytest.fixture
def report(stored_run: Make) -> Report:
    """Three sections: moons with holdout, ten seeds and divergence; MNIST with n = 1; a regression."""
    runs = []
    for place, method in enumerate(("scaled_dot", "gaussian", "inv_dist", "idw")):
        for seed in range(10):
            state = "diverged" if method == "gaussian" and seed < 2 else "complete"
            test = (36 + (seed + place) % 5) / 40
            holdout = 0.9 + seed / 300 + place / 1e4
            common = {"dataset": "two_moons", "prototypes": 16, "train": 1 / 3, "n_parameters": 64}
            runs.append(stored_run(test, method=method, seed=seed, state=state, holdout=holdout, **common))
    runs += [stored_run(0.8784, method="idw"), stored_run(0.9368, method="neg_dist")]
    runs += [
        stored_run(54.3 + seed, dataset="diabetes", seed=seed, train=0.01234, gradient_clip=1.0) for seed in (0, 1)
    ]
    return summarise(runs)


def test_csv_comes_back_at_full_precision(report: Report) -> None:
    lines = list(csv.DictReader(io.StringIO(render(report, "csv"))))
    rows = [(section, row) for section in report.sections for row in section.rows]
    assert len(lines) == len(rows)
    for line, (section, row) in zip(lines, rows, strict=True):
        test = row.statistics["test"]
        assert float(line["test_mean"]) == test.mean
        assert line["test_std"] == ("" if test.std is None else repr(test.std))
        assert line["p_value_test"] == ("" if test.p_value is None else repr(test.p_value))
        assert (line["method"], line["n"], line["diverged"]) == (row.model.method, str(row.n), str(row.n_diverged))
        assert line["best_test"] == ("true" if test.best else "false")
        assert line["power"] == ("" if row.model.method in ("scaled_dot", "gaussian") else "2.0")
        assert (line["metric"], line["gradient_clip"]) == (section.metric, str(section.protocol.gradient_clip))
    assert {line["epochs"] for line in lines} == {"25", "50"}
    assert json.loads(lines[0]["dataset_config"])["train_per_class"] == 100


def test_csv_has_one_header_and_lines_of_one_length(report: Report) -> None:
    lines = list(csv.reader(io.StringIO(render(report, "csv"))))
    assert len({len(line) for line in lines}) == 1
    assert len(set(lines[0])) == len(lines[0])


def test_json_comes_back_and_never_holds_nan(report: Report) -> None:
    text = render(report, "json")
    records = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    rows = [row for section in report.sections for row in section.rows]
    assert [record["test_mean"] for record in records] == [row.statistics["test"].mean for row in rows]
    assert [record["parameters"] for record in records] == [row.model.parameters for row in rows]
    assert {tuple(record) for record in records} == {export_fields(report)}
    idw = next(record for record in records if record["dataset"] == "mnist" and record["method"] == "idw")
    assert (idw["test_std"], idw["authors_test"], idw["authors_n"], idw["paper_test"]) == (None, 0.8784, 1, 0.8820)


def test_markdown_is_a_table_with_the_best_in_bold(report: Report) -> None:
    text = render(report, "markdown")
    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert len(tables) == 3
    for table in tables:
        lines = table.splitlines()
        assert len({line.count("|") for line in lines}) == 1
        assert len({len(line) for line in lines}) == 1
    assert "**93.68**" in tables[1]
    assert re.search(r"88\.20 \| +87\.84 \(n=1\) \|", tables[1])
    assert "fc_relu" not in text
    assert "scaled_dot" in text
    assert "- n = 1: no spread." in text


def test_the_caption_names_the_metric_and_what_is_marked(report: Report) -> None:
    captions = [table.caption() for table in tables_of(report)]
    mean = ", mean ± sample standard deviation over n seeds"
    assert captions == [
        f"Metric: accuracy in %{mean}; bold: best mean, or not distinguishable from it, among equal numbers of "
        "prototypes.",
        "Metric: accuracy in %; bold: best mean among equal numbers of prototypes.",
        f"Metric: rmse (lower is better){mean}; bold: best mean among equal numbers of prototypes.",
    ]


@pytest.mark.parametrize(
    ("metric", "mean", "std", "expected"),
    [
        ("accuracy", 0.975, 0.0118, "97.50 ± 1.18"),
        ("accuracy", 0.975, None, "97.50"),
        ("rmse", 54.2345, 1.2345, "54.23 ± 1.23"),
        ("rmse", 0.20137, 0.00412, "0.2014 ± 0.0041"),
        ("rmse", 123456.7, None, "123457"),
        ("rmse", 1.23456e-7, None, "1.235e-07"),
        ("r2", -0.0012, 0.5, "-0.0012 ± 0.5000"),
        ("rmse", 0.0, 0.0, "0 ± 0"),
    ],
)
def test_numbers_have_sensible_digits(metric: str, mean: float, std: float | None, expected: str) -> None:
    assert value_label(metric, mean, std) == expected


def test_markdown_escapes_what_would_break_it(stored_run: Make) -> None:
    run = stored_run(dataset={"name": "csv", "path": "a|b*<i>_c_.csv"})
    assert r"### a\|b\*\<i\>\_c\_.csv" in render(summarise([run]), "markdown")


def test_latex_is_balanced_and_escaped(report: Report) -> None:
    text = render(report, "latex")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 3
    assert text.isascii()
    bare = re.sub(r"\\.", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    body = text.split("\n", 1)[1]
    assert not re.search(r"(?<!\\)[_%#]", body)
    for tabular in re.findall(r"\\toprule(.*?)\\bottomrule", text, flags=re.DOTALL):
        lines = [line for line in tabular.splitlines() if line.endswith(r"\\")]
        assert len({len(re.findall(r"(?<!\\)&", line)) for line in lines}) == 1


def test_latex_prints_special_characters_literally() -> None:
    assert escape_latex("a_b & 5% #1 {x} ~^ \\ $") == (
        r"a\_b \& 5\% \#1 \{x\} \textasciitilde{}\textasciicircum{} \textbackslash{} \$"
    )
    assert escape_latex("p=2, ε=0.001 ± σ²") == r"p=2, $\varepsilon$=0.001 $\pm$ $\sigma$\textsuperscript{2}"


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_terminal_table_fits_and_cuts_no_number(report: Report, width: int) -> None:
    text = plain_text(TerminalReport(report), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    if width >= 80:
        for section in report.sections:
            assert section.title in text
        test = report.sections[0].rows[-1].statistics["test"]
        assert value_label("accuracy", test.mean, test.std) in text


def test_a_narrow_terminal_lists_what_it_leaves_out(report: Report) -> None:
    assert "Not shown in 80 columns: learned parameters, train" in plain_text(TerminalReport(report), 80)
    assert "Not shown" not in plain_text(TerminalReport(report), 140)


def test_the_best_is_bold_on_a_terminal_and_starred_in_a_pipe(report: Report) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100, _environ={"TERM": "xterm"})
    terminal.print(TerminalReport(report))
    shown = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"\x1b\[1m93\.68", shown)
    assert "*" not in shown
    plain = render(report, "rich")
    assert "93.68*" in plain
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


def test_an_unknown_format_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown format 'markdwn'") as caught:
        render(Report(()), "markdwn")
    assert (caught.value.location, caught.value.hint) == (("format",), "did you mean 'markdown'?")


@pytest.mark.slow
def test_tables_for_files_load_nothing_heavy() -> None:
    heavy = "torch pandas matplotlib scipy sklearn safetensors sqlalchemy rich"
    program = f"import sys, idwbench.report.formats; print(*[m for m in {heavy.split()} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []


def test_the_page_of_methods_holds_the_registry() -> None:
    page = (Path(__file__).parents[2] / "docs/methods.md").read_text(encoding="utf-8")
    assert method_table() in page


def test_the_natural_width_of_a_table_is_the_one_that_rich_measures(report):
    console = Console(width=100)
    options = console.options.update(max_width=10_000)
    for table in tables_of(report):
        for n in range(1, len(table.columns) + 1):
            columns = table.columns[:n]
            measured = Measurement.get(console, options, _rich_table(table, columns, True)).maximum
            assert sum(column_width(column, True) + _GAP for column in columns) == measured


def test_a_plain_table_is_that_of_rich(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (60, 80, 100, 140):
        plain = plain_text(TerminalReport(report), width)
        with monkeypatch.context() as patched:
            patched.setattr("idwbench.report.terminal.plain_lines", lambda *_: None)
            assert plain_text(TerminalReport(report), width) == plain


@pytest.mark.parametrize(
    "texts", [["a", "bc ", ""], ["日本", "ε=0.1", "x"], ["a\nb", "c", "d"], ["", "", ""], ["x" * 99, "b", "c"]]
)
def test_a_plain_table_of_any_text_is_that_of_rich(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    columns = tuple(
        Column(name, header, numeric, tuple(Cell(text, best=place == 1) for place, text in enumerate(texts)), compared)
        for name, header, numeric, compared in (
            ("one", "one", False, False),
            ("two", "two\nlines", True, True),
            ("three", "", True, False),
        )
    )
    for groups in ((1, 1, 1), (1, 2, 2), (1, 2, 3)):
        table = Table("title", columns, groups, "Metric", "best", ("note",))
        monkeypatch.setattr("idwbench.report.terminal.tables_of", lambda _, table=table: [table])
        plain = plain_text(TerminalReport(Report(())), 40)
        with monkeypatch.context() as patched:
            patched.setattr("idwbench.report.terminal.plain_lines", lambda *_: None)
            assert plain_text(TerminalReport(Report(())), 40) == plain


def test_characters_that_tables_take_for_narrow_are_one_cell_wide_in_rich():
    from rich.cells import cell_len

    from idwbench.report.plain_table import NARROW

    assert {cell_len(character) for character in NARROW} == {1}
