"""The page in a headless Chromium."""

from importlib.resources import files
from itertools import product
from pathlib import Path

import pytest
from made_pages import EVIL
from ruamel.yaml import YAML
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

BOARD = ".part[id$=leaderboard] .table"
AXE = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
SCRIPTS = YAML(typ="safe").load(Path(__file__).with_name("scripts.yaml"))


@pytest.fixture
def opened(browser, page_of):
    """Return a function that opens a page by its name, at a group, with a width of the window and a colour scheme."""

    def open_page(name, group=None, width=1280, scheme="light"):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        browser.get("about:blank")
        browser.get_log("browser")  # forget those of other pages
        browser.get(page_of(name).as_uri())
        if group is not None:
            show(browser, group)
        return browser

    return open_page


def groups(browser):
    found = browser.find_elements(By.ID, "group")
    return [option.text for option in Select(found[0]).options] if found else []


def show(browser, name):
    Select(browser.find_element(By.ID, "group")).select_by_visible_text(name)


def draw_all(browser):
    wait = WebDriverWait(browser, 30, 0.05)
    return wait.until(lambda found: (n := found.execute_script(SCRIPTS["all_drawn"])) is not None and (n, True))[0]


def shown(browser, selector):
    return browser.find_elements(By.CSS_SELECTOR, f".group:not([hidden]) {selector}")


def column(browser, name):
    heads = [head.text for head in shown(browser, f"{BOARD} thead th")]
    place = heads.index(name) + 1
    return [cell.text for cell in shown(browser, f"{BOARD} tbody tr td:nth-child({place})")]


def problems(browser):
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "scheme"),
    [*product(("filled", "searched"), ("light", "dark")), ("half filled", "dark"), ("empty", "light")],
)
def test_the_page_draws_all_charts_without_an_error_and_axe_finds_nothing_serious(opened, page, scheme):
    browser = opened(page, scheme=scheme)
    assert browser.execute_script("return document.documentElement.dataset.theme") == scheme
    browser.execute_script(AXE)
    drawn = 0
    for name in groups(browser) or [None]:
        if name is not None:
            show(browser, name)
        for tile in shown(browser, ".tile")[-1:]:
            tile.click()
        drawn += draw_all(browser)
        assert browser.execute_async_script(SCRIPTS["serious"]) == []
    assert problems(browser) == []
    assert (drawn > 0) == (page != "empty")


def test_a_click_on_a_head_sorts_numbers_as_such_and_a_second_click_turns_the_order(opened):
    browser = opened("filled", "moons")
    ranks = column(browser, "rank")
    head = next(head for head in shown(browser, f"{BOARD} thead th") if head.text == "test")
    for order in ("descending", "ascending"):
        head.find_element(By.TAG_NAME, "button").click()
        assert head.get_attribute("aria-sort") == order
        assert order == "ascending" or column(browser, "rank") == ranks
    means = [float(text.split()[0]) for text in column(browser, "test")]
    assert means == sorted(means)
    assert means[0] < means[-1]
    table = shown(browser, ".part[id$=prototypes] .table")[0]
    button = table.find_elements(By.CSS_SELECTOR, "thead th button")[2]
    for _ in range(2):  # the table is folded, and cannot be clicked
        browser.execute_script("arguments[0].click()", button)
    cells = table.find_elements(By.CSS_SELECTOR, "tbody tr td:nth-child(3)")
    found = [float(str(cell.get_attribute("textContent")).replace("−", "-")) for cell in cells]
    assert found == sorted(found) and found[0] < 0 < found[-1]


