"""What patches change, from stored patch studies."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from idwbench.attention.scores import get_method
from idwbench.errors import ConfigError
from idwbench.figures.collected.patches import KIND
from idwbench.figures.lines import DASHES
from idwbench.figures.lines import Line as Curve
from idwbench.figures.patch_influence import draw_patch_influence
from idwbench.figures.registry import figure_of_runs
from idwbench.figures.style import Drawing, class_colour
from idwbench.report.labels import count_label
from idwbench.report.summaries import summarise
from idwbench.results.records import StoredRun
from idwbench.runs.datasets import dataset_identity

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["patch_influence_figure"]

# The sizes of η in the order of the arrays of a study.
_SIZES = ("exact η", "logit margin 1", "authors' η")
_EXACT = 0

Setting = tuple[int, float]  # prototypes, epsilon
Arrays = Mapping[str, NDArray[Any]]


@figure_of_runs("patch_influence")
def patch_influence_figure(store: Results, runs: Sequence[StoredRun], data_dir: Path | None = None) -> Drawing:
    """The change of class probabilities against the distance from a patch, and calibration after many patches.

    Raises:
        ConfigError: no complete patch study.
    """
    studies, left_out = _studies(runs)
    default = _default_setting(studies)
    shown, varied = _varied(studies, default)
    arrays = {setting: [store.load_arrays(run.run_key) for run in studies[setting]] for setting in shown}
    places = dict(zip([setting for setting in shown if setting != default], range(len(shown)), strict=False))
    settings = []
    for setting in shown:
        prototypes, epsilon = setting
        label = f"ε = {epsilon:g}" if varied == "ε" else count_label(prototypes, "prototype")
        # The default setting looks like the exact η in the other panels.
        place = places.get(setting)
        colour = class_colour(0 if place is None else len(_SIZES) + place)
        dash = DASHES[0 if place is None else 1 + place % (len(DASHES) - 1)]
        settings.append(_influence(arrays[setting], _EXACT, label, colour, dash))
    first = studies[default][0]
    chosen = arrays[default]
    figure = draw_patch_influence(
        settings,
        [_influence(chosen, size, label, class_colour(size), DASHES[size]) for size, label in enumerate(_SIZES)],
        [_calibration(chosen, size, label) for size, label in enumerate(_SIZES)],
        varied=varied,
        notes=[*_notes(chosen), f"{first.config.model.label} · {summarise([first]).sections[0].title}"],
    )
    omitted = [setting for setting in studies if setting not in shown]
    if omitted:
        words = ", ".join(
            f"{count_label(prototypes, 'prototype')} with ε={epsilon:g}" for prototypes, epsilon in omitted
        )
        left_out.append(f"not drawn: patch studies of {words}")
    return Drawing(figure, tuple(left_out))


def _studies(runs: Sequence[StoredRun]) -> tuple[dict[Setting, list[StoredRun]], list[str]]:
    """Return the complete studies by setting, of which all else is equal and most are stored, and what is left out."""
    complete = [run for run in runs if run.config.model.kind == KIND and run.state == "complete"]
    if not complete:
        hint = "run the sweep paper_patches_two_moons or paper_patches_mnist"
        raise ConfigError(f"no complete run of kind '{KIND}'", location=("figure",), hint=hint)
    groups: dict[str, list[StoredRun]] = defaultdict(list)
    for run in complete:
        config, model = run.config, run.config.model.model_dump(exclude={"prototypes"})
        del model["parameters"]["epsilon"]
        data = f"{dataset_identity(config.dataset)}{config.protocol.model_dump_json()}"
        groups[data + json.dumps(model, sort_keys=True)].append(run)
    chosen = max(groups.values(), key=len)
    found: dict[Setting, list[StoredRun]] = defaultdict(list)
    for run in chosen:
        model_config = run.config.model
        found[model_config.prototypes, float(model_config.parameters["epsilon"] or 0)].append(run)
    others = len(complete) - len(chosen)
    return dict(sorted(found.items())), [f"not drawn: {others} other patch studies"] if others else []


def _default_setting(studies: Mapping[Setting, Sequence[StoredRun]]) -> Setting:
    """Return the setting that differs from the most others in one number alone, at best that of the default ε."""
    others = {one: sum(one[0] == other[0] or one[1] == other[1] for other in studies) for one in studies}
    central = [setting for setting, n in others.items() if n == max(others.values())]
    method = get_method(next(iter(studies.values()))[0].config.model.method)
    usual = math.log(float(method.resolve({})["epsilon"] or 0))
    epsilon = min((epsilon for _, epsilon in central), key=lambda epsilon: abs(math.log(epsilon) - usual))
    counts = [prototypes for prototypes, found in central if found == epsilon]
    return counts[len(counts) // 2], epsilon


def _varied(studies: Mapping[Setting, Sequence[StoredRun]], default: Setting) -> tuple[list[Setting], str]:
    """Return the settings that differ from the default in ε, or in prototypes if none does, and the name of these."""
    epsilons = [setting for setting in studies if setting[0] == default[0]]
    counts = [setting for setting in studies if setting[1] == default[1]]
    return (counts, "prototypes") if len(epsilons) == 1 and len(counts) > 1 else (epsilons, "ε")


def _influence(studies: Sequence[Arrays], size: int, label: str, colour: str, dash: Any) -> Curve:
    edges = np.asarray(studies[0]["influence_edges"], np.float64)
    # The geometric mean of the edges of a bin; the first, from 0, is drawn as if it were as wide as the second.
    lower = np.concatenate([[edges[1] ** 2 / edges[2]], edges[1:-1]])
    return Curve(label, colour, dash, np.sqrt(lower * edges[1:]), np.stack([a["influence"][size] for a in studies]))


def _calibration(studies: Sequence[Arrays], size: int, label: str) -> Curve:
    counts = sorted({int(n) for arrays in studies for n in arrays["calibration_patches"]})
    values = np.full((len(studies), len(counts)), np.nan)
    for row, arrays in zip(values, studies, strict=True):
        row[np.searchsorted(counts, arrays["calibration_patches"])] = arrays["calibration_error"][size]
    return Curve(label, class_colour(size), DASHES[size], np.array(counts, np.float64), values)


def _notes(studies: Sequence[Arrays]) -> list[str]:
    """Return sentences with the predictions that patches change, and the patches that hold."""
    split = "holdout" if "changed_holdout" in studies[0] else "test"
    changed = np.concatenate([np.asarray(arrays[f"changed_{split}"]) for arrays in studies], axis=1)
    changed = changed[:, (changed >= 0).all(0)]
    most = max(int(arrays["calibration_patches"][-1]) for arrays in studies)
    held = np.stack([a["patches_held"][:, -1] for a in studies if a["calibration_patches"][-1] == most], 1)
    sentence = f"all three: {split} points"
    if changed.size:
        sentence += f"; other predictions that one patch changes, mean: {_by_size(changed)}"
    if not most:
        return [sentence]
    return [sentence, f"right labels after {most} patch{'es' if most > 1 else ''}, mean: {_by_size(held)}"]


def _by_size(numbers: NDArray[Any]) -> str:
    """Return the means of `numbers` (3, n)."""
    means = [f"{mean:.3g}" if mean < 100 else f"{mean:,.0f}" for mean in numbers.mean(1)]
    return ", ".join(f"{mean} ({label})" for mean, label in zip(means, _SIZES, strict=True))
