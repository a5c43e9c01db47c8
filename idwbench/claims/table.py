"""The table of claims, and that of their rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from idwbench.claims.findings import interval_label, number_label
from idwbench.claims.verdicts import CLAIMS, Judgement
from idwbench.report.render import escape_markdown
from idwbench.report.tables import Cell, Column, Table

__all__ = ["claims_table", "rules_table"]

_METHOD = (
    "n and effect (mean with 95 % bootstrap interval) are those of the comparison that speaks most against the claim, "
    "or of a claim that holds the least clear one. Signed-rank tests are one-sided, paired by seed, with Holm's "
    "correction over all claims, α = 0.05."
)
_COLOURS = {"holds": "green", "does not hold": "red", "not enough runs": "bright_black"}


def claims_table(judgements: Sequence[Judgement]) -> Table:
    """Return a row for each claim; its records for JSON have all findings, with full precision."""
    columns = []
    for name, text, options in _COLUMNS:
        colours = (_COLOURS[judgement.verdict] if name == "verdict" else "" for judgement in judgements)
        cells = (Cell(text(each), colour=colour) for each, colour in zip(judgements, colours, strict=True))
        columns.append(Column(name, name, name in ("#", "n"), tuple(cells), **options))
    return Table(
        title="",
        columns=tuple(columns),
        groups=(None,) * len(judgements),
        notes=_notes(judgements),
        records=lambda: [*map(_record, judgements)],
        flat=_flat,
    )


def _effect(judgement: Judgement) -> str:
    decisive = judgement.decisive
    numbers = (number_label(decisive.effect, decisive.unit), interval_label(decisive.interval, decisive.unit))
    effect = " ".join(filter(None, numbers))
    return f"{decisive.label}: {effect}" if effect else decisive.label


def _because(judgement: Judgement) -> str:
    reason = judgement.reason
    sentence = f"{reason}." if reason and not reason.endswith(".") else reason
    return " ".join(filter(None, (sentence, *judgement.remarks)))


# The test stands in the documentation; LaTeX has the sweeps in the notes.
_COLUMNS: tuple[tuple[str, Callable[[Judgement], str], dict[str, Any]], ...] = (
    ("#", lambda judgement: str(judgement.claim.number), {}),
    ("claim", lambda judgement: judgement.claim.statement, {"share": 0.16}),
    ("where", lambda judgement: judgement.claim.source, {}),
    ("test", lambda judgement: judgement.claim.test, {"share": 0.17, "not_in": ("rich",)}),
    ("n", lambda judgement: f"{judgement.n:,}", {}),
    ("effect", _effect, {"share": 0.13}),
    ("verdict", lambda judgement: judgement.verdict, {"share": 0.07}),
    ("because", _because, {"share": 0.2, "is_below": True}),
    ("sweep", lambda one: ", ".join(one.claim.sweep_files), {"share": 0.1, "not_in": ("rich", "latex")}),
)


def _record(judgement: Judgement) -> dict[str, Any]:
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
        **{name: getattr(decisive, name) for name in ("effect", "interval", "unit", "bound")},
        **{name: getattr(decisive, name) for name in ("p_value", "adjusted_p_value")},
        "sweeps": list(claim.sweep_files),
        "remarks": list(judgement.remarks),
        "findings": [dataclasses.asdict(finding) for finding in judgement.findings],
    }


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    low, high = record["interval"] or (None, None)
    joined = {name: " ".join(record[name]) for name in ("sweeps", "remarks")}
    flat = {name: value for name, value in record.items() if name not in ("interval", "findings")}
    return {**flat, **joined, "interval_low": low, "interval_high": high}


def _notes(judgements: Sequence[Judgement]) -> tuple[str, ...]:
    """Return the lines below the table: the method, and the sweeps that would supply missing runs."""
    missing: dict[str, list[str]] = {}
    for judgement in judgements:
        for file in judgement.claim.sweep_files if judgement.verdict == "not enough runs" else ():
            missing.setdefault(file, []).append(str(judgement.claim.number))
    sentences = (
        f"{file} supplies the runs for claim{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}."
        for file, numbers in missing.items()
    )
    return (_METHOD, *sentences)


def rules_table() -> str:
    """Return the rules of all claims as a Markdown table for the documentation."""
    lines = ["| # | claim | where | holds if | sweep |", "|--:|---|---|---|---|"]
    for claim in CLAIMS:
        sweeps = ", ".join(f"`{name}`" for name in claim.sweeps) or "none"
        texts = (escape_markdown(text) for text in (claim.statement, claim.source, claim.test))
        lines.append(f"| {claim.number} | {' | '.join(texts)} | {sweeps} |")
    return "\n".join(lines) + "\n"
