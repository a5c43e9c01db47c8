"""The whole table: its records, its formats, and its documentation."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from claimed_runs import COMPUTED, SIX_METHODS, Runs

from idwbench.claims.verdicts import CLAIMS, claims_table, judge
from idwbench.report.render import TABLE_FORMATS, escape_markdown, render
from idwbench.report.text import render_text

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
