"""What people declare of a private table, and what its header alone tells: schema, target, keys, and who a row is."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import WARNING, Message, SchemaError, TableError, UsageError, did_you_mean, some
from ..io import formats
from ..io.formats import SavedAs
from ..io.table import LargeTable, Table
from ..privacy.accounting.unit import SEVERAL_ROWS
from ..schema import Column, Identifier, Schema, bundled_for
from ..schema.codec import check_header
from ..schema.columns.open import Open
from ..schema.header import free_texts, keys
from ..schema.learned import LEARNED_NAME
from ..schema.value_like import may_be_row, value_like
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


class SchemaOfTable(NamedTuple):
    """The schema of all columns of a table, in its order, and those that nothing declares: open ones, and keys.

    `given`: what a person declared, if anything.
    """

    given: Schema | None
    schema: Schema
    undeclared: tuple[str, ...]

    @property
    def bare(self) -> bool:
        """Whether nothing declares a column."""
        return len(self.undeclared) == len(self.schema.columns)


def choose_schema(
    data: Table | LargeTable, settings: TableSettings, path: Path | None, notice: Notice
) -> SchemaOfTable:
    """Return the given schema, else that in the file next to the table, else a bundled one by header, else an open one.

    Raises SchemaError if its columns are not the table's, and TableError if no schema declares them and they look like
    values.
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
        found = None
    if settings.drop:
        found = without(found, data.header, settings.drop)
    if found is not None:
        check_header(data, found)
    return with_other_columns(found, data.header, settings)


def without(given: Schema | None, header: Sequence[str], drop: Iterable[str]) -> Schema:
    """Return a schema in which some columns of a header are left out. Raises SchemaError if it has no such column."""
    schema = given or Schema(name=LEARNED_NAME, other_columns="learn")
    columns = dict(schema.columns)
    for name in drop:
        if name not in header:
            raise SchemaError(f"`drop` names {name!r}, which is not a column.{did_you_mean(name, header)}")
        columns = {own: column for own, column in columns.items() if own not in schema.header.get(name, {})}
        columns[name] = Identifier(drop=True)
    return Schema.from_dict({**schema.to_dict(), "columns": columns}, "the schema without the columns in `drop`")


def with_other_columns(given: Schema | None, header: Sequence[str], settings: TableSettings) -> SchemaOfTable:
    """Return a schema with the columns of the header that it does not mention, if they are to be learned.

    Names of keys are keys; other columns are open. A column `unit` of the settings names patients, of whom each counts
    with at most `max_rows` rows, DEFAULT_MAX_ROWS if not given. It is a key, also if it is open or was declared after a
    look. Raises SchemaError for a column of free text.
    """
    schema = given or Schema(name=LEARNED_NAME, other_columns="learn")
    named = schema.columns.get(settings.unit or "")
    if named is not None and named.modelled and (named.seen or isinstance(named, Open)):
        schema = schema.with_columns(schema.columns | {settings.unit or "": Identifier()})
    unit, target = settings.unit, settings.target or schema.target
    others = [name for name in header if name not in schema.header] if schema.other_columns == "learn" else []
    if unit is not None and schema.unit is not None:
        raise UsageError(f"The schema names the column of patients, {schema.unit!r}. Leave out `unit` and `max_rows`.")
    own = schema.columns.get(unit or "")
    keys_ = [*others, *(name for name, column in schema.columns.items() if not column.modelled)]
    if unit is not None and (unit not in keys_ or unit == target):
        wrong = (
            "is the target"
            if unit == target
            else f"must be of kind identifier in the schema. Declare it so, and set `unit: {unit}` there"
            if own
            else (f"is not a column.{did_you_mean(unit, keys_)}")
        )
        raise SchemaError(f"`unit` names the column of patients: {unit!r} {wrong}")
    whole = with_open_columns(schema, others, header, {target}, {unit})
    if not others and unit is None:
        return SchemaOfTable(given, whole, ())
    content = {**schema.to_dict(), "columns": whole.columns, "other_columns": "refuse"}
    if unit is not None:
        content |= {"unit": unit, "max_rows": settings.max_rows or DEFAULT_MAX_ROWS}
    return SchemaOfTable(given, Schema.from_dict(content, f"schema {schema.name!r}"), tuple(others))


