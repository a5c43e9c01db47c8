"""Evidence of stored runs; outcomes of comparisons, statistics and verdicts; and the whole table of claims."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from case_tables import case_table
from cases import CASES
from claimed_runs import COMPUTED, Runs
from scipy.stats import ttest_1samp

from idwbench.claims.evidence import MNIST, TWO_MOONS
from idwbench.claims.findings import (
    Claim,
    Comparison,
    Series,
    bounded,
    combine,
    difference,
    findings,
    other_verdict,
    t_interval,
)
from idwbench.claims.verdicts import CLAIMS, claims_table, judge
from idwbench.report.render import TABLE_FORMATS, escape_markdown, render
from idwbench.report.text import render_text

ACCURACY = {("holdout", "accuracy"): 0.9, ("test", "accuracy"): 0.8}
IDW = {"method": "idw", "prototypes": 16}


def seeds_of(runs, **model):
    return set(runs.evidence.metric(TWO_MOONS, "accuracy", **{**IDW, **model}).values)


def test_runs_with_other_settings_do_not_count(runs):
    runs.add(ACCURACY, seeds=[1], **IDW)
    for other in case_table("other_settings"):
        runs.add(ACCURACY, seeds=[2], **{**IDW, **other})
        assert seeds_of(runs) == {1}, other
    # Of studies with one seed that with the most cases counts.
    study = {"dataset": "mnist", "kind": "patch_study", "cases": "wrong", **IDW}
    for cases in (300, 100):
        runs.add({("cases", "patched"): cases}, seeds=[0], n_cases=cases, **study)
    del study["dataset"]
    assert runs.evidence.metric(MNIST, "patched", "cases", **study).values == {0: 300}


def test_older_runs_lack_a_metric_or_arrays_and_say_so_and_diverged_ones_are_finished_without_values(runs):
    runs.add(ACCURACY, seeds=range(3), **IDW)
    runs.add({("train", "dead_keys"): 2}, seeds=[3], arrays=lambda seed: {"keys": np.ones((1, 1))}, **IDW)
    series = runs.evidence.metric(TWO_MOONS, "dead_keys", **IDW)
    assert series.values == {3: 2.0}
    assert series.missing(6) == ("idw, 16 prototypes: 1 of 6 seeds (3 runs without dead keys)",)
    series = runs.evidence.from_arrays(TWO_MOONS, "keys", lambda arrays: arrays["keys"].sum(), **IDW)
    assert (series.values, series.lack) == ({3: 1.0}, "3 runs without keys")
    runs.add(seeds=[4], state="diverged", **IDW)
    assert seeds_of(runs) == {0, 1, 2} and runs.evidence.finished(TWO_MOONS, **IDW).seed.tolist() == [*range(5)]


def series(values, name="first − second"):
    return Series(name, dict(enumerate(values)))


def spread_about(mean, n=20, std=1.0):
    noise = np.random.default_rng(0).normal(size=n)
    return series(mean + std * (noise - noise.mean()) / noise.std())


def verdict(*items):
    return judge(Runs().evidence, Claim(1, "statement", "Figure 2", "test", lambda evidence: items, ("some",)))


@pytest.mark.parametrize(("values", "bounds", "outcome", "words"), case_table("comparisons"))
def test_a_comparison_is_supported_or_refuted_or_undecided_or_has_not_enough_runs(values, bounds, outcome, words):
    values = spread_about(**values) if isinstance(values, dict) else series(values)
    (finding,) = findings([Comparison(values, **bounds)])
    assert finding.outcome == outcome
    assert words in finding.reason + "".join(finding.missing)
    assert (finding.interval is None) == (outcome == "not enough runs") and (finding.effect is None) == (
        not values.values
    )
    if finding.interval is not None:
        assert finding.effect == pytest.approx(np.mean([*values.values.values()]))
        assert finding.interval[0] <= finding.effect <= finding.interval[1]


def test_the_interval_is_students_and_those_of_one_claim_are_wider():
    values = [1.0, 2.5, 2.0, 4.0, -1.0, 0.5]
    for level in (0.95, 0.99):
        expected = ttest_1samp(values, 0).confidence_interval(level)
        assert t_interval(values, level) == pytest.approx(tuple(expected), rel=1e-12)
    one, ten = Comparison(series(values), above=0.0), [Comparison(series(values), above=0.0)] * 10
    assert findings([one, "beside", bounded("weight", [1.0], "≥", 0.5)])[0].level == pytest.approx(0.95)
    assert [finding.level for finding in findings(ten)] == pytest.approx([0.995] * 10)
    # A check without an interval holds at every point or not.
    assert bounded("error", [1e-15, 1e-13], "≤", 1e-12).outcome == "supported"
    failed = bounded("weight", [0.5, 1.0, 1.0], "≥", 0.99)
    assert (failed.outcome, failed.reason) == ("refuted", "weight: 0.5, claimed ≥ 0.99 (at 1 of 3 points)")


NAMED = {"good": 9.0, "close": 3.0, "open": 0.1, "bad": -5.0, "worse": -7.0}
NAMED = {name: Comparison(spread_about(mean), above=0.0) for name, mean in NAMED.items()}
NAMED |= {"few": Comparison(series([1.0], "few"), above=0.0), "Beside.": "Beside."}


@pytest.mark.parametrize(("names", "expected", "decisive", "reason"), case_table("verdicts"))
def test_a_claim_holds_only_if_every_comparison_does_and_the_decisive_one_stands_in_tables(
    names, expected, decisive, reason
):
    items = [NAMED[name] for name in names]
    judged = verdict(*items)
    assert (judged.verdict, judged.decisive.effect) == (expected, pytest.approx(decisive))
    assert judged.reason.startswith(reason) and bool(judged.reason) == bool(reason)
    assert judged.remarks == tuple(item for item in items if isinstance(item, str))


def test_other_verdicts_are_remarks_with_their_effect():
    assert other_verdict("With another η", [NAMED["good"], NAMED["bad"]]) == [
        "With another η: does not hold (first − second: −5 [−5.56, −4.44])."
    ]
    assert other_verdict("With another η", [NAMED["good"], NAMED["few"]]) == []


def test_series_are_paired_by_seed_and_name_what_is_missing():
    first = Series("idw", {1: 3.0, 2: 5.0, 3: 1.0})
    second = Series("inv_dist", {2: 1.0, 3: 1.0, 4: 7.0}, "2 runs without coverage")
    both = difference("idw − inv_dist", first, second)
    assert both.values == {2: 4.0, 3: 0.0}
    assert both.missing(2) == ()
    assert both.missing(3) == ("idw − inv_dist: 2 of 3 seeds",)  # each has three, but not in common
    assert combine("other", float, both).missing(4) == (
        "idw: 3 of 4 seeds",
        "inv_dist: 3 of 4 seeds (2 runs without coverage)",
    )
    ratio = combine("ratio", lambda one: float("nan") if one == 1 else one, series([0.0, 1.0, 2.0]))
    assert ratio.values == {0: 0.0, 2: 2.0}


DOCS = Path(__file__).parents[2] / "docs" / "claims.md"


@pytest.fixture(scope="module")
def half_filled():
    """One sweep of two is complete, older runs have no quality, and another has one seed."""
    runs = Runs()
    CASES["half filled"](runs, 0)
    return [judge(runs.evidence, claim) for claim in CLAIMS]


def test_a_half_filled_database_judges_what_it_can_and_claims_are_counted_by_their_source_and_kind(half_filled):
    verdicts = {judgement.claim.number: judgement.verdict for judgement in half_filled}
    assert (verdicts[1], verdicts[2], verdicts[3]) == ("holds", "holds", "undecided")
    others = dict.fromkeys(range(4, len(CLAIMS) + 1), "not enough runs") | COMPUTED
    assert {number: verdicts[number] for number in others} == others
    notes = claims_table(half_filled).notes
    assert notes[:4] == (
        "Paper, empirical, 13 claims: holds 2, undecided 1, not enough runs 10.",
        "Paper, by formula, 7 claims: holds 5, does not hold 2.",
        "Review, empirical, 11 claims: not enough runs 11.",
        "Open question, empirical, 9 claims: not enough runs 9.",
    )
    rows = json.loads(render([claims_table(half_filled)], "json"))
    assert [row["number"] for row in rows if row["origin"] == "review"] == [21, 22, 23, 24, *range(34, 41)]
    assert [row["number"] for row in rows if row["kind"] == "by formula"] == [*COMPUTED]


def test_every_format_names_each_claim_and_its_verdict(half_filled):
    texts = {form: render([claims_table(half_filled)], form) for form in TABLE_FORMATS}
    for text in texts.values():
        words = " ".join(text.split()).replace("\\_", "_")
        assert words.count("not enough runs") >= 15
        assert all(name in words for name in ("paper_power_epsilon", "paper_mnist", "paper_patches_mnist"))
    assert len([line for line in texts["markdown"].splitlines() if line.startswith("|")]) == len(CLAIMS) + 2
    assert texts["latex"].isascii()
    assert "sweeps/paper/paper_mnist.yaml supplies the runs for claims 14, 15, 16." in " ".join(texts["rich"].split())
    styled = render_text([claims_table(half_filled)], 80, lambda text, how: f"<{how}>{text}</{how}>")
    assert "<green>holds" in styled
    rows, records = list(csv.DictReader(io.StringIO(texts["csv"]))), json.loads(texts["json"])
    for row, record, judgement in zip(rows, records, half_filled, strict=True):
        effect = judgement.decisive.effect
        assert row["verdict"] == record["verdict"] == judgement.verdict
        assert (row["effect"], record["effect"]) == ("" if effect is None else str(effect), effect)
        assert len(record["findings"]) == len(judgement.findings)
    assert float(rows[0]["interval_low"]) < float(rows[0]["effect"]) < float(rows[0]["interval_high"])


def test_the_claims_are_numbered_and_the_documentation_has_their_rules():
    docs = DOCS.read_text(encoding="utf-8")
    assert [claim.number for claim in CLAIMS] == list(range(1, len(CLAIMS) + 1))
    for claim in CLAIMS:
        assert bool(claim.sweeps) == (claim.number not in COMPUTED)
        sweeps = ", ".join(f"`{name}`" for name in claim.sweeps) or "none"
        texts = " | ".join(map(escape_markdown, (claim.statement, claim.source, claim.kind, claim.test)))
        assert f"\n| {claim.number} | {texts} | {sweeps} |\n" in docs
