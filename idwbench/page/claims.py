"""The claims of the paper and the open questions, as the stored runs judge them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from idwbench.claims.table import claims_table
from idwbench.claims.verdicts import judge_claims
from idwbench.page.parts import sentences

if TYPE_CHECKING:
    from idwbench.results.store import Results

__all__ = ["Claims", "find_claims"]

_CLASSES = {"holds": "holds", "does not hold": "fails", "not enough runs": "open"}


@dataclass(frozen=True)
class Claims:
    """The claims that could be judged, the others, and notes; a claim is texts by column, and its ``style``."""

    rows: tuple[Mapping[str, str], ...]
    undecided: tuple[Mapping[str, str], ...]
    notes: tuple[str, ...]

    def count(self, style: str) -> int:
        """Return the number of claims with a verdict."""
        return sum(row["style"] == style for row in self.rows)


def find_claims(results: Results) -> Claims | None:
    """Return the claims; None if no run of the database bears on one."""
    judgements = judge_claims(results)
    if not any(judgement.n and judgement.claim.sweeps for judgement in judgements):
        return None
    table = claims_table(judgements)
    names = [column.name for column in table.columns]
    rows = [
        {**dict(zip(names, (cell.text for cell in cells), strict=True)), "style": _CLASSES[judgement.verdict]}
        for judgement, *cells in zip(judgements, *(column.cells for column in table.columns), strict=True)
    ]
    decided = tuple(row for row in rows if row["style"] != "open")
    undecided = tuple(row for row in rows if row["style"] == "open")
    return Claims(decided, undecided, sentences(table.notes))
