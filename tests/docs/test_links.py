"""Links and images lead somewhere, links to other sites are well formed, and pages list all that is registered.

Whether other sites answer is checked by `make linkcheck`, which needs a network.
"""

import importlib
import pkgutil
import re

from blocks import PAGES, ROOT, blocks_of, page_text
from PIL import Image

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


def anchors(page):
    """The anchors of the headings, as code hosts and the site make them."""
    found = set()
    for heading in re.findall(r"^#{1,6} (.+)$", prose(page), flags=re.MULTILINE):
        text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        numbered = (f"{slug}-{n}" for n in range(1, 100))
        found.add(slug if slug not in found else next(one for one in numbered if one not in found))
    return found


def test_every_link_leads_to_a_file_and_to_a_heading_in_it():
    found = [(page, link) for page in ALL for link in links(page)]
    for page, link in found:
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (ROOT / page).parent / target if target else ROOT / page
        assert file.is_file(), f"{page}: {link}"
        if anchor:
            assert anchor in anchors(str(file.resolve().relative_to(ROOT))), f"{page}: {link}"


def test_every_image_can_be_read_and_has_a_description():
    found = [(page, *image) for page in ALL for image in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", prose(page))]
    for page, text, target in found:
        with Image.open((ROOT / page).parent / target) as image:
            assert min(image.size) > 50
        assert len(text) > 5, f"{page}: {target} has no description"


def test_links_to_other_sites_are_https_and_addresses_in_a_text_are_links():
    """Bare addresses are not links everywhere."""
    sites = {link for page in ALL for link in links(page) if re.match(r"[a-z]+:", link)}
    assert "https://arxiv.org/abs/2310.18805" in sites
    assert [link for link in sites if not re.match(r"https://([a-z0-9-]+\.)+[a-z]{2,}(/|$)", link)] == []
    for page in ALL:
        bare = re.findall(r"(?<![(<\"])https?://[^\s)>]+", re.sub(r"`[^`]*`", "", prose(page)))
        assert not bare, f"{page}: {bare}"


def test_the_site_has_every_page_and_the_readme_leads_to_it():
    for index, folder in (("docs/index.md", "docs"), ("docs/api/index.md", "docs/api")):
        text = page_text(index)
        for path in (ROOT / folder).glob("*.md"):
            assert path.stem == "index" or re.search(rf"^{path.stem}$", text, flags=re.MULTILINE), path
    assert {"docs/index.md", "docs/tutorial.md", "docs/published.md"} <= set(links("README.md"))


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
