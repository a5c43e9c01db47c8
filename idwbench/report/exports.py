"""Reports as CSV and JSON, with full precision and accuracies as fractions.

One row for each model, which repeats the data set, protocol and metric of its section. Missing values are empty (CSV)
or null (JSON). ``best_test`` and ``p_value_test`` are those of `idwbench.report.comparisons`.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from idwbench.report.comparisons import COMPARED_SPLITS
from idwbench.report.summaries import SOURCES, SPLITS, Report, Row, Section
from idwbench.runs.models import PrototypesConfig
from idwbench.runs.protocol import Protocol

__all__ = ["FIELDS", "render_csv", "render_json", "report_records"]

FIELDS = (
    *("section", "dataset", "dataset_config"),
    *Protocol.model_fields,
    *(name for name in PrototypesConfig.model_fields if name != "kind"),
    *("n", "diverged", "learned_parameters", "metric"),
    *(f"{split}_{field}" for split in SPLITS for field in ("mean", "std")),
    *(f"{field}_{split}" for split in COMPARED_SPLITS for field in ("best", "p_value")),
    *(f"{source}_{field}" for source in SOURCES for field in ("test", "n")),
)


def report_records(report: Report) -> list[dict[str, Any]]:
    """Return one mapping for each row; ``dataset_config`` and ``parameters`` are nested mappings."""
    return [_record(section, row) for section in report.sections for row in section.rows]


def render_json(report: Report) -> str:
    """Return `report_records` as a JSON list, without NaN."""
    return json.dumps(report_records(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def render_csv(report: Report) -> str:
    """Return `report_records` as CSV with one column for each parameter of a method."""
    records = report_records(report)
    names = list(dict.fromkeys(name for record in records for name in record["parameters"]))
    header = [column for name in FIELDS for column in (names if name == "parameters" else [name])]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    for record in records:
        flat = {**record["parameters"], **record}
        writer.writerow([_field(flat.get(name)) for name in header])
    return stream.getvalue()


def _record(section: Section, row: Row) -> dict[str, Any]:
    record: dict[str, Any] = {
        "section": section.title,
        "dataset": section.dataset,
        "dataset_config": section.dataset_config.model_dump(mode="json"),
        **dict(section.protocol),  # unlike JSON, with settings at their default
        **dict(row.model),
        "n": row.n,
        "diverged": row.n_diverged,
        "learned_parameters": row.n_parameters,
        "metric": section.metric,
    }
    for split in SPLITS:
        found = row.statistics.get(split)
        record[f"{split}_mean"] = found and found.mean
        record[f"{split}_std"] = found and found.std
        record[f"best_{split}"] = found is not None and found.best
        record[f"p_value_{split}"] = found and found.p_value
    for source in SOURCES:
        reference = row.references.get(source)
        record[f"{source}_test"] = reference and reference.test_accuracy
        record[f"{source}_n"] = reference and reference.n
    return {name: record[name] for name in FIELDS}


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(value)
