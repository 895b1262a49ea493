"""The variables: every column as the schema has it, and whether the schema was declared or learned."""

from __future__ import annotations

from ....errors import MedsynthError
from ....privacy.accounting.ledger import Ledger
from ....schema import Column
from ...data.columns import number_columns
from ...data.context import Context
from ...data.records import Record
from ..registry import Section

DECLARED, LEARNED = "declared in the schema", "learned from noisy measurements"


class Variable(Record):
    """One column as the schema has it. `origin`: whether bounds or levels were declared or learned."""

    name: str
    kind: str
    role: str
    domain: str
    origin: str
    missing: str
    precision: str


class Variables(Record):
    """Every column of the synthetic table."""

    columns: list[Variable]


def schema_learned(ledger: Ledger) -> bool:
    """Whether the ledger holds a measurement from which the schema was inferred."""
    from ....privacy.partition_selection import FORMATS, LEVELS, TARGET

    return any(entry.label in (FORMATS, LEVELS, TARGET) for entry in ledger.entries)


def _compute(context: Context) -> Variables:
    roles, names = context.review.roles, [str(name) for name in context.synthetic.columns]
    if unknown := [name for name in roles if name not in names]:
        raise MedsynthError(f"review: roles are given to columns that are not there: {', '.join(unknown)}.")
    origin = LEARNED if context.model and schema_learned(context.model.ledger) else DECLARED
    schema, found = context.schema, []
    numbers = number_columns(context.synthetic, schema)
    for name in names:
        role = roles.get(name, "target" if name == context.target else "not stated")
        column = schema.columns.get(name) if schema else None
        if column is None:
            found.append(_undeclared(name, role, name in numbers))
        else:
            found.append(_declared(name, role, column, origin))
    return Variables(columns=found)


def _undeclared(name: str, role: str, number: bool) -> Variable:
    kind = "number" if number else "levels"
    return Variable(
        name=name, kind=kind, role=role, domain="", origin="not declared", missing="not declared", precision=""
    )


def _declared(name: str, role: str, column: Column, origin: str) -> Variable:
    words = column.describe()
    return Variable(
        name=name, kind=column.kind, role=role, domain=words.domain, origin=origin, missing=words.missing,
        precision=words.precision,
    )  # fmt: skip


SECTION = Section(id="variables", title="Variables", compute=_compute, record=Variables)
