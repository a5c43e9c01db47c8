"""The table of claims as records and as cells of text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from idwbench.claims.labels import interval_label, number_label
from idwbench.claims.verdicts import Judgement

__all__ = ["HEADERS", "cells", "notes", "record"]

HEADERS = ("#", "claim", "where", "test", "n", "effect", "verdict", "because", "sweep")
_METHOD = (
    "n and effect (mean with 95 % bootstrap interval) are those of the comparison that speaks most against the claim, "
    "or of a claim that holds the least clear one. Signed-rank tests are one-sided, paired by seed, with Holm's "
    "correction over all claims, α = 0.05."
)


def record(judgement: Judgement) -> dict[str, Any]:
    """Return one claim for JSON: full precision, with all findings."""
    claim, decisive = judgement.claim, judgement.decisive
    return {
        "number": claim.number,
        "claim": claim.statement,
        "source": claim.source,
        "test": claim.test,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
        "comparison": decisive.label,
        "n": judgement.n,
        "effect": decisive.effect,
        "interval": decisive.interval,
        "unit": decisive.unit,
        "bound": decisive.bound,
        "p_value": decisive.p_value,
        "adjusted_p_value": decisive.adjusted_p_value,
        "sweeps": list(claim.sweep_files),
        "remarks": list(judgement.remarks),
        "findings": [dataclasses.asdict(finding) for finding in judgement.findings],
    }


def cells(judgement: Judgement) -> tuple[str, ...]:
    """Return the texts of one row, in the order of `HEADERS`."""
    claim, decisive = judgement.claim, judgement.decisive
    numbers = (number_label(decisive.effect, decisive.unit), interval_label(decisive.interval, decisive.unit))
    effect = " ".join(text for text in numbers if text)
    return (
        str(claim.number),
        claim.statement,
        claim.source,
        claim.test,
        f"{judgement.n:,}",
        f"{decisive.label}: {effect}" if effect else decisive.label,
        judgement.verdict,
        " ".join(text for text in (_sentence(judgement.reason), *judgement.remarks) if text),
        ", ".join(claim.sweep_files),
    )


def notes(judgements: Sequence[Judgement]) -> tuple[str, ...]:
    """Return the lines below the table: the method, and the sweeps that would supply missing runs."""
    missing: dict[str, list[str]] = {}
    for judgement in judgements:
        for file in judgement.claim.sweep_files if judgement.verdict == "not enough runs" else ():
            missing.setdefault(file, []).append(str(judgement.claim.number))
    return (
        _METHOD,
        *(
            f"{file} supplies the runs for {'claim' if len(numbers) == 1 else 'claims'} {', '.join(numbers)}."
            for file, numbers in missing.items()
        ),
    )


def _sentence(text: str) -> str:
    return f"{text}." if text and not text.endswith(".") else text
