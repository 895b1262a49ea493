"""sdmetrics' quality and diagnostic scores, the field's shared vocabulary. The only file that knows sdmetrics."""

from __future__ import annotations

import warnings

from ...data.context import Context
from ...data.records import Record
from ...data.tables import Tables
from ..registry import Section

ROWS = 5_000  # of each table; the scores are averages and move little beyond


class Quality(Record):
    """Overall scores by sdmetrics, 0 to 1. None where sdmetrics gave none."""

    quality_shapes: float | None
    quality_pairs: float | None
    diagnostic_validity: float | None
    diagnostic_structure: float | None
    version: str


def quality(tables: Tables) -> Quality:
    """The scores of the synthetic against the real held-out rows, averaged over columns and never over scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sdmetrics
        from sdmetrics.reports.single_table import DiagnosticReport, QualityReport

    kinds = {name: "numerical" if name in tables.numbers else "categorical" for name in tables.names}
    metadata = {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}
    real, made = tables.real.head(ROWS), tables.synthetic.head(ROWS)
    for name, kind in kinds.items():
        if kind == "categorical":
            real, made = real.assign(**{name: real[name].astype(str)}), made.assign(**{name: made[name].astype(str)})
    found: dict[str, float | None] = {}
    for report in (QualityReport(), DiagnosticReport()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                report.generate(real, made, metadata, verbose=False)
                rows = report.get_properties().set_index("Property")["Score"].to_dict()
            except Exception:  # its own checks fail on degenerate tables: then there is no score
                rows = {}
        found |= {str(key): float(value) if value == value else None for key, value in rows.items()}
    return Quality(
        quality_shapes=found.get("Column Shapes"),
        quality_pairs=found.get("Column Pair Trends"),
        diagnostic_validity=found.get("Data Validity"),
        diagnostic_structure=found.get("Data Structure"),
        version=sdmetrics.__version__,
    )


def _compute(context: Context) -> Quality | None:
    return quality(context.tables) if context.tables else None


SECTION = Section(
    id="quality", title="Fidelity: sdmetrics scores", compute=_compute, record=Quality, needs=("real rows",)
)
