"""Reports and leaderboards as CSV and JSON, with full precision and accuracies as fractions.

A report has one row for each model, which repeats the data set, protocol and metric of its section. A leaderboard has
one row for each setting, with all settings named as in `Results.to_frame`; the table of the dual form one for each
setting and layer. Missing values are empty (CSV) or null
(JSON). ``best_test`` and ``p_value_test`` are those of `idwbench.report.comparisons`, ``test_low``, ``test_high`` and
``test_interval`` those of `idwbench.report.intervals`, if intervals were asked for.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from idwbench.report.by_dataset import ByDataset
from idwbench.report.dual_form import DualForm
from idwbench.report.dual_form_layout import dual_form_fields, dual_form_records
from idwbench.report.layout import Printable
from idwbench.report.leaderboard import BoardRow, Leaderboard
from idwbench.report.settings import setting_names
from idwbench.report.statistics import SPLITS, Statistic, present_splits
from idwbench.report.summaries import SOURCES, Report, Row, Section
from idwbench.runs.kinds.prototypes import PrototypesConfig
from idwbench.runs.protocol import Protocol

__all__ = ["csv_text", "export_fields", "json_text", "render_csv", "render_json", "report_records"]


_COUNTS = ("n", "diverged", "learned_parameters", "metric")
# Settings of sections; other kinds of models may add some.
_SETTINGS = (
    *("section", "dataset", "dataset_config", "model"),
    *Protocol.model_fields,
    *(name for name in PrototypesConfig.model_fields if name != "kind"),
)


def export_fields(report: Printable) -> tuple[str, ...]:
    """Return the keys of `report_records`."""
    if isinstance(report, ByDataset):
        return export_fields(report.report)
    if isinstance(report, DualForm):
        return dual_form_fields(report)
    if isinstance(report, Report):
        statistics = [row.statistics for section in report.sections for row in section.rows]
        settings = (*_SETTINGS, *(name for s in report.sections for row in s.rows for name in _model_settings(row)))
        references = tuple(f"{source}_{field}" for source in SOURCES for field in ("test", "n"))
    else:
        statistics = [row.statistics for row in report.rows]
        settings = ("rank", *setting_names([row.settings for row in report.rows]))
        references = ()
    return tuple(dict.fromkeys((*settings, *_COUNTS, *_values_of_splits(statistics), *references)))


def report_records(report: Printable) -> list[dict[str, Any]]:
    """Return one mapping for each row; all have the same keys.

    In a report ``dataset_config`` and ``parameters`` are nested mappings. With data sets as columns it has the same
    rows.
    """
    if isinstance(report, ByDataset):
        return report_records(report.report)
    if isinstance(report, DualForm):
        return dual_form_records(report)
    if isinstance(report, Report):
        records = [_section_record(section, row) for section in report.sections for row in section.rows]
    else:
        records = [_board_record(report, row) for row in report.rows]
    fields = export_fields(report)
    return [{name: record.get(name) for name in fields} for record in records]


def render_json(report: Printable) -> str:
    """Return `report_records` as a JSON list, without NaN."""
    return json_text(report_records(report))


def render_csv(report: Printable) -> str:
    """Return `report_records` as CSV with one column for each parameter of a method."""
    records = report_records(report)
    parameters = list(dict.fromkeys(name for record in records for name in record.get("parameters", ())))
    header = [column for name in export_fields(report) for column in (parameters if name == "parameters" else [name])]
    return csv_text(header, ({**record.get("parameters", {}), **record} for record in records))


def json_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Return records as a JSON list, without NaN."""
    return json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def csv_text(header: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Return records as CSV with the columns of `header`; what is None or missing is empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_field(record.get(name)) for name in header] for record in records)
    return stream.getvalue()


def _section_record(section: Section, row: Row) -> dict[str, Any]:
    return {
        "section": section.title,
        "dataset": section.dataset,
        "dataset_config": _data_settings(section),
        "model": row.model.kind,
        **dict(section.protocol),  # unlike JSON, with settings at their default
        **_model_settings(row),
        **_counts(row, section.metric),
        **_values(row.statistics),
        **_references(row),
    }


def _data_settings(section: Section) -> dict[str, Any]:
    """Return the settings of the data set; the seeds are a list where the statistics are over them."""
    settings = section.dataset_config.model_dump(mode="json")
    return {**settings, "seed": list(section.data_seeds)} if section.data_seeds else settings


def _model_settings(row: Row) -> dict[str, Any]:
    settings = {"parameters": row.model.parameters, **dict(row.model)}
    return {name: value for name, value in settings.items() if name != "kind"}


def _board_record(board: Leaderboard, row: BoardRow) -> dict[str, Any]:
    return {"rank": row.rank, **row.settings, **_counts(row, board.metric), **_values(row.statistics)}


def _counts(row: Row | BoardRow, metric: str) -> dict[str, Any]:
    return dict(zip(_COUNTS, (row.n, row.n_diverged, row.n_parameters, metric), strict=True))


def _values_of_splits(rows: Sequence[Mapping[str, Statistic]]) -> list[str]:
    splits = (*SPLITS, *(split for split in present_splits(rows) if split not in SPLITS))
    intervals = any(one.interval is not None for row in rows for one in row.values())
    spread = ("mean", "std", "low", "high", "interval") if intervals else ("mean", "std")
    first = [f"{split}_{field}" for split in splits for field in spread]
    return first + [f"{field}_{split}" for split in splits for field in ("best", "p_value")]


def _values(row: Mapping[str, Statistic]) -> dict[str, Any]:
    record: dict[str, Any] = {f"best_{split}": False for split in SPLITS}
    for split, found in row.items():
        record |= {f"{split}_mean": found.mean, f"{split}_std": found.std}
        record |= {f"best_{split}": found.best, f"p_value_{split}": found.p_value}
        if (interval := found.interval) is not None:
            record |= {f"{split}_low": interval.low, f"{split}_high": interval.high}
            record[f"{split}_interval"] = interval.method
    return record


def _references(row: Row) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for source in SOURCES:
        reference = row.references.get(source)
        record[f"{source}_test"] = reference and reference.test_accuracy
        record[f"{source}_n"] = reference and reference.n
    return record


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(_field, value))
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return str(value)
