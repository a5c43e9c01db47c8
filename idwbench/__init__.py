"""Prototype attention: an experiment runner, a results database, and patches of models.

The public names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from idwbench.attention.forward import attend as attend
    from idwbench.attention.forward import scores as scores
    from idwbench.attention.layers import MultiheadAttention as MultiheadAttention
    from idwbench.attention.layers import SelfAttention as SelfAttention
    from idwbench.claims.verdicts import judge_claims as judge_claims
    from idwbench.estimators.classifier import PrototypeClassifier as PrototypeClassifier
    from idwbench.estimators.kernel_regressor import KernelRegressor as KernelRegressor
    from idwbench.estimators.regressor import PrototypeRegressor as PrototypeRegressor
    from idwbench.estimators.table import TableEncoder as TableEncoder
    from idwbench.estimators.table import explain_pipeline as explain_pipeline
    from idwbench.estimators.table import patch_pipeline as patch_pipeline
    from idwbench.explanations.explain import explain as explain
    from idwbench.explanations.passages import explain_prompt as explain_prompt
    from idwbench.exports.model import export_model as export_model
    from idwbench.exports.model import model_card as model_card
    from idwbench.models.imported import import_prototypes as import_prototypes
    from idwbench.models.kernel_regression import kernel_regression as kernel_regression
    from idwbench.models.model_file import load_model as load_model
    from idwbench.notebooks import draw_figure as draw_figure
    from idwbench.notebooks import find_run as find_run
    from idwbench.notebooks import html as html
    from idwbench.page.writing import write_page as write_page
    from idwbench.plugins import register as register
    from idwbench.publications.publication import write_publication as write_publication
    from idwbench.report.reports import leaderboard as leaderboard
    from idwbench.report.reports import table as table
    from idwbench.results.store import Results as Results
    from idwbench.runs.config import run_config as run_config
    from idwbench.sweep.execution import measure_runs as measure_runs
    from idwbench.sweep.execution import run_sweep as run_sweep
    from idwbench.sweep.execution import train as train
    from idwbench.training.replay import key_history as key_history

__version__ = "0.2.0"

_HOMES = {
    "KernelRegressor": "idwbench.estimators.kernel_regressor",
    "MultiheadAttention": "idwbench.attention.layers",
    "PrototypeClassifier": "idwbench.estimators.classifier",
    "PrototypeRegressor": "idwbench.estimators.regressor",
    "Results": "idwbench.results.store",
    "SelfAttention": "idwbench.attention.layers",
    "TableEncoder": "idwbench.estimators.table",
    "attend": "idwbench.attention.forward",
    "draw_figure": "idwbench.notebooks",
    "explain": "idwbench.explanations.explain",
    "explain_pipeline": "idwbench.estimators.table",
    "explain_prompt": "idwbench.explanations.passages",
    "export_model": "idwbench.exports.model",
    "find_run": "idwbench.notebooks",
    "html": "idwbench.notebooks",
    "import_prototypes": "idwbench.models.imported",
    "judge_claims": "idwbench.claims.verdicts",
    "kernel_regression": "idwbench.models.kernel_regression",
    "key_history": "idwbench.training.replay",
    "leaderboard": "idwbench.report.reports",
    "load_model": "idwbench.models.model_file",
    "measure_runs": "idwbench.sweep.execution",
    "model_card": "idwbench.exports.model",
    "patch_pipeline": "idwbench.estimators.table",
    "register": "idwbench.plugins",
    "run_config": "idwbench.runs.config",
    "run_sweep": "idwbench.sweep.execution",
    "scores": "idwbench.attention.forward",
    "table": "idwbench.report.reports",
    "train": "idwbench.sweep.execution",
    "write_page": "idwbench.page.writing",
    "write_publication": "idwbench.publications.publication",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'idwbench' has no attribute '{name}'")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__, "__version__"]
