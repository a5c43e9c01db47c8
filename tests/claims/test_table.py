"""The whole table: its records, its formats, and its documentation."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from stored_runs import COMPUTED, METHODS, Runs

from idwbench.claims.verdicts import CLAIMS, claims_table, judge
from idwbench.report.render import TABLE_FORMATS, escape_markdown, render
from idwbench.report.text import render_text

DOCS = Path(__file__).parents[2] / "docs" / "claims.md"


def verdicts(judgements):
    return {judgement.claim.number: judgement.verdict for judgement in judgements}


@pytest.fixture(scope="module")
def half_filled():
    """One sweep of two is complete, older runs have no quality, and another has one seed."""
    runs = Runs().measured("accuracy", dict.fromkeys(METHODS, 0.9) | {"idw": 0.99}, (2, 16, 128))
    runs.measured("coverage", {"idw": 0.2}, seeds=[0], power=4)
    return judge(runs.evidence, CLAIMS)


def test_without_runs_all_but_the_computed_claims_lack_them():
    judgements = judge(Runs().evidence, CLAIMS)
    assert verdicts(judgements) == {
        number: COMPUTED.get(number, "not enough runs") for number in range(1, len(CLAIMS) + 1)
    }
    for judgement in judgements:
        if judgement.verdict == "not enough runs":
            assert re.search(r"0 of \d+ seeds", judgement.reason)
            assert (judgement.decisive.n, judgement.decisive.effect) == (0, None)


def test_a_half_filled_database_judges_what_it_can_and_corrects_over_the_whole_table(half_filled):
    found = verdicts(half_filled)
    assert (found[1], found[2], found[3]) == ("holds", "holds", "does not hold")
    assert {found[number] for number in range(4, len(CLAIMS) + 1) if number not in COMPUTED} == {"not enough runs"}
    tested = [finding for judgement in half_filled for finding in judgement.findings if finding.p_value is not None]
    assert len(tested) == 5 + 5 + 12
    smallest = min(tested, key=lambda finding: finding.p_value)
    assert smallest.adjusted_p_value == pytest.approx(len(tested) * smallest.p_value)


@pytest.mark.parametrize("form", TABLE_FORMATS)
def test_every_format_names_each_claim_and_its_verdict(half_filled, form):
    text = " ".join(render([claims_table(half_filled)], form).split())
    assert text.count("not enough runs") >= 15
    for sweep in ("paper_power_epsilon", "paper_mnist", "paper_patches_mnist"):
        assert sweep in text.replace("\\_", "_")


def test_markdown_is_one_table_with_a_row_for_each_claim(half_filled):
    lines = [line for line in render([claims_table(half_filled)], "markdown").splitlines() if line.startswith("|")]
    assert len(lines) == len(CLAIMS) + 2
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {10}


def test_latex_has_no_character_that_pdflatex_lacks(half_filled):
    text = render([claims_table(half_filled)], "latex")
    assert text.isascii()
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(rows) == len(CLAIMS)
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {7}


def test_csv_and_json_have_the_same_rows_with_full_precision(half_filled):
    rows = list(csv.DictReader(io.StringIO(render([claims_table(half_filled)], "csv"))))
    records = json.loads(render([claims_table(half_filled)], "json"))
    assert [row["verdict"] for row in rows] == [record["verdict"] for record in records]
    for row, record, judgement in zip(rows, records, half_filled, strict=True):
        decisive = judgement.decisive
        assert row["effect"] == ("" if decisive.effect is None else str(decisive.effect))
        assert record["effect"] == decisive.effect
        assert len(record["findings"]) == len(judgement.findings)
    assert float(rows[0]["interval_low"]) < float(rows[0]["effect"]) < float(rows[0]["interval_high"])


@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_terminals_table_fits_its_width_and_has_coloured_verdicts(half_filled, width):
    lines = render_text([claims_table(half_filled)], width).splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(" ".join(lines).split())
    assert "sweeps/paper/paper_mnist.yaml supplies the runs for claims 14, 15, 16." in words
    text = render_text([claims_table(half_filled)], 120, lambda text, how: f"<{how}>{text}</{how}>")
    assert "<green>holds" in text


def test_the_claims_are_numbered_and_the_documentation_has_their_rules():
    assert [claim.number for claim in CLAIMS] == list(range(1, len(CLAIMS) + 1))
    assert all(bool(claim.sweeps) == (claim.number not in COMPUTED) for claim in CLAIMS)
    for claim in CLAIMS:
        sweeps = ", ".join(f"`{name}`" for name in claim.sweeps) or "none"
        texts = " | ".join(escape_markdown(text) for text in (claim.statement, claim.source, claim.test))
        assert f"\n| {claim.number} | {texts} | {sweeps} |\n" in DOCS.read_text(encoding="utf-8")
