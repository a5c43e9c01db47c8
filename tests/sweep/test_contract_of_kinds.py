"""What holds for runs of every kind in sweeps: their plans, training, interruption, tables, columns and refusals."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from texts import text_file

from idwbench.errors import SpecError, TrainingError
from idwbench.models.saved_model import stored_model
from idwbench.report.leaderboard import leaderboard
from idwbench.report.render import render
from idwbench.report.summaries import section_tables, summarise
from idwbench.results.store import Results
from idwbench.runs.kinds.models import MODELS
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.measurement import measure_runs, unmeasured_runs
from idwbench.sweep.observer import Observer
from idwbench.sweep.spec import plan, read_sweep

MOONS = "{name: two_moons, train_per_class: 10, test_per_class: 8, holdout_per_class: 10}"
LOOKUP = "{name: lookup, items: 4, dimensions: 3, queries: 16, noise: 0.1}"
TEXT = "{name: text, path: own.txt}"
SMALL = "depth: 1, width: 8, heads: 2, context: 8"
# By data set the blocks of a grid, and the number of runs of each with two seeds.
SWEEPS = {
    MOONS: {
        "{method: [idw, inv_dist], prototypes: 2, power: [1, 2]}": 8,
        "{kind: baseline, method: [kmeans, samples], prototypes: 4}": 4,
        "{kind: patch_study, cases: [wrong, special], method: idw, prototypes: 2}": 4,
        "{kind: kernel_regression, kernel: [gaussian, boxcar], bandwidth: [0.1, loo]}": 4,
        "{kind: scikit_learn, method: knn, n_neighbors: [1, 3]}": 2,
        "{kind: scikit_learn, method: random_forest, n_estimators: 3}": 2,
        "{kind: network, encoder: mlp, width: [4, 8], learning_rate: [0.001, 0.01]}": 8,
        "{kind: network, encoder: mlp, width: 4, head: idw, prototypes: 3, patches: 5}": 2,
        "{kind: mlp, width: 6, depth: [1, 2]}": 4,
    },
    LOOKUP: {
        "{kind: hash_table, weighting: exact_match}": 2,
        "{kind: hash_table, similarity: [inner_product, idw], scaling: [none, qk_norm]}": 8,
        "{kind: hash_table, similarity: idw, projections: linear, learning_rate: [0.01, 0.1]}": 4,
    },
    TEXT: {
        f"{{kind: transformer_lm, method: scaled_dot, learning_rate: [0.001, 0.01], {SMALL}}}": 4,
        "{kind: lstm_lm, embedding: 4, width: [6, 8], context: 8}": 4,
    },
}
# Metrics of the cost of a training, which differ from one to the next.
COSTS = {"seconds_per_step", "activation_memory", "fit_seconds", "predict_seconds"}


def sweep_file(folder: Path, dataset: str, *blocks: str) -> Path:
    text_file(folder)
    path = folder / "kinds.yaml"
    lines = "".join(f"  - {block}\n" for block in blocks)
    path.write_text(f"name: kinds\ndataset: {dataset}\nprotocol: {{epochs: 2}}\nseeds: 2\ngrid:\n{lines}")
    return path


@pytest.fixture(scope="module", params=SWEEPS, ids=["two_moons", "lookup", "text"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    """A sweep file, and the database after the sweep."""
    folder = tmp_path_factory.mktemp("kinds")
    path = sweep_file(folder, request.param, *SWEEPS[request.param])
    status = run_sweep(path, folder / "results.db", jobs=1)
    n = sum(SWEEPS[request.param].values())
    assert (status.complete, status.total) == (n, n)
    return path, Results(folder / "results.db")


def test_each_kind_is_here_and_a_run_that_the_seed_does_not_affect_is_planned_once(tmp_path: Path) -> None:
    kinds = set()
    for dataset, blocks in SWEEPS.items():
        for block, n in blocks.items():
            runs = plan(read_sweep(sweep_file(tmp_path, dataset, block)))
            kinds |= {run.model.kind for run in runs}
            settings = Counter((run.model.label, run.protocol.learning_rate) for run in runs)
            assert len(runs) == n == len({run.run_key for run in runs})
            assert {*settings.values()} == {1 if runs[0].model.is_deterministic else 2}
    assert kinds == MODELS.keys()


class Interrupting(Observer):
    """Interrupts in the first epoch after a stack was stored."""

    is_stored = False

    def epoch(self, configs: object, epoch: int) -> None:
        if self.is_stored:
            raise KeyboardInterrupt

    def finished(self, results: object) -> None:
        self.is_stored = True


def test_an_interrupted_sweep_goes_on_to_the_same_bytes_and_trains_nothing_twice(stored, tmp_path: Path) -> None:
    path, whole = stored
    db = tmp_path / "other.db"
    with pytest.raises(KeyboardInterrupt):
        run_sweep(path, db, jobs=1, observer=Interrupting())
    part = Results(db)
    assert not {"running", "failed"} & {run.state for run in part.find_runs()}
    run_sweep(path, db, jobs=1)
    assert not (tmp_path / "other.db.checkpoints").exists()
    ends = {run.run_key: run.finished_at for run in part.find_runs()}
    for run in whole.find_runs():
        again = part.find_run(run.run_key)
        assert timeless(again) == timeless(run)
        assert part.load_curve(run.run_key) == whole.load_curve(run.run_key)
        assert contents(part, run.run_key) == contents(whole, run.run_key)
    run_sweep(path, db, jobs=1)
    assert {run.run_key: run.finished_at for run in part.find_runs()} == ends


def timeless(run) -> dict[tuple[str, str], float]:
    return {key: value for key, value in run.metrics.items() if key[1] not in COSTS}


def contents(results: Results, run_key: str) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in results.load_arrays(run_key).items()}


def test_tables_and_leaderboards_show_what_differs(stored) -> None:
    runs = stored[1].find_runs()
    report = summarise(runs, intervals=True)
    for section in report:
        rows = [(row.model.kind, row.model.method, row.model.label, row.model.prototypes) for row in section.rows]
        assert len(set(rows)) == len(rows)
    assert render(section_tables(report), "markdown")
    assert render([leaderboard([run for run in runs if run.config.model.kind != "patch_study"])], "markdown")


def test_columns_of_data_frames_hold_settings_and_metrics(stored) -> None:
    path, results = stored
    frame = results.to_frame().set_index("model")
    for block in read_sweep(path).grid:
        (kind,) = block.get("kind", ("prototypes",))
        assert block.keys() - {"kind"} <= set(frame.columns)
        metric = {"hash_table": "recall", "transformer_lm": "bits_per_character", "lstm_lm": "bits_per_character"}
        if kind != "patch_study":
            assert frame.loc[kind, f"test_{metric.get(kind, 'accuracy')}"].notna().all()
        if kind in ("prototypes", "baseline"):
            assert frame.loc[kind, "train_coverage"].notna().all()


def test_only_prototypes_have_a_model_file_and_no_run_lacks_a_measure(stored) -> None:
    results = stored[1]
    runs = {run.config.model.kind: run for run in results.find_runs()}
    assert unmeasured_runs(results.find_runs()) == []
    assert measure_runs(results, results.find_runs()) == 0
    for kind, run in runs.items():
        if kind == "prototypes":
            assert stored_model(results, run).config == run.config
        else:
            with pytest.raises(TrainingError, match=f"a run of kind {kind} has no model"):
                stored_model(results, run)


# What each kind refuses is tested with its settings; here the place in the file, and what needs a sweep.
REFUSALS = [
    (MOONS, "{kind: basline, method: kmeans}", "6:12: grid[0].kind: unknown kind of model 'basline' (did you mean"),
    (MOONS, "{kind: [baseline, 3], method: kmeans, prototypes: 3}", "6:23: grid[0].kind[1]: unknown kind of model 3"),
    (MOONS, "{kind: baseline, method: kmeans, prototypes: 3, cases: wrong}", "grid[0].cases: unknown key"),
    (MOONS, "{kind: baseline, prototypes: 3}", "grid[0]: 'method' is missing"),
    (MOONS, "{method: idw, prototypes: 3, n_cases: 5}", "grid[0].n_cases: "),
    (MOONS, "{method: kmeans, prototypes: 3}", "grid[0].method: unknown method 'kmeans'"),
    (MOONS, "{kind: patch_study, method: [idw, gaussian], prototypes: 3}", "6:39: grid[0].method[1]: only idw netw"),
    (MOONS, "{kind: patch_study, method: idw, prototypes: 3, n_cases: 5}", "6:62: grid[0].n_cases: only wrong inputs"),
    (MOONS, "{kind: kernel_regression, kernel: [gaussian, gausian]}", "6:50: grid[0].kernel[1]: unknown kernel"),
    (MOONS, "{kind: kernel_regression, kernel: boxcar, bandwidth: [1, 0]}", "bandwidth[1]: must be >= 1e-12, got 0"),
    (MOONS, "{kind: kernel_regression, kernel: [gaussian, shepard], bandwidth: 1}", "not take 'bandwidth'"),
    (MOONS, "{kind: mlp, depth: [2, 5]}", "grid[0].depth[1]: input should be less than or equal to 4, got 5"),
    (MOONS, "{kind: transformer_lm, method: idw}", "transformer_lm needs a text, and the data set two_moons is"),
    (MOONS, "{kind: network, encoder: [mlp, cnn]}", "grid[0].encoder[1]: unknown encoder 'cnn'"),
    (MOONS, "{kind: network, encoder: vit_tiny, heads: [4, 5]}", "grid[0].heads[1]: 5 heads do not divide a width"),
    (MOONS, "{kind: network, encoder: mlp, head: idw, prototypes: 3, power: [2, 0]}", "grid[0].power[1]: must be > 0"),
    ("digits", "{kind: patch_study, method: idw, prototypes: 2}", "the special cases belong to the data set two_moons"),
    ("sine", "{kind: patch_study, method: idw, prototypes: 2, cases: wrong}", "grid[0].kind: patches need classes"),
    ("iris", "{kind: scikit_learn, method: [knn, kn]}", "6:40: grid[0].method[1]: unknown method 'kn' (did you mean"),
    ("iris", "{kind: scikit_learn, method: knn, n_neighbor: 3}", "unknown key (did you mean 'n_neighbors'?)"),
    (LOOKUP, "{kind: hash_table, similarity: [idw, dot]}", "6:42: grid[0].similarity[1]: unknown similarity 'dot'"),
    (LOOKUP, "{kind: hash_table, similarity: idw, weighting: [softmax, top_k], k: 2}", "6:73: grid[0].k: similarity"),
    ("[lookup, digits]", "{kind: hash_table, similarity: idw}", "a hash table needs the data set lookup, not digits"),
    (TEXT, "{kind: transformer_lm, method: idw, width: 8, heads: 3}", "expected a divisor of the width 8, got 3"),
    (TEXT, "{kind: transformer_lm, method: fc_relu}", "the weights of fc_relu are not a softmax, as attention layers"),
    (TEXT, "{kind: transformer_lm, method: idw, context: 0}", "input should be greater than or equal to 1, got 0"),
    (TEXT, "{method: idw, prototypes: 2}", "own.txt is a text, which the kind"),
    ("{name: text, path: own.txt, tokens: word}", "{kind: lstm_lm}", "input should be 'characters' or 'words'"),
    (TEXT.replace("}", ", tokens: words}"), "{kind: transformer_lm, method: idw}", "transformer_lm predicts"),
]


@pytest.mark.parametrize(("dataset", "block", "expected"), REFUSALS)
def test_a_wrong_block_is_refused_at_its_place(tmp_path: Path, dataset: str, block: str, expected: str) -> None:
    path = sweep_file(tmp_path, dataset, block)
    with pytest.raises(SpecError) as caught:
        read_sweep(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:") and "\n" not in message
    assert expected in message
