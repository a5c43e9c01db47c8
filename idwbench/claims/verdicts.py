"""All claims in the order of their numbers, the verdict on each, and the table of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from idwbench.claims import formulas, idw, methods, open_questions
from idwbench.claims.evidence import Evidence
from idwbench.claims.findings import Claim, Finding, findings, outcome_label, telling
from idwbench.report.tables import Column, Table
from idwbench.results.store import Results

__all__ = ["CLAIMS", "Judgement", "claims_table", "judge", "judge_claims"]

_SHOWN_REASONS = 3
_METHOD = (
    "n and effect (mean with its interval by Student's t) are those of the comparison that speaks most against the "
    "claim, or of a claim that holds the least clear one. The intervals of one claim contain all its means at once "
    "with a confidence of 95 %. A claim is undecided if an interval contains a claimed bound."
)
_COLOURS = {"holds": "green", "does not hold": "red", "undecided": "yellow", "not enough runs": "bright_black"}

_THEMES = (formulas, idw, methods, open_questions)
_BY_THEME = (member for theme in _THEMES for member in vars(theme).values() if isinstance(member, Claim))
CLAIMS = tuple(sorted(_BY_THEME, key=lambda claim: claim.number))


@dataclass(frozen=True)
class Judgement:
    """The verdict on one claim.

    Attributes:
        findings: One for each comparison; all must support a claim that holds.
        remarks: What the verdict does not depend on.
    """

    claim: Claim
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...] = ()

    @cached_property
    def decisive(self) -> Finding:
        """The finding that stands in tables, the first of `idwbench.claims.findings.telling`."""
        return telling(self.findings)[0]

    @property
    def verdict(self) -> str:
        """``holds``, ``does not hold`` or ``undecided``; ``not enough runs`` if it cannot be judged."""
        return outcome_label(self.decisive.outcome)

    @property
    def reason(self) -> str:
        """Which comparisons fail or are undecided, or what is missing; empty if the claim holds."""
        if self.verdict == "not enough runs":
            reasons = [*dict.fromkeys(text for finding in self.findings for text in finding.missing)]
        else:
            reasons = [finding.reason for finding in telling(self.findings) if finding.reason]
        others = len(reasons) - _SHOWN_REASONS
        return "; ".join(reasons[:_SHOWN_REASONS]) + (f"; and {others} more" if others > 0 else "")

    @property
    def n(self) -> int:
        """The number of seeds of the decisive finding; of computed findings the number of points of all."""
        if all(finding.test == "computed" for finding in self.findings):
            return sum(finding.n for finding in self.findings)
        return self.decisive.n


def judge_claims(results: Results) -> tuple[Judgement, ...]:
    """Return the verdicts on all claims of the paper, of a review of it and on open questions, by number.

    A comparison is *supported* if the interval of a mean over seeds lies within the claimed bounds, *refuted* if it
    lies beyond one of them, and *undecided* if it contains one. A claim *does not hold* if a comparison is refuted.
    Otherwise there are *not enough runs* if a comparison has fewer than 5 seeds, the claim is *undecided* if a
    comparison is, and it *holds* if all are supported. The intervals are Student's; those of one claim contain all
    means of its comparisons at once with a confidence of 95 %. Claims on formulas are computed without runs.

    Args:
        results: The database.

    Returns:
        One `Judgement` for each claim, with the verdict, its reason, and a finding for each comparison.

    Raises:
        ResultsError: the database cannot be read.

    Example:
        >>> from idwbench import Results, judge_claims
        >>> for judgement in judge_claims(Results("results.db")):  # doctest: +SKIP
        ...     print(judgement.claim.number, judgement.verdict, judgement.reason)
    """
    evidence = Evidence(results)
    return tuple(judge(evidence, claim) for claim in CLAIMS)


def judge(evidence: Evidence, claim: Claim) -> Judgement:
    """Return the verdict on one claim, see `judge_claims`."""
    shown = claim.rule(evidence)
    return Judgement(claim, findings(shown), tuple(item for item in shown if isinstance(item, str)))


def claims_table(judgements: Sequence[Judgement]) -> Table:
    """Return a row for each claim; its records for JSON have all findings, with full precision."""

    def column(name: str, text: Callable[[Judgement], str], **options: Any) -> Column:
        return Column(name, name, [*map(text, judgements)], **options)

    colours = [_COLOURS[one.verdict] for one in judgements]
    return Table(
        title="",
        columns=(
            column("#", lambda one: str(one.claim.number), numeric=True),
            column("claim", lambda one: one.claim.statement, share=0.16),
            column("source", lambda one: one.claim.source),
            column("kind", lambda one: one.claim.kind),
            column("test", lambda one: one.claim.test, share=0.17, not_in=("rich",)),  # it is in the documentation
            column("n", lambda one: f"{one.n:,}", numeric=True),
            column("effect", lambda one: one.decisive.text, share=0.13),
            column("verdict", lambda one: one.verdict, share=0.07, colours=colours),
            column("because", _because, share=0.2, is_below=True),
            # LaTeX has the sweeps in the notes.
            column("sweep", lambda one: ", ".join(one.claim.sweep_files), share=0.1, not_in=("rich", "latex")),
        ),
        groups=(None,) * len(judgements),
        notes=_notes(judgements),
        records=lambda: [*map(_record, judgements)],
        flat=_flat,
    )


def _because(judgement: Judgement) -> str:
    reason = judgement.reason
    sentence = f"{reason}." if reason and not reason.endswith(".") else reason
    return " ".join(filter(None, (sentence, *judgement.remarks)))


def _record(judgement: Judgement) -> dict[str, Any]:
    claim, decisive = judgement.claim, judgement.decisive
    return {
        "number": claim.number,
        "claim": claim.statement,
        "source": claim.source,
        "origin": claim.origin,
        "kind": claim.kind,
        "test": claim.test,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
        "comparison": decisive.label,
        "n": judgement.n,
        **{name: getattr(decisive, name) for name in ("effect", "interval", "level", "unit", "bound")},
        "sweeps": list(claim.sweep_files),
        "remarks": list(judgement.remarks),
        "findings": [asdict(finding) for finding in judgement.findings],
    }


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    low, high = record["interval"] or (None, None)
    joined = {name: " ".join(record[name]) for name in ("sweeps", "remarks")}
    flat = {name: value for name, value in record.items() if name not in ("interval", "findings")}
    return {**flat, **joined, "interval_low": low, "interval_high": high}


def _notes(judgements: Sequence[Judgement]) -> tuple[str, ...]:
    """Return the lines below the table: the verdicts counted, the method, and the sweeps for missing runs."""
    missing: dict[str, list[str]] = {}
    for judgement in judgements:
        for file in judgement.claim.sweep_files if judgement.verdict == "not enough runs" else ():
            missing.setdefault(file, []).append(str(judgement.claim.number))
    sentences = (
        f"{file} supplies the runs for claim{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}."
        for file, numbers in missing.items()
    )
    return (*_counts(judgements), _METHOD, *sentences)


def _counts(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Yield how many claims of each origin and kind have which verdict."""
    groups = Counter((one.claim.origin, one.claim.kind) for one in judgements)
    for (origin, kind), n in groups.items():
        verdicts = Counter(one.verdict for one in judgements if (one.claim.origin, one.claim.kind) == (origin, kind))
        shown = ", ".join(f"{verdict} {verdicts[verdict]}" for verdict in _COLOURS if verdicts[verdict])
        yield f"{origin.capitalize()}, {kind}, {n} claims: {shown}."
