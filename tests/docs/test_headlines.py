"""The numbers in the pages are those of the published tables and claims."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("headlines", ROOT / "docs/headlines.py")
headlines = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(headlines)
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
PAGES = {name: page for name, page in PAGES.items() if headlines.NUMBER.search(page)}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_published_numbers_and_no_line_begins_with_a_mark_which_would_end_a_paragraph(page):
    assert headlines.written(PAGES[page]) == PAGES[page]
    assert not [line for line in PAGES[page].splitlines() if line.lstrip().startswith("<!--")]


def test_every_number_that_is_declared_stands_in_a_page():
    shown = {match["name"] for page in PAGES.values() for match in headlines.NUMBER.finditer(page)}
    assert shown == {*headlines.sources()}


def test_a_number_that_was_edited_by_hand_is_found():
    page = next(iter(PAGES.values()))
    assert headlines.written(headlines.NUMBER.sub("<!--idw_lead-->9.99<!--/-->", page)) != page


def test_a_row_that_is_not_unique_is_refused():
    with pytest.raises(LookupError, match="values of test_mean for"):
        headlines.tabled("family/table_kernel_regression_diabetes", "test_mean", {"method": "idw"})
