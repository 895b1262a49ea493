"""What people declare of a private table, and what its header alone tells: schema, target, keys, and who a row is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import NEEDS_SCHEMA, WARNING, Message, SchemaError, TableError, UsageError, did_you_mean, some
from ..io import formats
from ..io.formats import SavedAs
from ..io.table import LargeTable, Table
from ..privacy.accounting.unit import SEVERAL_ROWS
from ..privacy.partition_selection import Learning
from ..schema import Identifier, Schema, bundled_for
from ..schema.codec import check_header
from ..schema.header import free_texts, keys
from ..schema.value_like import may_be_row, value_like
from .private_rows import refuse_floats
from .settings import NO_TARGET, Notice, TableSettings

# The noise grows with `max_rows`, and the kept rows grow less, for any table: one row has the least noise.
DEFAULT_MAX_ROWS = 1
ONE_ROW = "UNIT: one row, because nothing declares who a row is."  # starts the first notice of such a fit
ONLY_A_TARGET = (
    "The table has no column other than its target. Add the columns to learn from, or set `target` to none. If it has "
    "more columns, put commas, semicolons, tabs or bars between them."
)


def doubts(header: Sequence[str], saved: SavedAs) -> list[Message]:
    """Return a warning about the names that look like values, if there are any and nothing declares the names."""
    found = [] if saved.header_is_names else value_like(header)
    if not found:
        return []
    text = (
        f"These names of columns look like values: {', '.join(found)}. If the table has no header line, they are a "
        "patient's: stop here, and add a header line above the rows."
    )
    return [Message(text, None, kind=WARNING)]


def confirm_names(header: Sequence[str], where: str, saved: SavedAs) -> None:
    """Raise TableError, without a name, for a header that may be a row of values, unless the user declares its names.

    The header alone decides.
    """
    if not saved.header_is_names and may_be_row(header):
        found = [str(k) for k, name in enumerate(header, 1) if name in value_like(header)]
        raise TableError(
            f"{where}: the header looks like a row of values (column {some(found, cure='')}). If it is a patient's "
            "row, add a header line above it. If these are the names of columns, set `header_is_names`, or declare a "
            "schema."
        )


def choose_schema(
    data: Table | LargeTable, settings: TableSettings, path: Path | None, notice: Notice
) -> Schema | None:
    """Return the given schema, else the one in the file next to the table, else a bundled one by header, else None.

    Its columns are in the table's order. Raises SchemaError if they are not the table's columns, and TableError if no
    schema declares them and they look like values.
    """
    schema = settings.schema
    sibling = formats.beside(path, ".schema.yaml") if path else None
    if isinstance(schema, Mapping):
        found = Schema.from_dict(schema, "`schema`")
    elif isinstance(schema, Schema):
        found = schema
    elif schema is not None:
        found = Schema.load(schema)
    elif sibling and sibling.exists():
        found = Schema.load(sibling)
        notice(f"Schema: {sibling}")
    elif bundle := bundled_for(data.header):
        found = bundle
        known = f"Schema: the bundled {bundle.name!r}, recognised by its column names"
        notice(Message(f"{known}:\n{bundle.to_yaml()}", f"{known}."))
    else:
        confirm_names(data.header, data.where, settings.saved)
        return None
    check_header(data, found)
    return found.in_order(data.header)


def schema_of_fit(
    data: Table | LargeTable, settings: TableSettings, path: Path | None, notice: Notice
) -> Schema | None:
    """Return the schema as `choose_schema` does, after notices: first who a row is if nothing declares it, then more.

    No cell decides about a notice.
    """
    said = list[str]()
    if data.form:
        commas = data.file_form.delimiter != "," and not settings.decimal_comma
        hint = " Sampled rows have decimal points, unless `decimal_comma` declares commas." if commas else ""
        said.append(f"{data.where} is read as a table {data.form}.{hint}")
    try:
        declared = choose_schema(data, settings, path, said.append)
        if not who_is_declared(declared, settings):
            several = SEVERAL_ROWS.capitalize()
            said.insert(0, Message(
                f"{ONE_ROW} {several}, by a factor of about their number. If rows can share a patient, set `unit` to "
                "the column of patients. If no two rows do, declare `one_row_a_patient`.",
                f"{ONE_ROW} {several}. Set `unit` to the patients' column, or declare `one_row_a_patient`.",
            ))  # fmt: skip
    finally:
        for text in said:
            notice(text)
    return declared


def who_is_declared(schema: Schema | None, settings: TableSettings) -> bool:
    """Return whether a schema or the settings declare who a row is."""
    named = settings.unit or (schema and schema.unit)
    return bool(named) or declares_one_row(schema, settings)


def declares_one_row(schema: Schema | None, settings: TableSettings) -> bool:
    """Return whether a schema or the settings declare that no two rows share a patient.

    Raises UsageError if the schema names the patients' column and the settings contradict it.
    """
    if schema is not None and schema.unit is not None and settings.one_row_a_patient:
        raise UsageError(
            f"The schema names the patients' column, {schema.unit!r}: rows can share a patient. Leave out "
            "`one_row_a_patient`."
        )
    return settings.one_row_a_patient or (schema is not None and schema.one_row_a_patient)


def learning_of(
    header: Sequence[str], target: str | None, na_values: tuple[str, ...], unit: str | None, max_rows: int | None
) -> Learning:
    """Return the public part of the measurements that learn a schema. Raise SchemaError for a column of free text.

    If the column `unit` names patients, each counts with at most `max_rows` rows, DEFAULT_MAX_ROWS if not given.
    """
    if unit is not None and (unit not in header or unit == target):
        wrong = "is the target" if unit == target else f"is not a column.{did_you_mean(unit, header)}"
        raise SchemaError(f"`unit` names the column of patients: {unit!r} {wrong}")
    texts = [name for name in free_texts(header) if name != target]
    if texts:
        raise SchemaError(
            f"The column {texts[0]!r} reads like free text. It is never modelled: one sentence can name a patient. "
            "Remove the column from the table. Or draft a schema and declare its kind there; `kind: identifier` with "
            "`drop: true` leaves it out of the sampled rows.",
            NEEDS_SCHEMA,
        )
    named = set(keys(header))
    known = [name for name in header if name == unit or (name in named and name != target)]
    most = None if unit is None else max_rows or DEFAULT_MAX_ROWS
    return Learning(na_values=na_values, keys={name: Identifier() for name in known}, unit=unit, max_rows=most)


def refuse_floats_of(data: Table | LargeTable, declared: Schema | None, unit: str | None) -> None:
    """Raise SchemaError for floats as keys or as long codes, by the declared schema or, without one, the `unit`."""
    if declared is None:
        refuse_floats(data, {}, [unit])
    else:
        refuse_floats(data, declared.columns, [declared.unit, declared.order])


def settled_target(wanted: str | None, names: Sequence[str], notice: Notice) -> str | None:
    """Return the wanted target, else the last column; None for NO_TARGET. Raise SchemaError for an unknown column."""
    if wanted is not None and wanted in names:
        if wanted == NO_TARGET:
            notice(f"TARGET: {NO_TARGET!r}, the column of this name. To fit without a target, rename the column.")
        return wanted
    if wanted == NO_TARGET:
        return None
    if wanted is not None:
        raise SchemaError(f"The target {wanted!r} is not a column.{did_you_mean(wanted, names)}")
    if not names:
        raise SchemaError("The table has no column other than keys. Add the columns to learn from.")
    chosen, cure = f"TARGET: {names[-1]!r}, the last column.", f'Set `target` to another, or to "{NO_TARGET}".'
    notice(
        Message(f"{chosen} The fit keeps its classes best, and the report predicts them. {cure}", f"{chosen} {cure}")
    )
    return names[-1]


def may_be_targets(schema: Schema) -> list[str]:
    """Return the columns that may be the target, in the table's order."""
    return [name for name, column in schema.columns.items() if column.may_be_target]


def check_target(schema: Schema) -> None:
    """Raise SchemaError for a target of one class, one without chosen levels, or a table with no other column."""
    if schema.target is None:
        return
    column = schema.columns[schema.target]
    if column.categorical and not column.levels:
        raise SchemaError(
            f"The target {schema.target!r} is in a hierarchy of codes. List its classes in `levels` instead."
        )
    if column.categorical and column.size < 2:
        raise SchemaError(
            f"The target {schema.target!r} has one class: there is nothing to predict. Name another column as `target`."
        )
    if schema.order is None and len(schema.core.columns) < 2:
        raise SchemaError(ONLY_A_TARGET)
