"""All claims, in the order of their numbers."""

from __future__ import annotations

from idwbench.claims.accuracy import ACCURACY_CLAIMS
from idwbench.claims.formulas import FORMULA_CLAIMS
from idwbench.claims.grid import GRID_CLAIMS
from idwbench.claims.open_questions import OPEN_QUESTIONS
from idwbench.claims.patches import PATCH_CLAIMS
from idwbench.claims.quality import QUALITY_CLAIMS

__all__ = ["CLAIMS"]

_BY_THEME = (*ACCURACY_CLAIMS, *FORMULA_CLAIMS, *GRID_CLAIMS, *PATCH_CLAIMS, *QUALITY_CLAIMS, *OPEN_QUESTIONS)
CLAIMS = tuple(sorted(_BY_THEME, key=lambda claim: claim.number))
