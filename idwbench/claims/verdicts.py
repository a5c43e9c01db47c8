"""All claims in the order of their numbers, and the verdict on each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from idwbench.claims import accuracy, formulas, grid, open_questions, patches, quality
from idwbench.claims.definitions import Claim, Origin
from idwbench.claims.evidence import Evidence
from idwbench.claims.findings import Finding, correct
from idwbench.results.records import StoredRun
from idwbench.results.store import Results

__all__ = ["CLAIMS", "Judgement", "Verdict", "judge", "judge_claims"]

Verdict = Literal["holds", "does not hold", "not enough runs"]
_SHOWN_REASONS = 3

_THEMES = (accuracy, formulas, grid, open_questions, patches, quality)
_BY_THEME = (member for theme in _THEMES for member in vars(theme).values() if isinstance(member, Claim))
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
    """Return the verdicts on all claims of the paper and on the open questions, in the order of their numbers.

    A claim *does not hold* if one of its comparisons has enough runs and does not support it. Otherwise there are *not
    enough runs* if a comparison lacks runs, and the claim *holds* if all comparisons support it. A comparison is a
    one-sided Wilcoxon signed-rank test, paired by seed, at α = 0.05; a bound that must hold for every seed; or a
    computation without runs. The p-values of the paper's claims are corrected together by Holm's method, and
    separately those of the open questions.

    Args:
        results: The database.
        runs: The only runs that count for the claims of the paper; by default all runs of the database.

    Returns:
        One `Judgement` for each claim, with the verdict, its reason, and a finding for each comparison.

    Raises:
        ResultsError: the database cannot be read.

    Example:
        >>> from idwbench import Results, judge_claims
        >>> for judgement in judge_claims(Results("results.db")):  # doctest: +SKIP
        ...     print(judgement.claim.number, judgement.verdict, judgement.reason)
    """
    evidence = Evidence(results, None if runs is None else [run.run_key for run in runs])
    by_origin = ([claim for claim in CLAIMS if claim.origin == origin] for origin in get_args(Origin))
    return tuple(judgement for claims in by_origin for judgement in judge(evidence, claims))


def judge(evidence: Evidence, claims: Sequence[Claim]) -> tuple[Judgement, ...]:
    """Return the verdicts on `claims`, whose signed-rank tests are corrected together.

    A claim does not hold if one of its comparisons has enough runs and does not support it. Otherwise there are not
    enough runs if one of them lacks runs. It holds if all comparisons support it.
    """
    shown = [claim.rule(evidence) for claim in claims]
    corrected = iter(correct([item for items in shown for item in items if isinstance(item, Finding)]))
    return tuple(
        _judgement(
            claim,
            tuple(next(corrected) for item in items if isinstance(item, Finding)),
            tuple(item for item in items if isinstance(item, str)),
        )
        for claim, items in zip(claims, shown, strict=True)
    )


def _judgement(claim: Claim, findings: tuple[Finding, ...], remarks: tuple[str, ...]) -> Judgement:
    against = sorted((finding for finding in findings if finding.outcome == "not supported"), key=_clearance)
    if against:
        return Judgement(claim, "does not hold", _joined([finding.reason for finding in against]), findings, remarks)
    if any(finding.outcome == "not enough runs" for finding in findings):
        missing = dict.fromkeys(text for finding in findings for text in finding.missing)
        return Judgement(claim, "not enough runs", _joined(list(missing)), findings, remarks)
    return Judgement(claim, "holds", "", findings, remarks)


def _clearance(finding: Finding) -> float:
    return 0.0 if finding.clearance is None else finding.clearance


def _joined(reasons: list[str]) -> str:
    others = len(reasons) - _SHOWN_REASONS
    return "; ".join(reasons[:_SHOWN_REASONS]) + (f"; and {others} more" if others > 0 else "")
