import numpy as np
import pytest
from made import Store, assert_no_words_overlap, made_run, words
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from idwbench.figures.stored import stored_drawing
from idwbench.figures.style import class_colour
from idwbench.results.records import StoredRun
from idwbench.runs.config import run_config

EDGES = np.array([0.0, 0.5, 1.0, 2.0])


def study(seed: int = 0, **settings: object) -> StoredRun:
    given = {"prototypes": 16} | settings
    return made_run(run_config("two_moons", kind="patch_study", seed=seed, **given))  # type: ignore[arg-type]


def arrays_of(
    influence: list[float], patches: tuple[int, ...] = (0, 1, 5), error: float = 0.1
) -> dict[str, np.ndarray]:
    """The sizes η have 1, 2 and 3 times the influence and the calibration error."""
    sizes = np.array([[1.0], [2.0], [3.0]])
    return {
        "influence_edges": EDGES,
        "influence": sizes * influence,
        "calibration_patches": np.array(patches),
        "calibration_error": sizes * np.linspace(error, 2 * error, len(patches)),
        "patches_held": np.tile(patches, (3, 1)) - np.array([[1], [0], [0]]),
        "changed_test": np.array([[0, -1, 2], [3, -1, 5], [2000, -1, 500]]),
    }


def drawn(studies: list[StoredRun], arrays: list[dict[str, np.ndarray]]):
    store = Store({run.run_key: each for run, each in zip(studies, arrays, strict=True)})
    return stored_drawing("patch_influence", store, studies)  # type: ignore[arg-type]


def lines(axes: Axes) -> dict[str, np.ndarray]:
    return {to_hex(str(line.get_color())).upper(): np.asarray(line.get_ydata()) for line in axes.lines}


def test_influence_is_the_median_over_seeds_and_sizes_of_eta_have_their_own_lines() -> None:
    studies = [study(seed) for seed in range(3)]
    figure = drawn(studies, [arrays_of([0.2, top, 0.01]) for top in (0.1, 0.3, 0.15)]).figure
    one, two, three = figure.axes
    blue, orange, green = map(class_colour, range(3))
    np.testing.assert_allclose(lines(one)[blue], [0.2, 0.15, 0.01])
    np.testing.assert_allclose(one.lines[0].get_xdata(), np.sqrt([0.25 * 0.5, 0.5 * 1, 1 * 2]))
    np.testing.assert_allclose(lines(two)[green], [0.6, 0.45, 0.03])
    np.testing.assert_allclose(lines(three)[orange], [0.2, 0.3, 0.4])
    band = one.collections[0].get_paths()[0].vertices
    assert {0.125, 0.225} <= set(np.round(band[:, 1], 6)), "quartiles"
    assert one.get_ylim() == two.get_ylim() and one.get_ylim()[1] > 0.6, "the panels share an axis"
    assert any("median over 3 seeds" in text for text in words(figure))


def test_a_bin_is_drawn_if_at_least_half_of_the_seeds_have_points() -> None:
    rows = [[0.2, np.nan, np.nan], [0.4, 0.1, np.nan], [0.3, np.nan, 0.1], [0.3, 0.3, np.nan]]
    figure = drawn([study(seed) for seed in range(4)], [arrays_of(row) for row in rows]).figure
    np.testing.assert_allclose(lines(figure.axes[0])[class_colour(0)], [0.3, 0.2, np.nan])


