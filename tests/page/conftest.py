import shutil
from functools import cache

import made_pages
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from idwbench import Results, write_page

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
)
DATABASES = {
    **{"filled": made_pages.filled, "half filled": made_pages.half_filled},
    **{"searched": made_pages.searched, "empty": Results},
}


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    return made_pages.filled(tmp_path_factory.mktemp("filled") / "filled.db")


@pytest.fixture(scope="session")
def page_of(tmp_path_factory):
    """Return a function that writes the page of a database by its name, once."""

    @cache
    def write(name):
        folder = tmp_path_factory.mktemp("page")
        return write_page(DATABASES[name](folder / "results.db"), folder / "page.html")

    return write


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Chromium with an empty profile and without network services; `.ci/run` installs it."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs Chromium: Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    found.set_script_timeout(60)
    yield found
    found.quit()