def test_the_keyboard_sorts_and_filters(opened):
    browser = opened("filled", "moons")
    head = next(head for head in shown(browser, f"{BOARD} thead th") if head.text == "method")
    button = head.find_element(By.TAG_NAME, "button")
    browser.execute_script("arguments[0].focus()", button)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert column(browser, "method") == sorted(column(browser, "method"))
    search = shown(browser, ".filters input")[0]
    search.send_keys("NEG dist")
    assert set(column(browser, "method")) == {"neg_dist"}
    assert shown(browser, ".shown")[0].text == "2 of 8 rows"
    search.send_keys("zzz")
    assert "No row has all of this." in shown(browser, f"{BOARD} tbody")[0].text
    search.send_keys(Keys.CONTROL + "a", Keys.DELETE)
    label = next(label for label in shown(browser, ".filters label") if label.text.startswith("method"))
    Select(label.find_element(By.TAG_NAME, "select")).select_by_visible_text("fc_relu")
    assert column(browser, "method") == ["fc_relu", "fc_relu"]


def test_a_key_shows_its_values_and_its_nearest_training_images(opened):
    browser = opened("filled")
    show(browser, next(name for name in groups(browser) if name != "moons"))
    idw = next(part for part in shown(browser, ".network") if part.text.startswith("idw"))
    tile = idw.find_elements(By.CSS_SELECTOR, ".tile")[1]
    browser.execute_script("arguments[0].focus()", tile)
    browser.switch_to.active_element.send_keys(Keys.SPACE)
    assert tile.get_attribute("aria-pressed") == "true"
    assert len(idw.find_elements(By.CSS_SELECTOR, ".detail tbody tr")) == 10
    assert len(idw.find_elements(By.CSS_SELECTOR, ".nearest img")) == 5
    bars = browser.execute_script(SCRIPTS["bars"], idw)
    assert {left for value, left, _ in bars if value > 0} == {right for value, _, right in bars if value < 0}  # at 0
    directions = next(part for part in shown(browser, ".network") if part.text.startswith("scaled_dot"))
    assert "directions, not points" in directions.text


def test_names_and_errors_of_users_are_text_and_not_html_and_states_are_counted(opened):
    browser = opened("filled", f"a{EVIL}")
    assert shown(browser, "h1")[0].text == f"a{EVIL}"
    assert "onerror" in shown(browser, ".lead")[0].text
    assert browser.title == "Results · idwbench"
    browser = opened("half filled")
    states = ["3 complete", "2 running", "8 planned", "1 diverged", "2 failed", "of 16 runs"]
    assert shown(browser, ".states p")[0].text.split("\n") == states
    shown(browser, ".failures summary")[0].click()
    assert f"ValueError: {EVIL}" in shown(browser, ".failures")[0].text
    assert browser.title == "Results · idwbench"


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits_a_window_and_at_1280_pixels_with_the_last_column(opened, width):
    browser = opened("filled", width=width)
    for name in groups(browser):
        show(browser, name)
        draw_all(browser)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        (board,) = shown(browser, f"{BOARD} .scroll")
        if width == 1280:
            assert browser.execute_script("return arguments[0].scrollWidth <= arguments[0].clientWidth", board)


def test_a_printed_page_has_all_charts_of_its_group(opened):
    """The file of a group that nobody has scrolled is as large as that of one whose charts are drawn."""
    browser = opened("filled", "moons")
    unseen = len(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert draw_all(browser) > 4
    assert unseen == pytest.approx(len(browser.execute_cdp_cmd("Page.printToPDF", {})["data"]), rel=0.02)
    browser.execute_script("document.querySelectorAll('.plot').forEach((plot) => plot.replaceChildren())")
    assert unseen > 1.5 * len(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])


def test_an_address_opens_a_group_and_the_switch_changes_colours_of_page_and_charts(opened):
    browser = opened("filled", "moons")
    address = browser.current_url
    browser.get("about:blank")
    browser.get(address)
    assert shown(browser, "h1")[0].text == "moons"
    draw_all(browser)
    line = "return document.querySelector('.group:not([hidden]) .plot svg .mark-line path').getAttribute('stroke')"
    before = browser.execute_script(line)
    switch = browser.find_element(By.ID, "theme")
    assert switch.text == "Dark"  # what it switches to
    switch.click()
    assert switch.text == "Light"
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(18, 23, 29)"
    WebDriverWait(browser, 20, 0.05).until(lambda found: found.execute_script(line) != before)
    assert problems(browser) == []
