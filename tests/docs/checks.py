"""What must hold after the blocks of a page were run, beside that they ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from blocks import blocks_of

from idwbench.exports.skops_model import TRUSTED_TYPES


@dataclass
class Outcome:
    """The namespace of the Python blocks, and all that was printed, line by line."""

    names: dict[str, Any]
    printed: list[str]


def text_blocks(page: str) -> list[str]:
    return [block.text for block in blocks_of(page) if block.language == "text"]


def readme(outcome: Outcome) -> None:
    assert {"model.pt", "patched.pt", "powers.yaml"} <= {path.name for path in Path.cwd().iterdir()}
    [table] = text_blocks("README.md")
    printed = {" ".join(line.split()) for line in outcome.printed}
    assert {" ".join(line.split()) for line in table.splitlines() if "test" in line or "code" in line} <= printed


def tutorial(outcome: Outcome) -> None:
    assert {"model.pt", "patched.pt", "moons.png", "two_moons.png"} <= {path.name for path in Path.cwd().iterdir()}
    [table] = text_blocks("docs/tutorial.md")
    printed = {" ".join(line.split()) for line in outcome.printed}
    assert {" ".join(line.split()) for line in table.splitlines() if "test" in line or "types" in line} <= printed


def reports(outcome: Outcome) -> None:
    printed = {line.rstrip() for line in outcome.printed}
    for example in text_blocks("docs/reports.md"):
        title, _, *header = example.splitlines()[:4]
        assert title in printed
        assert {line for line in header if "test" in line or "types" in line} <= printed


def runs(outcome: Outcome) -> None:
    [heading] = text_blocks("docs/runs.md")
    assert heading.split() in [line.split() for line in outcome.printed]
    assert outcome.names["replay"].identical and Path("idw.csv").exists()
    assert outcome.names["removal"].planned == (outcome.names["keys"][0],)


def patching(outcome: Outcome) -> None:
    assert Path("restored.pt").read_bytes() == Path("model.pt").read_bytes()
    patched = outcome.names["patched"]
    assert [patch.holds for patch in patched.recorded_patches()] == [True] * len(patched.patches)
    assert Path("without.pt").exists()


def explain(outcome: Outcome) -> None:
    assert Path("why.png").exists()
    assert [layer.name for layer in outcome.names["explained"].layers] == ["layer_0", "layer_1", "layer_2"]


def layers(outcome: Outcome) -> None:
    assert "\n".join(outcome.printed).count("torch.Size") == 6


def language_models(outcome: Outcome) -> None:
    bits, text, *others = outcome.printed
    assert 0 < float(bits) < 4 and text
    assert others[-1].endswith("(5, 17)")  # 16 characters and the unknown ones


def lstm(outcome: Outcome) -> None:
    perplexity, likely, *layers = outcome.printed
    assert 1 < float(perplexity) < 2 and likely.startswith("('crow', 0.")
    assert [line.split()[0] for line in layers] == ["lstm.input", "lstm.recurrent", "head"]
    assert "saw [a] crow" in layers[0]


def perceptrons(outcome: Outcome) -> None:
    assert outcome.printed[0] == "two_moons 20" and any("| layer_2 |" in line for line in outcome.printed)


def hash_tables(outcome: Outcome) -> None:
    assert outcome.names["capacities"] and outcome.names["hash_table"].projections


def attribution(outcome: Outcome) -> None:
    top, labels = outcome.names["top"], outcome.names["dataset"].train.labels
    assert top.shape == (3, 5) and (labels[top] == np.asarray(outcome.names["answers"])[:, None]).mean() > 0.5


def baselines(outcome: Outcome) -> None:
    accuracy, seconds = map(float, outcome.printed[-1].split())
    assert 0.5 < accuracy <= 1 and seconds >= 0


def dual_form(outcome: Outcome) -> None:
    [example] = [block.text for block in blocks_of("docs/dual_form.md") if block.language == "python"]
    said, holds, *_ = outcome.printed
    assert f"# {said}" in example and holds == "True"
    totals, memory = outcome.names["totals"], outcome.names["memory"]
    assert np.allclose(totals.sum(1), memory.attention(outcome.names["queries"]).sum(1), rtol=1e-4)
    assert outcome.names["shares"].shape == (2, 4000)


def estimators(outcome: Outcome) -> None:
    printed = "\n".join(outcome.printed)
    assert "['first' 'second']" in printed and "\nTrue" in printed


def exports(outcome: Outcome) -> None:
    files = {"model.onnx", "moons_model.py", "patched.onnx", "centroids.pt"}
    assert files <= {path.name for path in Path.cwd().iterdir()}
    printed = "\n".join(outcome.printed)
    assert "idw · 12 prototypes · p=4, ε=0.001" in printed and '"card": 1' in printed
    assert str(TRUSTED_TYPES) in outcome.printed and "['upper' 'lower']" in outcome.printed


CHECKS: dict[str, Callable[[Outcome], None]] = {
    "README.md": readme,
    "docs/attribution.md": attribution,
    "docs/baselines.md": baselines,
    "docs/dual_form.md": dual_form,
    "docs/estimators.md": estimators,
    "docs/exports.md": exports,
    "docs/explain.md": explain,
    "docs/hash_table.md": hash_tables,
    "docs/language_models.md": language_models,
    "docs/layers.md": layers,
    "docs/lstm.md": lstm,
    "docs/mlp.md": perceptrons,
    "docs/patching.md": patching,
    "docs/reports.md": reports,
    "docs/runs.md": runs,
    "docs/tutorial.md": tutorial,
}
