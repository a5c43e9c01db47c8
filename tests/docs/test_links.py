"""Images have descriptions, links to other sites are well formed, and pages list all that is registered.

Whether links and images lead somewhere and every page is on the site is checked by `make docs`, where a warning is an
error; whether other sites answer by `make linkcheck`, which needs a network.
"""

import importlib
import pkgutil
import re

from blocks import PAGES, ROOT, blocks_of, page_text

import idwbench
from idwbench.attention.kernels import KERNELS
from idwbench.attention.scores import BUILT_IN_METHODS
from idwbench.attention.weightings import WEIGHTINGS
from idwbench.figures.stored import FIGURES

PUBLISHED = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "results/published").rglob("*.md"))
ALL = [*PAGES, "CHANGES.md", *PUBLISHED]


def prose(page):
    return re.sub(r"^```.*?^```$", "", page_text(page), flags=re.DOTALL | re.MULTILINE)


def links(page):
    return re.findall(r"\]\(<?([^)>\s]+)>?\)", prose(page))


def test_every_image_has_a_description():
    images = {page: re.findall(r"!\[([^\]]*)\]\(", prose(page)) for page in ALL}
    assert images["README.md"]
    assert [page for page, texts in images.items() if any(len(text) < 6 for text in texts)] == []


def test_links_to_other_sites_are_https_and_addresses_in_a_text_are_links():
    """Bare addresses are not links everywhere."""
    sites = {link for page in ALL for link in links(page) if re.match(r"[a-z]+:", link)}
    assert "https://arxiv.org/abs/2310.18805" in sites
    assert [link for link in sites if not re.match(r"https://([a-z0-9-]+\.)+[a-z]{2,}(/|$)", link)] == []
    for page in ALL:
        bare = re.findall(r"(?<![(<\"])https?://[^\s)>]+", re.sub(r"`[^`]*`", "", prose(page)))
        assert not bare, f"{page}: {bare}"


def test_pages_list_every_method_weighting_kernel_and_figure_with_their_parameters_and_defaults():
    rows = {}
    for one in BUILT_IN_METHODS.values():
        defaults = [f"`{p.default}`" if isinstance(p.default, str) else f"{p.default:g}" for p in one.parameters]
        words = [f"`{one.initialisation}`", *(f"`{p.name}`" for p in one.parameters), *map("({})".format, defaults)]
        rows[f"| `{one.name}` | {one.formula} | {one.weighting} | "] = words
    for one in WEIGHTINGS.values():
        formula = f"{one.formula} ({one.source})" if one.source else one.formula
        rows[f"| `{one.name}` | {formula} | {one.gradient} | {one.ties} | "] = [f"`{p.name}`" for p in one.parameters]
    for row, words in rows.items():
        (rest,) = (line.removeprefix(row) for line in page_text("docs/methods.md").splitlines() if line.startswith(row))
        assert all(word in rest for word in words), row
    for page, head, names in (("kernel_regression", "# ", KERNELS), ("reports", "## Figures", FIGURES)):
        text = page_text(f"docs/{page}.md").split(head, 1)[1]
        assert sorted(re.findall(r"^\| `(\w+)` ?\|", text, flags=re.MULTILINE)) == sorted(names)
    assert all(figure.__doc__ for figure in FIGURES.values())


def test_the_api_has_every_public_name_and_every_name_that_pages_import():
    api = "".join(page_text(page) for page in PAGES if page.startswith("docs/api/"))
    documented = re.findall(r"auto(?:class|function|data):: (\S+)", api)
    assert {f"idwbench.{name}" for name in idwbench.__all__} <= set(documented)
    values = [pkgutil.resolve_name(name) for name in documented]
    code = [block.text for page in PAGES for block in blocks_of(page, "python")]
    for module, names in re.findall(r"^from (idwbench\.\S+) import (.+)$", "\n".join(code), flags=re.MULTILINE):
        for name in names.split(", "):
            value = getattr(importlib.import_module(module), name)
            assert module == "idwbench.errors" or any(value is one for one in values), f"{module}.{name}"
