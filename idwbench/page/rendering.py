"""A page as HTML, by Jinja2: every text is escaped."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from importlib.resources import files
from typing import Any

import idwbench
from idwbench.figures.style import CLASS_COLOURS
from idwbench.page.parts import table_data
from idwbench.page.writing import PageContent

__all__ = ["render_page"]

# For each colour of the figures one of the same hue that has enough contrast on a dark background.
_CLASSES_ON_DARK = (
    *("#58A6E0", "#F0883E", "#3FC08F", "#E29BC2", "#E3B341"),
    *("#8CCBF2", "#E07A55", "#B392F0", "#A8A8A8", "#6CC27A"),
)
_ON_DARK = {**dict(zip(CLASS_COLOURS, _CLASSES_ON_DARK, strict=True)), "#1F2933": "#D5DCE4"}


def render_page(content: PageContent) -> str:
    """Return the page with its styles, its scripts and the libraries that draw its charts."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("idwbench.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # In the order of the data, without spaces, and with ± and ε as they are.
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
    environment.filters["table_data"] = table_data
    # What the script of a page reads, by the ID of the element that shows it.
    data: dict[str, dict[str, Any]] = defaultdict(dict)

    def add(kind: str, item: Any) -> str:
        """Add what an element shows and return the ID of the element."""
        name = f"{kind}-{len(data[kind])}"
        data[kind][name] = item
        return name

    body = environment.get_template("body.html.j2").render(content=content, add=add)
    return environment.get_template("page.html.j2").render(
        title=content.title,
        version=idwbench.__version__,
        body=body,
        data={kind: data[kind] for kind in ("chart", "table", "keys")} | {"onDark": _ON_DARK},
        style=_asset("page.css"),
        script=_asset("page.js"),
        libraries=_libraries() if data["chart"] else "",
    )


def _asset(name: str) -> str:
    return files("idwbench.page").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _libraries() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which must not end the element that holds it."""
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
