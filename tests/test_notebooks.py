"""What notebooks ask of results and show of them."""

import re
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas
import pytest
from matplotlib.figure import Figure
from stored_runs import run_result, stored_run
from sweep_specs import sweep_file

import idwbench
from idwbench.errors import ResultsError
from idwbench.models.saved_model import SavedModel
from idwbench.report.reports import Report
from idwbench.report.tables import Column, Table
from idwbench.sweep import observer
from idwbench.sweep.observer import NotebookBar, Observer, default_observer

SWEEP = ("{name: two_moons, holdout_per_class: 50}", "{method: [idw, neg_dist], prototypes: [2, 4]}")


class Cells:
    """The texts of cells by table and row, of which bold ones have a star, and the sources of pictures."""

    def __init__(self, shown):
        closed = re.sub("(<img[^>]*[^/])>", r"\1/>", shown._repr_html_())
        page = ElementTree.fromstring(f"<div>{closed}</div>")
        self.tables = [[[*map(self.text, row)] for row in table.iter("tr")] for table in page.iter("table")]
        self.pictures = [picture.get("src") for picture in page.iter("img")]

    def text(self, cell):
        return "".join(cell.itertext()) + "*" * (cell.find("b") is not None)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    idwbench.run_sweep(sweep_file(folder, *SWEEP), folder / "results.db")
    return idwbench.Results(folder / "results.db", read_only=True)


@pytest.fixture(scope="module")
def run(results):
    [key] = results.to_frame(where="method == 'idw' and prototypes == 4 and seed == 0").run_key
    return results.run(key[:12])


@pytest.fixture(scope="module")
def model(run):
    return run.model()


def test_results_show_their_sweeps_tables_and_figures_as_the_command_line_does(results):
    [sweeps] = Cells(results).tables
    assert sweeps[1] == ["small", "8", "8", "0", "0"]
    table = results.table("small", methods=["idw"])
    [shown] = Cells(table).tables
    assert [row[0] for row in shown[1:]] == ["idw", "idw"]
    assert str(table) == table.render("rich") and "| idw" in table.render("markdown")
    board = results.leaderboard("small", prototypes=[4]).to_frame()
    assert sorted(board.method) == ["idw", "neg_dist"]
    figure = results.figure("curves", "small")
    assert isinstance(figure, Figure)
    assert len(Cells(figure).pictures) == 1


def test_names_are_escaped_and_the_best_cells_are_bold():
    columns = (Column("a", "<a>", ["x & y", "z"]), Column("b", "b", ["1", "2"], best=[False, True]))
    report = Report((Table("t < u", columns, (0, 0), notes=("n > m",)),))
    assert Cells(report).tables == [[["<a>", "b"], ["x & y", "1"], ["z", "2*"]]]
    assert "t &lt; u" in report._repr_html_() and "n &gt; m" in report._repr_html_()


def test_a_run_is_found_by_the_beginning_of_its_key(results, run):
    assert run.config.model.method == "idw" and run.metric("accuracy") == run.record.metric("accuracy")
    [facts, metrics] = Cells(run).tables
    assert facts[1][:2] == ["run", run.run_key[:12]]
    accuracies = next(row for row in metrics if row[0] == "accuracy")
    assert accuracies[metrics[0].index("test")] == f"{run.metric('accuracy'):.4g}"
    with pytest.raises(ResultsError, match="no run"):
        results.run("0" * 12)


def test_a_model_shows_its_prototypes_and_its_patches(model):
    assert isinstance(model, SavedModel)
    plain = Cells(model)
    assert len(plain.pictures) == 1
    x = [0.5, 0.25]
    label = "lower" if model.predict([x])[0] == "upper" else "upper"
    patched = model.patch(x, label)
    [record] = patched.repairs.records
    [plain_facts], [facts] = (map(dict, cells.tables) for cells in (plain, Cells(patched)))
    assert (plain_facts["patches"], facts["patches"]) == ("0", "1")
    assert facts["patch 1"].startswith(f"0.5,0.25 -> {label}, radius {record.radius:.4g}, certified ")


def test_an_explanation_shows_its_figure_the_weights_and_its_warnings(model):
    explained = idwbench.explain(model, [0.5, 0.25], top=2)
    shown = Cells(explained)
    assert shown.pictures[0].startswith("data:image/png;base64,")
    assert [row[0] for row in shown.tables[0][1:]] == [item.source for item in explained.layers[0].items]
    assert "a &lt; b" in replace(explained, warnings=("a < b",))._repr_html_()


def test_the_terms_of_an_answer_are_a_table_with_the_prototypes_as_a_picture(model):
    terms = model.explain([0.5, 0.25])
    shown = Cells(terms)
    assert len(shown.pictures) == 1 and f"prediction: {terms.prediction}" in terms._repr_html_()
    assert shown.tables == [[line.split() for line in str(terms).splitlines()[1:]]]
    assert not Cells(replace(terms, keys=np.zeros((4, 64)))).pictures
    assert not Cells(replace(terms, keys=pandas.DataFrame({"leaf": ["round"] * 4}))).pictures
    of_targets = replace(terms, prediction=0.5, labels=None, values=terms.values[:, :1])
    assert Cells(of_targets).tables[0][0] == ["prototype", "weight", "value"] and len(Cells(of_targets).pictures) == 1


def test_a_failed_run_says_so_a_report_may_be_empty_and_other_objects_have_no_html():
    [facts] = Cells(stored_run(state="failed")).tables
    assert ["state", "failed"] in facts
    assert isinstance(Report(()).to_frame(), pandas.DataFrame)
    assert Report(()).to_frame().empty and Report(())._repr_html_() == ""
    with pytest.raises(TypeError, match="no HTML for ndarray"):
        idwbench.html(np.zeros(2))


def test_only_a_notebook_shows_a_bar_which_counts_the_runs_of_a_sweep(tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert type(default_observer()) is Observer
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    assert type(default_observer()) is NotebookBar
    monkeypatch.setattr(observer, "find_spec", lambda name: name != "ipywidgets")
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # which warns in a notebook without widgets
    sweep = sweep_file(tmp_path, *SWEEP)
    idwbench.run_sweep(sweep, tmp_path / "results.db")
    first = capsys.readouterr()
    assert "8/8" in first.err and "engine: fused" in first.out
    idwbench.run_sweep(sweep, tmp_path / "results.db")
    assert capsys.readouterr() == ("", "")


def test_a_bar_shows_epochs_but_is_not_drawn_for_each(capsys):
    bar, config = NotebookBar(), idwbench.run_config("two_moons", prototypes=2, epochs=2000)
    bar.note("before the bar")
    assert capsys.readouterr().out == "before the bar\n"
    bar.planned(1, 1, 0, 0)
    for epoch in range(2000):
        bar.epoch([config], epoch + 1)
    bar.finished([run_result(config)])
    drawn = capsys.readouterr().err
    assert "epoch 2000 of 2000" in drawn and drawn.count("\r") < 1900
