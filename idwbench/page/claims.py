"""The claims of the paper and the open questions, as the stored runs judge them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from idwbench.claims.table import claims_table
from idwbench.claims.verdicts import judge_claims
from idwbench.page.parts import sentences

if TYPE_CHECKING:
    from idwbench.claims.verdicts import Judgement
    from idwbench.results.store import Results

__all__ = ["ClaimRow", "Claims", "find_claims"]

_CLASSES = {"holds": "holds", "does not hold": "fails", "not enough runs": "open"}


@dataclass(frozen=True)
class ClaimRow:
    """One claim: texts of its row, and the class of its verdict for colours."""

    number: str
    statement: str
    source: str
    test: str
    n: str
    effect: str
    verdict: str
    because: str
    style: str


@dataclass(frozen=True)
class Claims:
    """The claims that could be judged, the number of the others, and notes."""

    rows: tuple[ClaimRow, ...]
    undecided: tuple[ClaimRow, ...]
    notes: tuple[str, ...]

    def count(self, style: str) -> int:
        """Return the number of claims with a verdict."""
        return sum(row.style == style for row in self.rows)


def find_claims(results: Results) -> Claims | None:
    """Return the claims; None if no run of the database bears on one."""
    judgements = judge_claims(results)
    if not any(judgement.n and judgement.claim.sweeps for judgement in judgements):
        return None
    table = claims_table(judgements)
    texts = {column.name: [cell.text for cell in column.cells] for column in table.columns}
    rows = [_row(judgement, {n: c[place] for n, c in texts.items()}) for place, judgement in enumerate(judgements)]
    decided = tuple(row for row in rows if row.style != "open")
    undecided = tuple(row for row in rows if row.style == "open")
    return Claims(decided, undecided, sentences(table.notes))


def _row(judgement: Judgement, texts: Mapping[str, str]) -> ClaimRow:
    return ClaimRow(
        number=texts["#"],
        statement=texts["claim"],
        source=texts["where"],
        test=texts["test"],
        n=texts["n"],
        effect=texts["effect"],
        verdict=texts["verdict"],
        because=texts["because"],
        style=_CLASSES[judgement.verdict],
    )
