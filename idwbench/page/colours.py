"""The colours of charts on a light and on a dark background."""

from __future__ import annotations

from idwbench.figures.style import CLASS_COLOURS

__all__ = ["ON_DARK"]

# For each colour of the figures one of the same hue that has enough contrast on a dark background.
ON_DARK = {
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
