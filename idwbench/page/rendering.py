"""A page as HTML, by Jinja2: every text is escaped."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import idwbench
from idwbench.figures.style import CLASS_COLOURS
from idwbench.page.content import PageContent
from idwbench.page.parts import Chart, PrototypeGrid, table_data
from idwbench.report.tables import Table

__all__ = ["render_page"]

_TEMPLATE, _STYLE, _SCRIPT = "page.html.j2", "page.css", "page.js"
# For each colour of the figures one of the same hue that has enough contrast on a dark background.
_ON_DARK = {
    **dict(
        zip(
            CLASS_COLOURS,
            (
                "#58A6E0",
                "#F0883E",
                "#3FC08F",
                "#E29BC2",
                "#E3B341",
                "#8CCBF2",
                "#E07A55",
                "#B392F0",
                "#A8A8A8",
                "#6CC27A",
            ),
            strict=True,
        )
    ),
    "#1F2933": "#D5DCE4",
}


@dataclass
class _Data:
    """What the script of a page reads, by the ID of the element that shows it."""

    charts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, Any] = field(default_factory=dict)

    def chart(self, chart: Chart) -> str:
        """Add a chart and return its ID."""
        return _add(self.charts, "chart", chart.spec)

    def table(self, table: Table) -> str:
        """Add a table and return its ID."""
        return _add(self.tables, "table", table_data(table))

    def grid(self, grid: PrototypeGrid) -> str:
        """Add a grid of prototypes and return its ID."""
        return _add(self.keys, "keys", grid.data)

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {"charts": self.charts, "tables": self.tables, "keys": self.keys, "onDark": _ON_DARK}


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
    data = _Data()
    body = environment.get_template("body.html.j2").render(content=content, data=data)
    return environment.get_template(_TEMPLATE).render(
        title=content.title,
        version=idwbench.__version__,
        body=body,
        data=data.as_json(),
        style=_asset(_STYLE),
        script=_asset(_SCRIPT),
        libraries=_libraries() if data.charts else "",
    )


def _asset(name: str) -> str:
    return files("idwbench.page").joinpath("templates", name).read_text(encoding="utf-8")


def _add(items: dict[str, Any], kind: str, item: Any) -> str:
    name = f"{kind}-{len(items)}"
    items[name] = item
    return name


@cache
def _libraries() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which must not end the element that holds it."""
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
