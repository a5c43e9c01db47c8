"""All claims in the order of their numbers, and the verdict on each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

from idwbench.claims.accuracy import ACCURACY_CLAIMS
from idwbench.claims.definitions import Claim, Origin, Remark
from idwbench.claims.evidence import Evidence, open_runs
from idwbench.claims.findings import Finding, correct, find
from idwbench.claims.formulas import FORMULA_CLAIMS
from idwbench.claims.grid import GRID_CLAIMS
from idwbench.claims.open_questions import OPEN_QUESTIONS
from idwbench.claims.patches import PATCH_CLAIMS
from idwbench.claims.quality import QUALITY_CLAIMS
from idwbench.results.records import StoredRun
from idwbench.results.store import Results

__all__ = ["CLAIMS", "Judgement", "Verdict", "judge", "judge_claims"]

Verdict = Literal["holds", "does not hold", "not enough runs"]
_SHOWN_REASONS = 3

_BY_THEME = (*ACCURACY_CLAIMS, *FORMULA_CLAIMS, *GRID_CLAIMS, *PATCH_CLAIMS, *QUALITY_CLAIMS, *OPEN_QUESTIONS)
CLAIMS = tuple(sorted(_BY_THEME, key=lambda claim: claim.number))


@dataclass(frozen=True)
class Judgement:
    """The verdict on one claim.

    Attributes:
        reason: Which comparisons fail, or what is missing; empty if the claim holds.
        findings: One for each comparison; all must support a claim that holds.
        remarks: What the verdict does not depend on.
    """

    claim: Claim
    verdict: Verdict
    reason: str
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...] = ()

    @property
    def decisive(self) -> Finding:
        """The finding that stands in tables: that against the claim, or without runs, or with the least clear effect.

        Of several it is the one whose interval is nearest to its bound or farthest beyond it.
        """
        for outcome in ("not supported", "not enough runs"):
            found = [finding for finding in self.findings if finding.outcome == outcome]
            if found:
                return min(found, key=_clearance)
        return min(self.findings, key=_clearance)

    @property
    def n(self) -> int:
        """The number of seeds of the decisive finding; of computed findings the number of points of all."""
        if all(finding.test == "computed" for finding in self.findings):
            return sum(finding.n for finding in self.findings)
        return self.decisive.n


def judge_claims(results: Results, runs: Iterable[StoredRun] | None = None) -> tuple[Judgement, ...]:
    """Return the verdicts on all claims of the paper from a database, in their order.

    `runs` are its runs if they are read already; those on other data than the paper's do not count.
    """
    if runs is None:
        evidence = Evidence.from_results(results)
    else:
        evidence = Evidence(runs, results.load_arrays, partial(open_runs, results))
    return tuple(found for origin in get_args(Origin) for found in _of_origin(evidence, CLAIMS, origin))


def _of_origin(evidence: Evidence, claims: Sequence[Claim], origin: Origin) -> tuple[Judgement, ...]:
    """Return the verdicts on the claims of one origin: tests of the others do not correct theirs."""
    return judge(evidence, [claim for claim in claims if claim.origin == origin])


def judge(evidence: Evidence, claims: Sequence[Claim]) -> tuple[Judgement, ...]:
    """Return the verdicts on `claims`, whose signed-rank tests are corrected together.

    A claim does not hold if one of its comparisons has enough runs and does not support it. Otherwise there are not
    enough runs if one of them lacks runs. It holds if all comparisons support it.
    """
    items = [tuple(claim.rule(evidence)) for claim in claims]
    parts = [[find(item) for item in found if not isinstance(item, Remark)] for found in items]
    corrected = iter(correct([finding for part in parts for finding in part]))
    judgements = []
    for claim, found, part in zip(claims, items, parts, strict=True):
        findings = tuple(next(corrected) for _ in part)
        remarks = tuple(item.text for item in found if isinstance(item, Remark))
        judgements.append(_judgement(claim, findings, remarks))
    return tuple(judgements)


def _judgement(claim: Claim, findings: tuple[Finding, ...], remarks: tuple[str, ...]) -> Judgement:
    against = sorted((finding for finding in findings if finding.outcome == "not supported"), key=_clearance)
    if against:
        return Judgement(claim, "does not hold", _joined([found.reason for found in against]), findings, remarks)
    if any(finding.outcome == "not enough runs" for finding in findings):
        missing = dict.fromkeys(text for finding in findings for text in finding.missing)
        return Judgement(claim, "not enough runs", _joined(list(missing)), findings, remarks)
    return Judgement(claim, "holds", "", findings, remarks)


def _clearance(finding: Finding) -> float:
    return 0.0 if finding.clearance is None else finding.clearance


def _joined(reasons: list[str]) -> str:
    others = len(reasons) - _SHOWN_REASONS
    return "; ".join(reasons[:_SHOWN_REASONS]) + (f"; and {others} more" if others > 0 else "")
