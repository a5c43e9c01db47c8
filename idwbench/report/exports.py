"""A report for programs: CSV and JSON with plain numbers at full precision, accuracies as fractions.

One row for each model; what the section says (data set, protocol, metric) is repeated in each. Empty fields (CSV) and
null (JSON) stand for what does not exist, such as the standard deviation of one run. ``best_test`` is true for the best
mean of its number of prototypes and for every row that a paired test over seeds does not distinguish from it;
``p_value_test`` is the p-value of that test (see `idwbench.report.comparisons`), and null where there were too few
seeds. The same holds for the other splits.
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
from idwbench.runs.settings import Settings

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
    """Return one mapping for each row, in order, of plain Python values.

    ``dataset_config`` and ``parameters`` are mappings themselves.
    """
    return [_record(section, row) for section in report.sections for row in section.rows]


def render_json(report: Report) -> str:
    """Return `report_records` as a JSON list; never NaN."""
    return json.dumps(report_records(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def render_csv(report: Report) -> str:
    """Return `report_records` as a table with one header; method parameters are columns of their own."""
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
        **_settings(section.protocol),
        **_settings(row.model),
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


def _settings(settings: Settings) -> dict[str, Any]:
    """Return every setting by name, also those that run keys leave out at their default."""
    return {name: getattr(settings, name) for name in type(settings).model_fields}


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(value)
