"""Evidence of stored runs; outcomes of comparisons, statistics and verdicts; and the whole table of claims."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from claimed_runs import COMPUTED, SIX_METHODS, Runs
from statsmodels.stats.multitest import multipletests

from idwbench.claims.definitions import Claim, Series, combine, difference
from idwbench.claims.evidence import MNIST, TWO_MOONS, Evidence
from idwbench.claims.findings import bounded, compare, computed, correct, holm
from idwbench.claims.verdicts import CLAIMS, claims_table, judge
from idwbench.report.render import TABLE_FORMATS, escape_markdown, render
from idwbench.report.text import render_text

ACCURACY = {("holdout", "accuracy"): 0.9, ("test", "accuracy"): 0.8}
IDW = {"method": "idw", "prototypes": 16}


def seeds_of(runs, **model):
    return set(runs.evidence.metric(TWO_MOONS, "accuracy", **{**IDW, **model}).values)


def test_runs_with_other_settings_do_not_count(runs):
    runs.add(ACCURACY, seeds=[1], **IDW)
    for other in (
        {"dataset": {"name": "two_moons", "noise": 0.2}},
        {"dataset": {"name": "two_moons", "seed": 1}},
        {"dataset": {"name": "two_moons", "validation": 20}},
        {"dataset": "digits"},
        {"epochs": 26},
        {"batch_size": 20},
        {"optimizer": "adam"},
        {"initialisation": "kmeans"},
        {"epsilon": 0.01},
        {"prototypes": 17},
        {"state": "failed"},
        {"state": "planned"},
        {"method": "scaled_dot"},
        {"kind": "patch_study"},
        {"kind": "baseline", "method": "kmeans"},
    ):
        runs.add(ACCURACY, seeds=[2], **{**IDW, **other})
        assert seeds_of(runs) == {1}, other


def test_of_studies_with_one_seed_that_with_the_most_cases_counts(runs):
    study = {"dataset": "mnist", "kind": "patch_study", "cases": "wrong", **IDW}
    for cases in (300, 100):
        runs.add({("cases", "patched"): cases}, seeds=[0], n_cases=cases, **study)
    del study["dataset"]
    assert runs.evidence.metric(MNIST, "patched", "cases", **study).values == {0: 300}


def test_older_runs_lack_a_metric_or_arrays_and_say_so(runs):
    runs.add(ACCURACY, seeds=range(3), **IDW)
    runs.add({("train", "dead_keys"): 2}, seeds=[3], arrays=lambda seed: {"keys": np.ones((1, 1))}, **IDW)
    series = runs.evidence.metric(TWO_MOONS, "dead_keys", **IDW)
    assert series.values == {3: 2.0}
    assert series.missing(6) == ("idw, 16 prototypes: 1 of 6 seeds (3 runs without dead keys)",)
    series = runs.evidence.from_arrays(TWO_MOONS, "keys", lambda arrays: 1.0 if "keys" in arrays else None, **IDW)
    assert (series.values, series.lack) == ({3: 1.0}, "3 runs without keys")


def test_diverged_runs_are_finished_but_have_no_values_and_evidence_can_be_that_of_some_runs(runs):
    runs.add(ACCURACY, seeds=[0], **IDW).add(seeds=[1], state="diverged", **IDW).add(ACCURACY, seeds=[2], **IDW)
    assert seeds_of(runs) == {0, 2}
    assert runs.evidence.finished(TWO_MOONS, **IDW).seed.tolist() == [0, 1, 2]
    some = Evidence(runs, [runs.runs[2].run_key])
    assert set(some.metric(TWO_MOONS, "accuracy", **IDW).values) == {2}


def series(values, name="first − second"):
    return Series(name, dict(enumerate(values)))


def spread_about(mean, n=20, std=1.0):
    noise = np.random.default_rng(0).normal(size=n)
    return series(mean + std * (noise - noise.mean()) / noise.std())


def verdict(*items):
    claim = Claim(1, "statement", "Figure 2", "test", lambda evidence: items, ("some",))
    return judge(Runs().evidence, [claim])[0]


EVERY_SEED = {"above": 87.0, "below": 89.0, "test": "every seed"}


@pytest.mark.parametrize(
    ("values", "bounds", "outcome", "words"),
    [
        (spread_about(5.0), {"above": 0.0, "unit": "points"}, "supported", ""),
        (spread_about(0.0), {"above": 0.0, "unit": "points"}, "not supported", "not distinguishable from 0"),
        (spread_about(-5.0), {"above": 0.0, "unit": "points"}, "not supported", "opposite"),
        (spread_about(-5.0), {"below": 1.0}, "supported", ""),
        (spread_about(1.0), {"below": 1.0}, "not supported", "not distinguishable from 1"),
        (spread_about(5.0), {"below": 1.0}, "not supported", "opposite"),
        (spread_about(-0.3, std=0.01), {"above": -1.0}, "supported", ""),  # a certain loss, but within its margin
        (series([]), {"above": 0.0}, "not enough runs", "first − second: 0 of 6 seeds"),
        (series(range(1, 6)), {"above": 0.0}, "not enough runs", "first − second: 5 of 6 seeds"),
        (series(range(1, 7)), {"above": 0.0}, "supported", ""),
        (series([88.1, 87.9, 88.0, 88.2, 87.5]), EVERY_SEED, "supported", ""),
        (series([88.1, 87.9, 88.0, 88.2, 86.9]), EVERY_SEED, "not supported", "in 4 of 5 seeds"),
        (series([88.1, 87.9, 88.0, 89.2, 88.0]), EVERY_SEED, "not supported", "in 4 of 5 seeds"),
        (series([88.0] * 4), EVERY_SEED, "not enough runs", "first − second: 4 of 5 seeds"),
    ],
)
def test_a_comparison_is_supported_or_not_or_has_not_enough_runs(values, bounds, outcome, words):
    (found,) = correct([compare(values, **bounds)])
    assert found.outcome == outcome
    assert words in found.reason + "".join(found.missing)
    assert (found.p_value is None) == (outcome == "not enough runs" or bounds is EVERY_SEED)
    if found.interval is not None:
        assert found.effect == pytest.approx(np.mean([*values.values.values()]))
        assert found.interval[0] <= found.effect <= found.interval[1]


def test_the_correction_counts_every_comparison():
    weak, six = (compare(series(one), above=0.0) for one in ([1, 2, 3, 4, 5, 6, 7, -1.5], range(1, 7)))
    alone, together = correct([weak])[0], correct([weak] * 10)[0]
    assert (alone.outcome, together.outcome) == ("supported", "not supported")
    assert together.adjusted_p_value == pytest.approx(10 * alone.p_value)
    found = correct([six, *[compare(spread_about(0.0), above=0.0)] * 9])[0]
    assert found.outcome == "not enough runs"
    assert found.missing == ("first − second: 6 seeds cannot be significant among 10 comparisons",)


def test_a_check_holds_at_every_point_or_not():
    assert bounded("error", [1e-15, 1e-13], "≤", 1e-12).outcome == "supported"
    failed = bounded("weight", [0.5, 1.0, 1.0], "≥", 0.99)
    assert (failed.outcome, failed.reason) == ("not supported", "weight: 0.5, claimed ≥ 0.99 (at 1 of 3 points)")


GOOD, CLOSE, BAD, WORSE = (compare(spread_about(mean), above=0.0) for mean in (9.0, 3.0, -5.0, -7.0))
FEW = compare(series([1.0], "few"), above=0.0)
LACKING = computed("cases", 0.0, "≥ 1", 0, 0, ("idw: 0 of 5 seeds",))


@pytest.mark.parametrize(
    ("items", "expected", "decisive", "reason"),
    [
        ((GOOD, CLOSE, "Beside."), "holds", CLOSE, ""),
        ((GOOD, FEW), "not enough runs", FEW, "few: 1 of 6 seeds"),
        ((GOOD, FEW, BAD), "does not hold", BAD, "first − second: −5 "),  # whatever the missing runs would show
        ((GOOD, BAD, WORSE), "does not hold", WORSE, "first − second: −7 "),
        ((LACKING,), "not enough runs", LACKING, "idw: 0 of 5 seeds"),
    ],
)
def test_a_claim_holds_only_if_every_comparison_does_and_the_decisive_one_stands_in_tables(
    items, expected, decisive, reason
):
    judged = verdict(*items)
    assert (judged.verdict, judged.decisive.effect) == (expected, decisive.effect)
    assert judged.reason.startswith(reason) and bool(judged.reason) == bool(reason)
    assert judged.remarks == tuple(item for item in items if isinstance(item, str))


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


def test_the_correction_of_p_values_is_that_of_statsmodels():
    # 4 · 0.005, 3 · 0.01, 2 · 0.03, and 1 · 0.04 raised to the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert (holm([0.6, 0.5]), holm([])) == ((1.0, 1.0), ())
    generator = np.random.default_rng(0)
    for _ in range(20):
        p_values = generator.uniform(0, 0.1, 8).tolist()
        assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1])


DOCS = Path(__file__).parents[2] / "docs" / "claims.md"


@pytest.fixture(scope="module")
def half_filled():
    """One sweep of two is complete, older runs have no quality, and another has one seed."""
    runs = Runs().measured("accuracy", dict.fromkeys(SIX_METHODS, 0.9) | {"idw": 0.99}, (2, 16, 128))
    runs.measured("coverage", {"idw": 0.2}, seeds=[0], power=4)
    return judge(runs.evidence, CLAIMS)


def test_without_runs_all_but_the_computed_claims_lack_them():
    for judgement in judge(Runs().evidence, CLAIMS):
        assert judgement.verdict == COMPUTED.get(judgement.claim.number, "not enough runs")
        if judgement.verdict == "not enough runs":
            assert re.search(r"0 of \d+ seeds", judgement.reason)
            assert (judgement.decisive.n, judgement.decisive.effect) == (0, None)


def test_a_half_filled_database_judges_what_it_can_and_corrects_over_the_whole_table(half_filled):
    found = {judgement.claim.number: judgement.verdict for judgement in half_filled}
    assert (found[1], found[2], found[3]) == ("holds", "holds", "does not hold")
    assert {found[number] for number in range(4, len(CLAIMS) + 1) if number not in COMPUTED} == {"not enough runs"}
    tested = [finding for judgement in half_filled for finding in judgement.findings if finding.p_value is not None]
    assert len(tested) == 5 + 5 + 12
    smallest = min(tested, key=lambda finding: finding.p_value)
    assert smallest.adjusted_p_value == pytest.approx(len(tested) * smallest.p_value)


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
        texts = " | ".join(escape_markdown(text) for text in (claim.statement, claim.source, claim.test))
        assert f"\n| {claim.number} | {texts} | {sweeps} |\n" in docs