def with_open_columns(
    schema: Schema, others: Sequence[str], header: Sequence[str], but: Container[str | None],
    known: Iterable[str | None] = (),
) -> Schema:  # fmt: skip
    """Return a schema with the columns `others` of a table's header: keys by their names, or `known`, and open ones.

    `but`: columns that may have any name. Raises SchemaError for a column of free text.
    """
    texts = [name for name in free_texts(others) if name not in but]
    if texts:
        raise SchemaError(
            f"The column {texts[0]!r} reads like free text. It is never modelled: one sentence can name a patient. "
            "Remove it from the table, or leave it out by `drop`."
        )
    fresh = {name for name in (*keys(others), *known) if name not in but}
    more: dict[str, Column] = {name: Identifier() if name in fresh else Open() for name in others}
    return schema.with_columns(schema.columns | more).in_order(header)


def schema_of_fit(
    data: Table | LargeTable, settings: TableSettings, path: Path | None, notice: Notice
) -> SchemaOfTable:
    """Return the schema as `choose_schema` does, after notices: first who a row is if nothing declares it, then more.

    No cell decides about a notice.
    """
    said = list[str]()
    commas = settings.decimal_comma or data.file_form.delimiter == ","
    try:
        declared = choose_schema(data, settings, path, said.append)
        commas = commas or bool(declared.schema.decimal_comma)
        if not who_is_declared(declared.schema, settings):
            several = SEVERAL_ROWS.capitalize()
            said.insert(0, Message(
                f"{ONE_ROW} {several}, by a factor of about their number. If rows can share a patient, set `unit` to "
                "the column of patients. If no two rows do, declare `one_row_a_patient`.",
                f"{ONE_ROW} {several}. Set `unit` to the patients' column, or declare `one_row_a_patient`.",
            ))  # fmt: skip
    finally:
        if data.form:  # after the line that says who a row is
            hint = "" if commas else " Sampled rows have decimal points, unless `decimal_comma` declares commas."
            second = bool(said) and said[0].startswith(ONE_ROW)
            said.insert(second, f"{data.where} is read as a table {data.form}.{hint}")
        for text in said:
            notice(text)
    return declared


def who_is_declared(schema: Schema, settings: TableSettings) -> bool:
    """Return whether a schema or the settings declare who a row is."""
    return schema.unit is not None or declares_one_row(schema, settings)


def declares_one_row(schema: Schema, settings: TableSettings) -> bool:
    """Return whether a schema or the settings declare that no two rows share a patient.

    Raises UsageError if the schema names the patients' column and the settings contradict it.
    """
    if schema.unit is not None and settings.one_row_a_patient:
        raise UsageError(
            f"The schema names the patients' column, {schema.unit!r}: rows can share a patient. Leave out "
            "`one_row_a_patient`."
        )
    return settings.one_row_a_patient or schema.one_row_a_patient


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
        Message(f"{chosen} The fit relates all columns to it, and the report predicts it. {cure}", f"{chosen} {cure}")
    )
    return names[-1]


def may_be_targets(schema: Schema) -> list[str]:
    """Return the columns that may be the target, in the table's order."""
    return [name for name, column in schema.columns.items() if column.may_be_target]


def check_target(schema: Schema) -> None:
    """Raise SchemaError for a target of one class, one without chosen levels, or a table with no other column."""
    if schema.order is None and len(schema.core.columns) < (1 if schema.target is None else 2):
        raise SchemaError(ONLY_A_TARGET)
    if schema.target is None:
        return
    column = schema.columns[schema.target]
    if column.categorical and not column.levels and schema.target not in schema.open:
        raise SchemaError(
            f"The target {schema.target!r} is in a hierarchy of codes. List its classes in `levels` instead."
        )
    if column.categorical and column.size < 2 and schema.target not in schema.open:
        raise SchemaError(
            f"The target {schema.target!r} has one class: there is nothing to predict. Name another column as `target`."
        )
