"""Benefit and harm of patches, and of what else a user could do to a network that is wrong on some test inputs.

The ways are the patches of the paper by the condition on the logits, local patches by radius and steepness, and

- ``override``: within the radius of the local patch the outputs are its value, elsewhere those of the network;
- ``fine_tuning``: steps of Adam on the wrong inputs until all are right;
- ``retraining``: the network trained again with each of these inputs added ten times.

Radii are the largest for which no right prediction of the training data changes; all is measured on the test data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from idwbench.data.dataset import Split
from idwbench.errors import PatchError
from idwbench.models.array_weights import ArrayNetwork, calibration_error, softmax
from idwbench.models.demands import STEEPNESS, Demand
from idwbench.models.modules import PrototypeNetwork
from idwbench.models.neighbours import several_nearest, squared_distances
from idwbench.models.patch_solution import prototypes_alone, solve
from idwbench.models.patch_study import CRITERIA, Labels, Study, wrong_cases
from idwbench.models.patches import Floats, PatchPrototypes
from idwbench.models.radii import Rows
from idwbench.models.repair import perturbed
from idwbench.runs.metrics import PATCH_MEASURES, PATCH_WAYS

__all__ = ["Retrain", "compare_ways"]

_PAPER: Mapping[str, Mapping[str, Any]] = {
    "exact": CRITERIA["exact"],
    "margin_1": CRITERIA["logit_margin"],
    "confidence_50": {"kind": "exact", "confidence": 0.5},
    "confidence_90": {"kind": "exact", "confidence": 0.9},
    "authors": CRITERIA["authors"],
}
_LOCAL = {
    "local": {"steepness_given": STEEPNESS},
    "local_s8": {"steepness_given": 8.0},
    "local_s2": {"steepness_given": 2.0},
}
# The radii of these are so small that it takes long to solve them as a whole.
_NOT_TOGETHER = ("local_s8", "local_s2")
_COUNTS = (1, 5, 20, 100, 300)
_NOISE_COPIES, _NEIGHBOURS = 20, 10
# A patch of this steepness and additional log weight has the whole weight within its radius, and none outside.
_HARD, _HEAVY = 1e12, 1e3
# Of fine-tuning: Adam with its usual rate. Smaller steps harm less, and correct fewer inputs together.
_STEPS, _RATE, _TUNED_ALONE = 1000, 1e-3, 20

# Trains a network again with inputs (n, features) and labels (n,) added; None if that diverges.
Retrain = Callable[[NDArray[np.float32], Labels], ArrayNetwork | None]


def compare_ways(
    base: ArrayNetwork,
    data: Mapping[str, Split],
    n_cases: int,
    image_shape: tuple[int, int] | None = None,
    retrain: Retrain | None = None,
) -> Study:
    """Return metrics and arrays of a comparison of the ways `PATCH_WAYS` by the measures `PATCH_MEASURES`.

    Each of the first `n_cases` wrong test inputs is mended alone: ``alone`` (ways, measures, cases). The first 1, 5,
    20, 100, 300 of these, and all of them, (``counts``) are mended in one network: ``one_by_one`` (ways, measures,
    counts) by the same patches, and ``together`` by patches that are solved as a whole. What a way cannot do is NaN; so
    is fine-tuning alone beyond 20 cases, and retraining with fewer than all. ``radii`` (3, cases) are those of local
    patches of the steepness 32, 8 and 2, ``nearest`` (cases,) the distances from the nearest training rows.

    The metrics are means over the cases by way and measure, with ``_together`` those of all cases in one network.

    Args:
        base: The network.
        data: The splits of its data, or of what stands for it.
        n_cases: Largest number of wrong test inputs.
        image_shape: Rows and columns of the inputs if they are images.
        retrain: Trains the network again; by default the way ``retraining`` is left out.
    """
    ways = _Comparison(base, data, n_cases, image_shape, retrain)
    n_cases = len(ways.labels)
    counts = [*(n for n in _COUNTS if n < n_cases), *([n_cases] if n_cases else [])]
    firsts = [slice(0, n) for n in counts]
    tables = {
        "alone": ways.measured([slice(case, case + 1) for case in range(n_cases)], as_whole=False),
        "one_by_one": ways.measured(firsts, as_whole=False),
        "together": ways.measured(firsts, as_whole=True),
    }
    metrics = {("cases", "patched"): float(n_cases)}
    for suffix, table in (("", tables["alone"]), ("_together", tables["together"][:, :, -1:])):
        for row, column in np.argwhere(np.isfinite(table).any(2)):
            metrics[PATCH_WAYS[row], f"{PATCH_MEASURES[column]}{suffix}"] = float(np.nanmean(table[row, column]))
    radii = np.array([one.radii for way in _LOCAL if (one := ways.patches(way, None)) is not None])
    nearest = np.sqrt(squared_distances(data["train"].inputs, ways.queries).min(0))
    if n_cases:
        relative = zip(_LOCAL, (radii / nearest).mean(1).tolist(), strict=True)
        metrics |= {(way, "relative_radius"): one for way, one in relative}
    known = {"inputs": ways.queries, "labels": ways.labels, "labels_before": ways.labels_before}
    return metrics, {**known, "counts": np.array(counts, np.int64), **tables, "radii": radii, "nearest": nearest}


class _Comparison:
    """The wrong test inputs of a network, and the points at which ways to mend these are measured.

    The points (m, features) are the test inputs, then copies of each wrong one: 20 with noise, and of an image those
    that are moved by a pixel. The arguments are those of `compare_ways`.
    """

    def __init__(
        self,
        base: ArrayNetwork,
        data: Mapping[str, Split],
        n_cases: int,
        image_shape: tuple[int, int] | None,
        retrain: Retrain | None,
    ) -> None:
        self._base, self._test, self._retrain = base, data["test"], retrain
        self._rows = Rows(base, data["train"].inputs, data["train"].labels)
        before = base.states(self._test.inputs)
        self.queries, self.labels, self._wrong = wrong_cases(before, self._test, n_cases)
        self.labels_before = before.outputs[self._wrong].argmax(1)
        parts = perturbed(self.queries, np.ptp(self._rows.inputs, axis=0), _NOISE_COPIES, image_shape)
        copies = np.concatenate([*parts.values()], axis=1).astype(np.float32)
        self._points = np.concatenate([self._test.inputs, copies.reshape(-1, copies.shape[2])])
        self._copies = np.arange(len(self._test), len(self._points)).reshape(copies.shape[:2])
        self._states = base.states(self._points)
        self._sq_dist = squared_distances(self._points, self.queries)
        self._columns = {query.tobytes(): column for column, query in enumerate(self.queries)}
        self._neighbours = _neighbours(self._test, self._wrong)
        self._fence = self._rows.fence(self.queries)
        self.patches = cache(self._patches)

    def measured(self, several: Sequence[slice], *, as_whole: bool) -> Floats:
        """Return the measures (ways, measures, n) of n networks, in each of which some cases are mended."""
        values = [
            [self._measures(self._outputs(way, cases, as_whole), cases) for cases in several] for way in PATCH_WAYS
        ]
        return np.reshape(values, (len(PATCH_WAYS), -1, len(PATCH_MEASURES))).transpose(0, 2, 1)

    def _measures(self, outputs: Floats | None, cases: slice) -> Floats:
        """Return the measures of outputs (m, outputs) at the points, in the order of their names."""
        if outputs is None:
            return np.full(len(PATCH_MEASURES), np.nan)
        rows, labels, n = self._wrong[cases], self.labels[cases], len(self._test)
        right, before = (one[:n].argmax(1) == self._test.labels for one in (outputs, self._states.outputs))
        others = ~np.isin(np.arange(n), rows)
        kept = outputs[self._copies[cases]].argmax(2) == labels[:, None]
        values = {
            "success": right[rows].mean(),
            "probability": softmax(outputs[rows])[np.arange(len(rows)), labels].mean(),
            "noise_kept": kept[:, :_NOISE_COPIES].mean(),
            "shift_kept": kept[:, _NOISE_COPIES:].mean() if kept.shape[1] > _NOISE_COPIES else np.nan,
            "neighbours_right": right[self._neighbours[cases]].mean() if self._neighbours.size else np.nan,
            "better": (right & ~before & others).sum(),
            "worse": (~right & before & others).sum(),
            "calibration_error": calibration_error(outputs[:n], self._test.labels),
            "logit_change": np.abs(outputs[:n] - self._states.outputs[:n])[others].max(initial=0.0),
        }
        return np.array([values[name] for name in PATCH_MEASURES], np.float64)

    def _outputs(self, way: str, cases: slice, as_whole: bool) -> Floats | None:
        """Return the outputs (m, outputs) at the points where some cases are mended; None if the way cannot."""
        if way == "unpatched":
            return self._states.outputs
        if way in ("fine_tuning", "retraining"):
            trained = self._trained(way, cases, as_whole)
            return None if trained is None else trained.states(self._points).outputs
        patches = self.patches(way, cases.stop if as_whole else None)
        if patches is None:
            return None
        patches = patches if as_whole else patches.take(cases)
        columns = [self._columns[key.tobytes()] for key in patches.keys]  # equal inputs share a patch of the whole
        return self._states.patched(patches.log_weights_at(self._sq_dist[:, columns]), patches.values)

    def _patches(self, way: str, n: int | None) -> PatchPrototypes | None:
        """Return the patches of the first `n` cases as a whole, or of each case alone; None if there are none."""
        if way in ("override", "local_half"):
            local = self.patches("local", n)
            if local is None or way == "local_half":
                return local and replace(local, radii=local.radii / 2)
            return replace(local, steepness=np.full(len(local), _HARD), log_peaks=local.log_peaks + _HEAVY)
        if n is not None and way in _NOT_TOGETHER:
            return None
        pairs = zip(self.queries[:n], self.labels[:n].tolist(), strict=True)
        demands = [Demand(query=query, label=label, **{**_PAPER, **_LOCAL}[way]) for query, label in pairs]
        try:
            if n is not None:
                return solve(self._base, demands, self._rows).prototypes(self._base)
            patches = prototypes_alone(self._base, demands, self._states.take(self._wrong))
        except PatchError:
            return None
        if way in _PAPER:
            return patches
        return self._fence.widest(patches, self._rows.cap)

    def _trained(self, way: str, cases: slice, as_whole: bool) -> ArrayNetwork | None:
        """Return the network that is tuned on some cases, or trained again with all; None of more or fewer."""
        base = self._base
        if way == "retraining":
            is_whole = as_whole and cases.stop == len(self.labels)
            return self._retrain(self.queries, self.labels) if self._retrain is not None and is_whole else None
        if not as_whole and (cases.stop - cases.start > 1 or cases.stop > _TUNED_ALONE):
            return None
        arrays = {"keys": np.array(base.keys, np.float32), "values": np.array(base.values, np.float32)}
        network = PrototypeNetwork.of(base.method, base.parameters, {**base.parameters, **arrays})
        inputs, labels = (torch.from_numpy(one[cases]) for one in (self.queries, self.labels))
        optimizer = torch.optim.Adam(network.parameters(), lr=_RATE)
        for _ in range(_STEPS):
            logits = network(inputs)
            if bool((logits.argmax(1) == labels).all()):
                break
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits, labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return ArrayNetwork.of(network)


def _neighbours(test: Split, wrong: Labels) -> Labels:
    """Return the rows (cases, n) of the nearest other inputs of the same class, from the nearest on."""
    n = min([_NEIGHBOURS, *np.bincount(test.labels)[test.labels[wrong]] - 1])
    nearest = np.empty((len(wrong), n), np.int64)
    for label in np.unique(test.labels[wrong]):
        cases, alike = np.flatnonzero(test.labels[wrong] == label), np.flatnonzero(test.labels == label)
        order = several_nearest(test.inputs[wrong[cases]], test.inputs[alike], n + 1)[0]
        nearest[cases] = alike[order[:, 1:]]  # the first is the input itself
    return nearest
