"""How notebooks show an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["DrawnPrototypes"]


class DrawnPrototypes:
    """Adds a drawing of `prototypes_` to the diagram that scikit-learn shows in notebooks."""

    @property
    def _repr_html_(self) -> Any:
        """The function that returns the diagram, and the drawing once the estimator is fitted."""
        diagram = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + self._drawing()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what notebooks show."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._drawing()
        return bundle

    def _drawing(self) -> str:
        if not hasattr(self, "prototypes_"):
            return ""
        from idwbench.estimators.drawing import prototypes_html

        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        image_shape = getattr(self, "image_shape", None)
        return prototypes_html(self.prototypes_, self.values_, self._class_names(), image_shape, names)  # type: ignore[attr-defined]

    def _class_names(self) -> Sequence[str]:
        """Return one name for each class; none for a regression."""
        return ()
