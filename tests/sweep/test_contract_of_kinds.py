"""What holds for runs of every kind in sweeps: their plans, training, interruption, tables, columns and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from texts import text_file

from idwbench.errors import SpecError, TrainingError
from idwbench.models.saved_model import stored_model
from idwbench.report.leaderboard import leaderboard
from idwbench.report.render import TABLE_FORMATS, render
from idwbench.report.summaries import section_tables, summarise
from idwbench.results.store import Results
from idwbench.runs.config import RunConfig
from idwbench.runs.kinds.models import MODELS
from idwbench.sweep.execution import run_sweep
from idwbench.sweep.measurement import measure_runs, unmeasured_runs
from idwbench.sweep.observer import Observer
from idwbench.sweep.spec import plan, read_sweep

MOONS = "{name: two_moons, train_per_class: 10, test_per_class: 8, holdout_per_class: 10}"
LOOKUP = "{name: lookup, items: 4, dimensions: 3, queries: 16, noise: 0.1}"
TEXT = "{name: text, path: own.txt}"
SMALL = "depth: 1, width: 8, heads: 2, context: 8"
# For each kind the data set, blocks of a grid, and the number of runs with two seeds.
KINDS = {
    "prototypes": (MOONS, ["{method: [idw, inv_dist], prototypes: 2, power: [1, 2]}"], 8),
    "baseline": (MOONS, ["{kind: baseline, method: [kmeans, kmeans_per_class, samples], prototypes: 4}"], 6),
    "patch_study": (MOONS, ["{kind: patch_study, cases: [wrong, special], method: idw, prototypes: 2}"], 4),
    "kernel_regression": (
        MOONS,
        [
            "{kind: kernel_regression, kernel: [gaussian, boxcar], bandwidth: [0.1, loo]}",
            "{kind: kernel_regression, kernel: shepard, epsilon: [0, 0.1]}",
        ],
        6,
    ),
    "scikit_learn": (
        MOONS,
        [
            "{kind: scikit_learn, method: knn, n_neighbors: [1, 3]}",
            "{kind: scikit_learn, method: [nearest_centroid, svc]}",
            "{kind: scikit_learn, method: random_forest, n_estimators: 3}",
        ],
        6,
    ),
    "hash_table": (
        LOOKUP,
        [
            "{kind: hash_table, weighting: exact_match}",
            "{kind: hash_table, similarity: [inner_product, idw], scaling: [none, qk_norm]}",
            "{kind: hash_table, similarity: idw, power: 4, projections: linear, learning_rate: [0.01, 0.1]}",
        ],
        14,
    ),
    "network": (
        MOONS,
        [
            "{kind: network, encoder: mlp, width: [4, 8], learning_rate: [0.001, 0.01]}",
            "{kind: network, encoder: mlp, width: 4, head: idw, prototypes: 3, power: [2, 4], patches: 5}",
        ],
        12,
    ),
    "mlp": (MOONS, ["{kind: mlp, width: 6, depth: [1, 2]}"], 4),
    "transformer_lm": (
        TEXT,
        [
            f"{{kind: transformer_lm, method: idw, power: [1, 2], {SMALL}}}",
            f"{{kind: transformer_lm, method: scaled_dot, learning_rate: [0.001, 0.01], {SMALL}}}",
        ],
        8,
    ),
    "lstm_lm": (TEXT, ["{kind: lstm_lm, embedding: 4, width: [6, 8], context: 8}"], 4),
}
# Metrics of the cost of a training, which differ from one to the next.
COSTS = {"seconds_per_step", "activation_memory", "fit_seconds", "predict_seconds"}


def test_each_kind_is_here() -> None:
    assert KINDS.keys() == MODELS.keys()


def sweep_file(folder: Path, dataset: str, blocks: list[str]) -> Path:
    text_file(folder)
    path = folder / "kinds.yaml"
    lines = "".join(f"  - {block}\n" for block in blocks)
    path.write_text(f"name: kinds\ndataset: {dataset}\nprotocol: {{epochs: 2}}\nseeds: 2\ngrid:\n{lines}")
    return path


@pytest.fixture(scope="module", params=KINDS)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """A kind, its sweep file, and the database after the sweep."""
    folder = tmp_path_factory.mktemp("kinds")
    dataset, blocks, n = KINDS[request.param]
    path, db = sweep_file(folder, dataset, blocks), folder / "results.db"
    status = run_sweep(path, db, jobs=1)
    assert (status.complete, status.total) == (n, n)
    return request.param, path, db


def of_kind(results: Results, kind: str):
    return [run for run in results.find_runs() if run.config.model.kind == kind]


def test_a_plan_has_distinct_runs_which_json_keeps(stored) -> None:
    kind, path, _ = stored
    runs = plan(read_sweep(path))
    assert {run.model.kind for run in runs} == {kind}
    assert len({run.run_key for run in runs}) == len(runs)
    assert len({(run.model.label, run.protocol.learning_rate, run.seed) for run in runs}) == len(runs)
    for run in runs:
        again = RunConfig.model_validate_json(run.model_dump_json())
        assert (again, again.run_key) == (run, run.run_key)


def test_nothing_is_trained_again(stored) -> None:
    _, path, db = stored
    before = {run.run_key: (run.attempt, run.finished_at) for run in Results(db).find_runs()}
    run_sweep(path, db, jobs=1)
    assert {run.run_key: (run.attempt, run.finished_at) for run in Results(db).find_runs()} == before
    assert {attempt for attempt, _ in before.values()} == {1}


class Interrupting(Observer):
    """Interrupts after the first epoch, or the first stack of runs without epochs."""

    def epoch(self, configs: object, epoch: int) -> None:
        raise KeyboardInterrupt

    def finished(self, results: object) -> None:
        raise KeyboardInterrupt


def test_an_interrupted_sweep_goes_on_to_the_same_bytes(stored, tmp_path: Path) -> None:
    _, path, db = stored
    other = tmp_path / "other.db"
    with pytest.raises(KeyboardInterrupt):
        run_sweep(path, other, jobs=1, observer=Interrupting())
    assert not {"running", "failed"} & {run.state for run in Results(other).find_runs()}
    run_sweep(path, other, jobs=1)
    assert not (tmp_path / "other.db.checkpoints").exists()
    whole, part = Results(db), Results(other)
    for run in whole.find_runs():
        again = part.find_run(run.run_key)
        for one, two in zip(*(sorted(timeless(found).items()) for found in (run, again)), strict=True):
            assert one == two
        assert part.load_curve(run.run_key) == whole.load_curve(run.run_key)
        arrays, expected = part.load_arrays(run.run_key), whole.load_arrays(run.run_key)
        assert {name: array.tobytes() for name, array in arrays.items()} == {
            name: array.tobytes() for name, array in expected.items()
        }


def timeless(run) -> dict[tuple[str, str], float]:
    return {key: value for key, value in run.metrics.items() if key[1] not in COSTS}


@pytest.mark.parametrize("form", TABLE_FORMATS)
def test_every_table_shows_what_differs_in_every_format(stored, form: str) -> None:
    kind, _, db = stored
    runs = of_kind(Results(db), kind)
    report = summarise(runs, intervals=True)
    for section in report:
        rows = [(row.model.method, row.model.parameters_label, row.model.prototypes) for row in section.rows]
        assert len(set(rows)) == len(rows) and (rows or kind == "patch_study")
    assert render(section_tables(report), form)
    if kind != "patch_study":
        assert render([leaderboard(runs, intervals=True)], form)


def test_columns_of_data_frames_hold_settings_and_metrics(stored) -> None:
    kind, _, db = stored
    frame = Results(db).to_frame().set_index("model").loc[[kind]]
    assert len(frame) == KINDS[kind][2]
    settings = {name for block in KINDS[kind][1] for name in block.replace("{", "").split(": ")[0:1]}
    assert settings - {"kind"} <= set(frame.columns)
    metric = {"hash_table": "recall", "transformer_lm": "bits_per_character", "lstm_lm": "bits_per_character"}
    if kind != "patch_study":
        assert frame[f"test_{metric.get(kind, 'accuracy')}"].notna().all()
    has_prototypes = kind in ("prototypes", "baseline")
    assert ("train_coverage" in frame and frame["train_coverage"].notna().all()) == has_prototypes or kind in (
        "network",
        "scikit_learn",
    )


def test_only_prototypes_have_a_model_file_and_no_run_lacks_a_measure(stored) -> None:
    kind, _, db = stored
    results = Results(db)
    run = of_kind(results, kind)[0]
    assert unmeasured_runs(results.find_runs()) == []
    assert measure_runs(results, [run]) == 0
    if kind == "prototypes":
        assert stored_model(results, run).config == run.config
    else:
        with pytest.raises(TrainingError, match=f"a run of kind {kind} has no model"):
            stored_model(results, run)


# By data set: a block, and what the message has.
REFUSALS = {
    MOONS: {
        "{kind: basline, method: kmeans}": "6:12: grid[0].kind: unknown kind of model 'basline' (did you mean 'baselin",
        "{kind: [baseline, 3], method: kmeans, prototypes: 3}": "6:23: grid[0].kind[1]: unknown kind of model 3 (expec",
        "{kind: baseline, method: idw, prototypes: 3}": "grid[0].method: input should be 'kmeans', 'kmeans_per_class' ",
        "{kind: baseline, method: kmeans, prototypes: 3, power: 2}": "grid[0].power: unknown key",
        "{kind: baseline, method: kmeans, prototypes: 3, cases: wrong}": "grid[0].cases: unknown key",
        "{kind: baseline, prototypes: 3}": "grid[0]: 'method' is missing",
        "{method: idw, prototypes: 3, cases: wrong}": "grid[0].cases: ",
        "{method: idw, prototypes: 3, n_cases: 5}": "grid[0].n_cases: ",
        "{method: kmeans, prototypes: 3}": "grid[0].method: unknown method 'kmeans'",
        "{kind: patch_study, method: [idw, gaussian], prototypes: 3}": "6:39: grid[0].method[1]: only idw networks can",
        "{kind: patch_study, method: idw, prototypes: 3, epsilon: [1, 0]}": "6:66: grid[0].epsilon[1]: expected a numb",
        "{kind: patch_study, method: idw, prototypes: 3, cases: wong}": "grid[0].cases: input should be 'special' or '",
        "{kind: patch_study, method: idw, prototypes: 3, cases: wrong, n_cases: 0}": "grid[0].n_cases: ",
        "{kind: patch_study, method: idw, prototypes: 3, n_cases: 5}": "6:62: grid[0].n_cases: only wrong inputs have ",
        "{kind: kernel_regression, bandwidth: 1}": "grid[0]: 'kernel' is missing",
        "{kind: kernel_regression, kernel: [gaussian, gausian]}": "6:50: grid[0].kernel[1]: unknown kernel 'gausian' (",
        "{kind: kernel_regression, kernel: 3}": "grid[0].kernel: unknown kernel 3",
        "{kind: kernel_regression, kernel: [[boxcar]]}": "unknown kernel ['boxcar']",
        "{kind: kernel_regression, kernel: boxcar, bandwidth: [1, 0]}": "bandwidth[1]: must be >= 1e-12, got 0",
        "{kind: kernel_regression, kernel: boxcar, bandwidth: scot}": "grid[0].bandwidth: 'scot' is neither a n",
        "{kind: kernel_regression, kernel: shepard, bandwidth: 1}": "grid[0].bandwidth: kernel 'shepard' does not take",
        "{kind: kernel_regression, kernel: boxcar, prototypes: 3}": "grid[0].prototypes: kernel 'boxcar' does not take",
        "{method: idw, prototypes: 3, kernel: boxcar}": "grid[0].kernel: ",
        "{method: idw, prototypes: 3, bandwidth: 2}": "grid[0].bandwidth: method 'idw' does not take 'bandwidth'",
        "{kind: mlp, depth: [2, 5]}": "grid[0].depth[1]: input should be less than or equal to 4, got 5",
        "{kind: mlp, record: [true, maybe]}": "grid[0].record[1]: input should be a valid boolean",
        "{kind: mlp, record_dtype: float16}": "grid[0].record_dtype: only with record: true",
        "{kind: mlp, recrod: true}": "(did you mean 'record'?)",
        "{kind: mlp, prototypes: 3}": "grid[0].prototypes",
        "{method: idw, prototypes: 3, record: true}": "grid[0].record",
        "{kind: transformer_lm, method: idw}": "transformer_lm needs a text, and the data set two_moons is",
        "{kind: network}": "grid[0]: 'encoder' is missing",
        "{kind: network, encoder: [mlp, cnn]}": "grid[0].encoder[1]: unknown encoder 'cnn'",
        "{kind: network, encoder: vit_tiny, attention: [idw, idv]}": "grid[0].attention[1]: unknown attention 'idv' (d",
        "{kind: network, encoder: vit_tiny, heads: [4, 5]}": "grid[0].heads[1]: 5 heads do not divide a width of 32",
        "{kind: network, encoder: mlp, head: idw}": "grid[0]: 'prototypes' is missing",
        "{kind: network, encoder: mlp, head: idw, prototypes: 3, power: [2, 0]}": "grid[0].power[1]: must be > 0",
        "{kind: network, encoder: mlp, atention: idw}": "(did you mean 'attention'?)",
        "{method: idw, prototypes: 3, encoder: mlp}": "grid[0].encoder: ",
    },
    "digits": {
        "{kind: patch_study, method: idw, prototypes: 2, cases: special}": "grid[0].cases: the special cases belong to",
        "{kind: patch_study, method: idw, prototypes: 2}": "the special cases belong to the data set two_moons, not to",
    },
    "sine": {
        "{kind: patch_study, method: idw, prototypes: 2, cases: wrong}": "grid[0].kind: patches need classes, not a re",
        "{kind: mlp}": "mlp needs classes, and the data set sine has none",
    },
    "iris": {
        "{kind: scikit_learn}": "grid[0]: 'method' is missing",
        "{kind: scikit_learn, method: [knn, kn]}": "6:40: grid[0].method[1]: unknown method 'kn' (did you mean 'knn'?)",
        "{kind: scikit_learn, method: knn, n_neighbor: 3}": "n_neighbor: unknown key (did you mean 'n_neighbors'?)",
        "{kind: scikit_learn, method: knn, n_neighbors: [1, 0]}": "n_neighbors[1]: must be >= 1, got 0",
        "{kind: scikit_learn, method: [knn, ridge]}": "grid[0].method[1]: ridge supports regression, and iris has clas",
        "{method: idw, prototypes: 3, n_neighbors: 2}": "n_neighbors: method 'idw' does not take 'n_neighbors'",
    },
    LOOKUP: {
        "{kind: hash_table, similarity: [idw, dot]}": "6:42: grid[0].similarity[1]: unknown similarity 'dot'",
        "{kind: hash_table, similarity: idw, weighting: [softmax, exact_match]}": "6:36: grid[0].similarity: weighting",
        "{kind: hash_table, similarity: idw, weighting: [softmax, top_k], k: 2}": "6:73: grid[0].k: similarity 'idw' w",
        "{kind: hash_table}": "6:5: grid[0]: 'similarity' is missing",
    },
    "[lookup, digits]": {
        "{kind: hash_table, similarity: idw}": "a hash table needs the data set lookup, not digits",
    },
    TEXT: {
        "{kind: transformer_lm, method: idw, width: 8, heads: 3}": "expected a divisor of the width 8, got 3",
        "{kind: transformer_lm, method: idv}": "unknown method 'idv' (did you mean 'idw'?)",
        "{kind: transformer_lm, method: fc_relu}": "the weights of fc_relu are not a softmax, as attention layers need",
        "{kind: transformer_lm, method: idw, powers: [1, 2]}": "unknown key (did you mean 'power'?)",
        "{kind: transformer_lm, method: idw, context: 0}": "input should be greater than or equal to 1, got 0",
        "{method: idw, prototypes: 2}": "own.txt is a text, which the kind",
    },
    "{name: text, path: none.txt}": {
        "{kind: lstm_lm}": "none.txt: no such file",
    },
    "{name: text, path: own.txt, tokens: word}": {
        "{kind: lstm_lm}": "input should be 'characters' or 'words', got 'word'",
    },
    "{name: text, path: own.txt, tokens: words}": {
        "{kind: transformer_lm, method: idw}": "kind: transformer_lm predicts characters",
    },
}


@pytest.mark.parametrize(
    ("dataset", "block", "expected"),
    [(dataset, block, expected) for dataset, rows in REFUSALS.items() for block, expected in rows.items()],
)
def test_a_wrong_block_is_refused_at_its_place(tmp_path: Path, dataset: str, block: str, expected: str) -> None:
    path = sweep_file(tmp_path, dataset, [block])
    with pytest.raises(SpecError) as caught:
        read_sweep(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:") and "\n" not in message
    assert expected in message
