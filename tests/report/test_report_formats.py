"""Tables in all formats: numbers come back, special characters do no harm, and lines fit."""

import csv
import io
import json
import re

import pytest
from case_tables import case_table
from stored_runs import stored_run

from idwbench.report.labels import value_label
from idwbench.report.leaderboard import leaderboard
from idwbench.report.render import TABLE_FORMATS, escape_latex, render
from idwbench.report.summaries import section_tables, summarise
from idwbench.report.tables import ROW_COLUMNS, Column, Table
from idwbench.report.text import render_text


@pytest.fixture
def sections():
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
    runs += [stored_run(54.3 + s, dataset="diabetes", seed=s, train=0.01234, gradient_clip=1.0) for s in (0, 1)]
    return summarise(runs)


@pytest.fixture
def tables(sections):
    return section_tables(sections)


def test_csv_comes_back_at_full_precision_with_the_names_and_rows_of_json(sections, tables):
    lines = list(csv.DictReader(io.StringIO(render(tables, "csv"))))
    records = json.loads(render(tables, "json"))
    assert all({*record} - {*line} == {"parameters"} for line, record in zip(lines, records, strict=True))
    rows = [(section, row) for section in sections for row in section.rows]
    for line, (section, row) in zip(lines, rows, strict=True):
        test = row.statistics["test"]
        assert float(line["test_mean"]) == test.mean
        assert line["test_std"] == ("" if test.std is None else repr(test.std))
        assert line["p_value_test"] == ("" if test.p_value is None else repr(test.p_value))
        assert (line["method"], line["n"], line["diverged"]) == (row.model.method, str(row.n), str(row.n_diverged))
        assert line["best_test"] == ("true" if test.best else "false")
        assert line["power"] == ("" if row.model.method in ("scaled_dot", "gaussian") else "2.0")
        assert (line["metric"], line["gradient_clip"]) == (section.metric, str(section.config.protocol.gradient_clip))
    assert {line["epochs"] for line in lines} == {"25", "50"}
    assert json.loads(lines[0]["dataset_config"])["train_per_class"] == 100
    header, *others = csv.reader(io.StringIO(render(tables, "csv")))
    assert {len(line) for line in others} == {len(header)} == {len({*header})}


def test_markdown_is_a_table_with_the_best_in_bold_and_a_caption_that_says_so(tables):
    text = render(tables, "markdown")
    found = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert len(found) == 3
    for table in found:
        lines = table.splitlines()
        assert len({line.count("|") for line in lines}) == len({len(line) for line in lines}) == 1
    assert "**93.68**" in found[1]
    assert re.search(r"88\.20 \| +87\.84 \(n=1\) \|", found[1])
    assert "- n = 1: no spread." in text
    headers = [table.splitlines()[0] for table in found]
    assert ["diverged" in header for header in headers] == [True, False, False]  # columns without content are left out
    mean = ", mean ± sample standard deviation over n seeds"
    assert [table.caption for table in tables] == [
        f"Metric: accuracy in %{mean}; bold: best mean, or not distinguishable from it, among equal numbers of "
        "prototypes.",
        "Metric: accuracy in %; bold: best mean among equal numbers of prototypes.",
        f"Metric: rmse (lower is better){mean}; bold: best mean among equal numbers of prototypes.",
    ]


@pytest.mark.parametrize(("metric", "mean", "std", "expected"), case_table("value_labels"))
def test_numbers_have_sensible_digits(metric, mean, std, expected):
    assert value_label(metric, mean, std) == expected


def test_markdown_and_latex_escape_what_would_break_them_and_latex_is_balanced(tables):
    run = stored_run(dataset={"name": "csv", "path": "a|b*<i>_c_.csv"})
    assert r"### a\|b\*\<i\>\_c\_.csv" in render(section_tables(summarise([run])), "markdown")
    assert escape_latex("a_b & 5% #1 {x} ~^ \\ $") == (
        r"a\_b \& 5\% \#1 \{x\} \textasciitilde{}\textasciicircum{} \textbackslash{} \$"
    )
    assert escape_latex("p=2, ε=0.001 ± σ²") == r"p=2, $\varepsilon$=0.001 $\pm$ $\sigma$\textsuperscript{2}"
    text = render(tables, "latex")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 3
    assert text.isascii()
    bare = re.sub(r"\\.", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"(?<!\\)[_%#]", text.split("\n", 1)[1])
    for tabular in re.findall(r"\\toprule(.*?)\\bottomrule", text, flags=re.DOTALL):
        lines = [line for line in tabular.splitlines() if line.endswith(r"\\")]
        assert len({len(re.findall(r"(?<!\\)&", line)) for line in lines}) == 1