def test_the_calibration_error_is_the_mean_over_the_seeds_with_that_many_patches() -> None:
    arrays = [arrays_of([0.1] * 3), arrays_of([0.1] * 3, (0, 1, 5, 20), 0.3), arrays_of([0.1] * 3, (0, 1, 5))]
    figure = drawn([study(seed) for seed in range(3)], arrays).figure
    axes = figure.axes[2]
    np.testing.assert_allclose(lines(axes)[class_colour(0)], [0.5 / 3, 0.7 / 3, 0.9 / 3, 0.6])
    assert list(axes.get_xticks()) == [0, 1, 5, 20]
    texts = " ".join(words(figure))
    assert "mean ± std over 3 seeds (0, 1, 5 patches), 1 seed (20 patches)" in texts
    assert (
        "other predictions that one patch changes, mean: 1 (exact η), 4 (logit margin 1), 1,250 (authors' η)" in texts
    )
    assert "right labels after 20 patches, mean: 19 (exact η), 20 (logit margin 1), 20 (authors' η)" in texts


def test_lines_are_epsilons_at_the_setting_that_has_most_in_common_with_others() -> None:
    studies = [study(prototypes=count) for count in (2, 16, 128)]
    studies += [study(epsilon=epsilon) for epsilon in (1e-2, 1.0)]
    drawing = drawn(studies, [arrays_of([place / 10] * 3) for place in range(5)])
    one, two, _ = drawing.figure.axes
    assert [float(line.get_ydata()[0]) for line in one.lines] == pytest.approx([0.1, 0.3, 0.4])
    np.testing.assert_allclose(lines(two)[class_colour(0)], [0.1] * 3)
    assert one.get_title() == "exact η, by ε"
    assert {"ε = 0.001", "ε = 0.01", "ε = 1"} <= set(words(drawing.figure))
    (line,) = drawing.left_out
    assert line == "not drawn: patch studies of 2 prototypes with ε=0.001, 128 prototypes with ε=0.001"


def test_lines_are_numbers_of_prototypes_if_nothing_else_varies() -> None:
    studies = [study(prototypes=count) for count in (128, 2, 16)]
    drawing = drawn(studies, [arrays_of([place / 10] * 3) for place in (3, 1, 2)])
    one, two, _ = drawing.figure.axes
    assert [float(line.get_ydata()[0]) for line in one.lines] == pytest.approx([0.1, 0.2, 0.3])
    np.testing.assert_allclose(lines(two)[class_colour(0)], [0.2] * 3)
    assert one.get_title() == "exact η, by prototypes" and drawing.left_out == ()


def test_the_largest_group_of_studies_is_drawn_and_the_others_are_counted() -> None:
    studies = [study(power=4), study(0), study(1), study(cases="wrong")]
    drawing = drawn(studies, [arrays_of([0.1] * 3)] * 4)
    assert drawing.left_out == ("not drawn: 2 other patch studies",)
    title = "patches of idw · 16 prototypes · p=2, ε=0.001, special cases · two_moons"
    assert any(title in text for text in words(drawing.figure))


def test_one_seed_without_patches_has_no_spread_and_no_line() -> None:
    empty = arrays_of([np.nan] * 3, (0,)) | {"changed_test": np.full((3, 2), -1)}
    figure = drawn([study()], [empty]).figure
    assert np.isnan(lines(figure.axes[0])[class_colour(0)]).all()
    texts = " ".join(words(figure))
    assert "one seed: no spread" in texts and "right labels" not in texts and "changes, mean" not in texts
    assert_no_words_overlap(figure)


def test_the_spread_of_a_lone_bin_is_drawn() -> None:
    studies = [study(seed) for seed in range(3)]
    figure = drawn(studies, [arrays_of([first, np.nan, np.nan]) for first in (0.1, 0.2, 0.4)]).figure
    segments = figure.axes[0].collections[1].get_segments()  # type: ignore[attr-defined]
    np.testing.assert_allclose([segment[:, 1] for segment in segments], [[0.15, 0.3]])


@pytest.mark.slow
def test_no_words_overlap_in_a_full_figure() -> None:
    studies = [study(seed, epsilon=epsilon) for epsilon in (1e-3, 1e-2, 0.1, 1) for seed in range(2)]
    assert_no_words_overlap(drawn(studies, [arrays_of([0.5, 0.2, 0.1], (0, 1, 5, 20, 100))] * 8).figure)
