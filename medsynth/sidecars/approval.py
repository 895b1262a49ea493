"""The page on which a board approves a fit before it, and the plan's file that the fit must keep to.

Both state what is declared and planned. The plan needs the table's header and its number of rows, and no cell.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

from .. import __version__
from ..fitting.approval import stated
from ..fitting.private_table import PrivateTable
from ..io.atomic import write_page
from ..privacy.accounting.accountant import rounded_up
from ..report.data.verdict import Review
from ..schema import Schema
from ..schema.columns.column import Column
from ..schema.columns.open import Open

Json = dict[str, Any]
PLACES = re.compile(r"(^|[\W_])(post|zip|city|town|region|county|country|state|site|ward|hosp|clinic|address|district"
                    r"|plz|ort|land)", re.IGNORECASE)  # fmt: skip
LOST = (
    "Every single patient: no synthetic row belongs to a person, and rows cannot be linked to other data of a person.",
    "Values outside the declared bounds: they count as the bound, or as the schema says.",
    "Texts and keys: synthetic keys are new, and free text is left out.",
    "Relations that no measurement below covers: those of three and more columns appear only as far as pairs imply.",
)


def plan_content(private: PrivateTable, plan: Mapping[str, Any], review: Review, title: str) -> Json:
    """Return the content of the plan's file: the `plan` as the command prints it, and what it is asked for."""
    own = Review.model_fields
    asked = {name: getattr(review, name) for name in own if name not in ("roles", "catalogue", "thresholds")}
    return {
        "kind": "medsynth plan", "format": 1, "medsynth": __version__, "created": date.today().isoformat(),
        "title": review.table or title, **plan, "fits": plan["on_file"]["fits"],
        "asked": {name: value for name, value in json.loads(review.model_dump_json(include=set(asked))).items()
                  if value is not None},
        "schemas": stated(private),
        "columns": [one for table, schema in _schemas(private) for one in _columns(table, schema, review)],
        "detail": detail(private, plan, review),
        "lost": [*_lost(private, plan), *LOST],
    }  # fmt: skip


def save_plan(content: Json, page: Path, *, force: bool = False) -> Path:
    """Write the page, and the plan's file next to it: both or neither. Return the file. Raise OutputExists."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    templates = resources.files("medsynth.report.page") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (templates / name).read_text(encoding="utf-8")), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "eps": rounded_up, "hundred": lambda share: math.ceil(100 * share - 1e-9),
        "words": lambda text: text.replace("`", ""),
    }  # fmt: skip
    data = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    html = environment.get_template("plan.html").render(
        content, style=(templates / "report.css").read_text(encoding="utf-8"), file=page.with_suffix(".json").name
    )
    return write_page(page, html, data, force=force)


def _schemas(private: PrivateTable) -> list[tuple[str, Schema]]:
    """Return each table's schema by its name, or that of a single table by an empty name."""
    tables = getattr(private, "tables", None)
    return [("", private.declared)] if tables is None else [(name, tables.written(name)) for name in tables.tables]


def _columns(table: str, schema: Schema, review: Review) -> list[Json]:
    """Return the columns of a table as they are declared, in words."""
    found = list[Json]()
    for name, column in schema.columns.items():
        words = column.describe()
        role = review.roles.get(name, "target" if name == schema.target else "")
        found.append({
            "table": table, "name": name, "label": column.label or "", "kind": column.kind, "role": role,
            "domain": words.domain, "missing": words.missing, "precision": words.precision, "declared": _origin(column),
        })  # fmt: skip
    return found


def _origin(column: Column) -> str:
    """Return where the declaration of a column comes from."""
    if isinstance(column, Open):
        looked = " (partly declared after a look)" if column.given.get("seen") else ""
        return f"open: learned with noise{looked}"
    return "declared after a look at the table" if column.seen else "declared"


def _lost(private: PrivateTable, plan: Mapping[str, Any]) -> list[str]:
    """Return what this fit will lose, from its plan and its declarations."""
    expected = plan["expected"] or {}
    found = list[str]()
    for name, what in (("level", "open levels"), ("target_class", "classes of the target")):
        if (share := expected.get(name)) is not None:
            found.append(f"Most {what} below {min(share, 1.0):.1%} of the rows: noise hides them.")
    if private.max_rows is not None:
        found.append(f"Rows of a patient beyond {private.max_rows}: the fit leaves them out.")
    return found


def detail(private: PrivateTable, plan: Mapping[str, Any], review: Review) -> list[Json]:
    """Return the five dimensions of detail that TEHDAS2 names, and what the plan says about each. People add the rest.

    Columns that may name places are found by their names alone.
    """
    columns = [(name, column) for _, schema in _schemas(private) for name, column in schema.columns.items()]
    keys = [name for name, column in columns if not column.modelled]
    dates = [f"{name} ({column.describe().domain})" for name, column in columns if column.dated]
    places = [name for name, _ in columns if PLACES.search(name)]
    units = [f"{name} in {unit}" for name, column in columns if (unit := getattr(column, "unit", None))]
    people = [name for name, role in review.roles.items() if role in ("direct identifier", "quasi identifier")]
    order = [f"{schema.order} orders the rows of a patient" for _, schema in _schemas(private) if schema.order]
    return [
        {"dimension": "who", "about": "whose rows, and what identifies them", "found": [
            f"the claim protects {plan['protects']}", _listed("new keys in", keys), _listed("identifying:", people),
            review.inclusion or ""]},
        {"dimension": "what", "about": "which facts about them", "found": [
            f"{len(columns) - len(keys)} columns in the model", f"{plan['rows']} rows, a public number"]},
        {"dimension": "when", "about": "dates and their precision", "found": [
            _listed("dates:", dates) or "no column is declared as a date", *order, review.period or ""]},
        {"dimension": "where", "about": "places and their precision", "found": [
            _listed("may name places:", places) or "no column's name reads like a place",
            _listed("from", review.catalogue.geography)]},
        {"dimension": "how", "about": "units and codes", "found": [
            _listed("", units) or "no unit is declared", _listed("codes of", review.catalogue.coding_systems)]},
    ]  # fmt: skip


def _listed(what: str, names: Sequence[str]) -> str:
    """Return the names after `what`, or an empty text without names."""
    return f"{what} {', '.join(names)}".strip() if names else ""