@pytest.mark.parametrize("width", [50, 60, 80, 100, 140])
def test_no_line_is_longer_than_the_terminal_and_no_word_or_number_is_broken(tables, width):
    pairs = [(rate, n) for rate in (0.1, 1) for n in (2, 4)]
    rates = [stored_run(0.9 - r / 10, dataset="two_moons", learning_rate=r, prototypes=n) for r, n in pairs]
    for found in (tables, [leaderboard(rates)]):
        text = render_text(found, width)
        assert max(map(len, text.splitlines())) <= width
        shown = {column.name for table in found for column in table.columns if column.name not in table.removable}
        for table in found:
            for column in table.columns:
                if column.name in shown:
                    words = [w for cell in column.texts for w in ([cell] if column.numeric else cell.split())]
                    assert all(word in text for word in words)


def test_a_narrow_terminal_lists_what_it_leaves_out_repeats_what_names_a_row_and_stars_the_best(tables):
    assert "Not shown in 80 columns: learned parameters, train" in render_text(tables, 80)
    assert "Not shown" not in render_text(tables, 140)
    several = section_tables(
        summarise([stored_run(0.9, dataset="two_moons", train=0.9 + seed / 50, seed=seed) for seed in range(2)])
    )
    assert "Not shown in 64 columns: spread of train." in render_text(several, 64)
    runs = [stored_run(0.9, dataset="two_moons", power=power, seed=seed) for power in (1, 2) for seed in range(3)]
    for split, left_out in {"test": "learned parameters, train", "train": "learned parameters"}.items():
        text = render_text([leaderboard(runs, split=split)], 36)
        assert f"Not shown in 36 columns: {left_out}." in " ".join(text.split())
    rates = [
        stored_run(0.9, validation=0.8, dataset="two_moons", method=m, learning_rate=r, epochs=e)
        for m, r, e in (("idw", 0.1, 20), ("idw", 1, 20), ("idw", 1, 30), ("fc_relu", 1, 20))
    ]
    lines = render_text([leaderboard(rates)], 40).splitlines()
    rules = [place for place, line in enumerate(lines) if set(line.strip()) == {"─"}]
    # A method with a number of epochs may be that of several rows.
    names = ["rank", "method", "epochs", "rate"]
    assert [lines[place - 1].split() for place in rules] == [[*names, "n"], [*names, "validation"], [*names, "test"]]
    shown = render_text(tables, 100, lambda text, how: f"<{how}>{text}</{how}>")
    assert re.search(r"<bold> *93\.68</bold>", shown)
    assert "*" not in shown
    assert "93.68*" in render(tables, "rich")


@pytest.mark.parametrize("split", ["validation", "holdout", "train"])
def test_a_narrow_terminal_keeps_the_numbers_of_a_metric_that_one_split_has(split):
    runs = [stored_run(None, **{"train": None, split: 0.75}, dataset="two_moons", n_parameters=64)]
    text = render_text(section_tables(summarise(runs)), 20)
    assert "75.00" in text and "Not shown in 20 columns: learned parameters." in " ".join(text.split())


def test_control_characters_and_wide_letters_do_not_shift_columns():
    texts = ["日本", "a\x1b[1m", "x"]
    text = render_text([Table("t", (Column("one", "one", texts), Column("n", "n", texts, numeric=True)), (1, 1, 1))])
    lines = [line for line in text.splitlines() if line.startswith(" ") and "─" not in line]
    assert "\x1b" not in text
    assert lines[1:] == [" 日本          日本", " a\\x1b[1m  a\\x1b[1m", " x                x"]


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_every_format_can_say_that_there_is_nothing(table_format):
    assert render(section_tables(summarise([])), table_format).endswith("\n")
    unfinished = render([leaderboard([stored_run(state="planned")])], table_format)
    assert unfinished.endswith("\n")
    assert table_format in ("csv", "json") or "1 run not finished" in unfinished
    diverged = section_tables(summarise([stored_run(state="diverged")]))
    assert "idw" in render(diverged, table_format)


@pytest.mark.parametrize("table_format", TABLE_FORMATS)
def test_a_column_is_one_entry(request, table_format):
    extra = ("first_seed", lambda row: min(run.seed for run in row.complete), "no. {}".format)
    runs = [stored_run(0.8, seed=seed) for seed in (70, 71)]
    ROW_COLUMNS.append(extra)
    request.addfinalizer(lambda: ROW_COLUMNS.remove(extra))
    for tables in (section_tables(summarise(runs)), [leaderboard(runs)]):
        text = render(tables, table_format)
        assert ("70" if table_format in ("csv", "json") else "no. 70") in text
        assert ("first_seed" if table_format in ("csv", "json") else "first") in text
