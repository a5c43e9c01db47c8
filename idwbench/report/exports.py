"""A report for programs: CSV and JSON with plain numbers at full precision, accuracies as fractions.

One row a setting; what the section says (data set, protocol) is repeated in each. Empty fields (CSV) and null
(JSON) stand for what does not exist, such as the standard deviation of one run.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from idwbench.report.summaries import Report, Row, Section, Statistic

__all__ = ["render_csv", "render_json", "report_records"]


def report_records(report: Report) -> list[dict[str, Any]]:
    """Return one mapping a row, in order, of plain Python values; ``dataset_config`` and ``parameters`` nest."""
    return [_record(section, row) for section in report.sections for row in section.rows]


def render_json(report: Report) -> str:
    """Return `report_records` as a JSON list; never NaN."""
    return json.dumps(report_records(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def render_csv(report: Report) -> str:
    """Return `report_records` as a table with one header; method parameters are columns of their own."""
    records = report_records(report)
    names = list(dict.fromkeys(name for record in records for name in record["parameters"]))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*_HEAD, *names, *_NUMBERS])
    for record in records:
        writer.writerow(
            [_field(record[name]) for name in _HEAD]
            + [_field(record["parameters"].get(name)) for name in names]
            + [_field(record[name]) for name in _NUMBERS]
        )
    return stream.getvalue()


_HEAD = (
    "section",
    "dataset",
    "dataset_config",
    "epochs",
    "batch_size",
    "learning_rate",
    "optimizer",
    "schedule",
    "method",
    "plugin_sha256",
)
_NUMBERS = (
    "prototypes",
    "n",
    "diverged",
    "learned_parameters",
    *(f"{split}_{statistic}" for split in ("test", "holdout", "train") for statistic in ("mean", "std")),
    "best_test",
    "best_holdout",
    "paper_test",
    "authors_test",
)


def _record(section: Section, row: Row) -> dict[str, Any]:
    return {
        "section": section.title,
        "dataset": section.dataset,
        "dataset_config": section.dataset_config.model_dump(mode="json"),
        **section.protocol.model_dump(mode="json"),
        "method": row.method,
        "plugin_sha256": row.plugin_sha256,
        "parameters": dict(row.parameters),
        "prototypes": row.prototypes,
        "n": row.n,
        "diverged": row.n_diverged,
        "learned_parameters": row.n_learned,
        **_statistic("test", row.test),
        **_statistic("holdout", row.holdout),
        **_statistic("train", row.train),
        "best_test": row.best_test,
        "best_holdout": row.best_holdout,
        "paper_test": row.paper,
        "authors_test": row.authors,
    }


def _statistic(split: str, statistic: Statistic | None) -> dict[str, float | None]:
    return {
        f"{split}_mean": None if statistic is None else statistic.mean,
        f"{split}_std": None if statistic is None else statistic.std,
    }


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(value)
