"""A private table: its text, its schema, and what is public about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from ..arrays import Whole
from ..errors import FEW_ROWS, WARNING, Message, UsageError, some
from ..io import reader
from ..io import table as io_table
from ..io.cell_text import is_text
from ..io.formats import USUAL, SavedAs, TableFile
from ..io.table import LargeTable
from ..methods.registry import Method
from ..methods.regressions import check_columns
from ..patients import plan as later_rows
from ..patients.split_rows import changing, ending
from ..privacy import hierarchy_selection, pair_selection, partition_selection
from ..privacy.accounting.calibration import Charge, Plan, of_table
from ..privacy.accounting.events import Thresholded, rows_of
from ..privacy.accounting.unit import SEVERAL_ROWS
from ..privacy.contribution import PrivacyUnits, bound_contributions, first_in_order
from ..privacy.noise import rarely_exceeded
from ..rng import Entropy
from ..schema import Schema
from ..schema.columns.categorical import without_levels
from ..schema.columns.open import Open
from ..schema.header import facts_of_a_person, person_keys
from . import expectation
from .cluster import ClusterTable, check_declared, check_plan
from .declarations import (
    ONE_ROW,
    check_target,
    choose_schema,
    confirm_names,
    declares_one_row,
    doubts,
    may_be_targets,
    schema_of_fit,
    settled_target,
    who_is_declared,
)
from .expectation import Expectation
from .private_rows import independent_rows, order_of_rows, patients, refuse_floats
from .settings import FitSettings, Notice, TableSettings
from .source import is_linked

ROWS_PER_PATIENT_LABEL, ROWS_PER_PATIENT_SHARE = "rows per patient", 0.02
SURELY_STDS = 1.65  # standard deviations above a threshold at which a count passes it in 95 of 100 fits
TYPED_FRAME = Message(
    "The types of the frame's columns count as public. pandas may have chosen them by looking at all rows, so that one "
    "row changes how others are read. If the rows are in a file, pass its path, or read them with "
    "`pandas.read_csv(..., dtype=str, keep_default_na=False)`.",
    "The types of the frame's columns count as public. For texts, read it with `dtype=str, keep_default_na=False`.",
)
RARE_SHARE = 0.05  # of the rows: warn if classes as rare as this may be lost


@dataclass(frozen=True, kw_only=True)
class PrivateTable:
    """A private table and what is public about it: its schema, of which parts may be open.

    `undeclared`: the columns that nothing declares: they are open, or keys by their names. `target_named`: whether a
    person named the target. `na_values`: codes of missing values to add to the usual ones, in open columns.
    `one_row_a_patient`: whether it was declared that no two rows share a patient.

    `settled`: the columns of which public rows settled what was open.
    `place`: its file, or the folder and name that several tables share, for the budget file; None without a file.
    """

    data: io_table.Table | LargeTable = field(repr=False)
    declared: Schema
    target: str | None
    undeclared: tuple[str, ...] = ()
    target_named: bool = True
    na_values: tuple[str, ...] = ()
    one_row_a_patient: bool = False
    settled: tuple[str, ...] = ()
    place: Path | None = None

    @property
    def declared_schemas(self) -> list[Schema]:
        """The schema, in a list."""
        return [self.declared]

    @property
    def open(self) -> dict[str, Open]:
        """The columns of which something is open, so that the fit learns it."""
        return self.declared.open

    @property
    def open_schemas(self) -> dict[str, Schema]:
        """The schema of each table of which something is open, by the table's name; "" for a single table."""
        return {"": self.declared} if self.open else {}

    @property
    def bare(self) -> bool:
        """Whether nothing declares a column."""
        return len(self.undeclared) == len(self.declared.columns)

    def most_rows(self, table: str) -> int:
        """Return the most rows of a patient, or one, in the table of that name."""
        return self.max_rows or 1

    def queries(self, module: Method, epsilon: float, config: Any, rows: int) -> list[Charge]:
        """Return all measurements of a fit: those that learn what is open, then the method's own."""
        learning = partition_selection.queries(self.declared)
        learning += [rows_per_patient()] if self.max_rows else []
        learning += hierarchy_selection.queries(without_levels(self.declared.core.columns))
        learning += pair_selection.queries(self.declared)
        known = {name: None if name in self.open else one for name, one in self.declared.core.columns.items()}
        check_columns(getattr(config, "regressions", ()), known, self.target)
        own = module.queries(config, max(1, rows // (self.max_rows or 1)), self.columns, epsilon)
        if self.order:
            own = later_rows.queries(own, {"": bool(ending(self.declared))})
        return [*learning, *own]

    def bounded_rows(self, entropy: Entropy) -> tuple[Whole | None, PrivacyUnits | None]:
        """Return the positions of the rows in use, and their patients; None for both if the row is the unit.

        Raises SchemaError for a row without a patient.
        """
        if not (self.unit and self.max_rows):
            return None, None
        if self.order:
            return first_in_order(
                patients(self.data, self.unit), order_of_rows(self.data, self.declared), self.max_rows
            )
        return bound_contributions(patients(self.data, self.unit), self.max_rows, entropy)

    def facts(self) -> dict[str, object]:
        """Return what identifies this table and schema: for the private checkpoint alone."""
        content = {key: value for key, value in self.declared.to_dict().items() if key != "target"}
        return {
            "table": [list(self.data.header), self.data.digest], "schema": content,
            "target": self.target, "na_values": list(self.na_values), "unit": self.unit, "max_rows": self.max_rows,
            "holdout": [self.data.expected_rows, self.data.expected_std],
        }  # fmt: skip

    @property
    def unit(self) -> str | None:
        """The column of patients, if the patient is the privacy unit."""
        return self.declared.unit

    @property
    def max_rows(self) -> int | None:
        """The most rows of a patient, if the patient is the privacy unit."""
        return self.declared.max_rows

    @property
    def order(self) -> str | None:
        """The column that orders a patient's rows."""
        return self.declared.order

    @property
    def columns(self) -> int:
        """The number of columns that a model learns: for rows in order one more, the number of rows."""
        return len(self.declared.core.columns) + (self.order is not None)

    @property
    def keys_by_name(self) -> list[str]:
        """The undeclared columns whose names read like keys, without the patients' column."""
        columns = self.declared.columns
        return [name for name in self.undeclared if not columns[name].modelled and name != self.unit]

    def doubts(self, settings: FitSettings) -> list[Message]:
        """Return a warning about names that look like values, if nothing declares the names."""
        return doubts(self.data.header, settings.saved) if self.bare else []

    @property
    def shared_keys(self) -> list[str]:
        """The columns that read like a patient's key, if nothing declares who a row is: rows may share a patient."""
        if self.max_rows or self.one_row_a_patient:
            return []
        return [name for name in person_keys(self.data.header) if name != self.target]

    @property
    def rows(self) -> int:
        """The number of rows that counts as public if none is declared."""
        return self.data.public_rows

    @property
    def rows_std(self) -> float | None:
        """How far `rows` may be off after a hold-out, as a standard deviation; None if unknown."""
        return self.data.expected_std

    def records(self, plan: Plan) -> int:
        """Return the number of records that a method's notes are about."""
        return plan.equivalent_rows

    def public_facts(self, settings: FitSettings, rows: int) -> list[str]:
        """Return the facts that no noise covers and that neighbouring tables share, one phrase each.

        They come from declarations, the header line and the file's form. Only the row count changes with a row. `rows`:
        the count that the plan uses.
        """
        table, schema = self.data, self.declared
        columns = f"{len(table.header)} columns"
        names = [" ".join(name.split()) for name in table.header]
        facts: list[str] = [
            Message(
                f"the header: {columns}, their names and their order ({', '.join(names)})",
                f"the header ({columns}: {some(names)})",
            ),
            *settings.facts_of_the_file.values(),
        ]
        facts.append(Message(f"the form of the input: {table.form or 'commas and UTF-8, Parquet or a frame'}"))
        if table.file_form.decimal == ",":
            facts.append("that sampled rows have decimal commas, as `decimal_comma` declares")
        if settings.rows is not None:
            facts.append(f"the number of rows, {rows}, as `rows` declares it")
        elif table.expected_rows is None:
            own = f"the number of rows, {rows}, the table's own"
            facts.append(Message(own, f"the number of rows, {rows} (or set `rows`)"))
        else:
            own = f"the number of rows, {rows}"
            facts.append(Message(f"{own}: the row count of the whole table times the training share", own))
        if self.bare:
            facts.append(Message("that no schema is declared: the fit learns kinds, levels, bounds, and pays for them"))
        else:
            if len(self.undeclared) + len(self.settled) < len(schema.columns):
                declared = f"the schema {schema.name!r}"
                facts.append(Message(f"{declared} and all its declarations, and that the table meets them", declared))
            facts += after_a_look([schema])
            if schema.public_labels:
                facts.append(f"that the labels of {schema.public_labels} are public, as its import declared")
            if self.open:
                facts.append(f"what the schema leaves open: {self.open_in_words(', '.join)}")
        if self.na_values:
            facts.append(f"the codes of missing values that `na_values` adds: {', '.join(self.na_values)}")
        if self.keys_by_name:
            judged = "that these columns are keys, judged by their names"
            facts.append(
                Message(f"{judged}: {', '.join(self.keys_by_name)}", f"keys by name ({some(self.keys_by_name)})")
            )
        facts.append("that no column is the target" if self.target is None else f"the target, {self.target!r}")
        if self.max_rows is not None:
            facts.append(
                f"that {self.unit!r} names the patient of each row, and that a patient counts with at most "
                f"{rows_of(self.max_rows)}"
            )
        if settings.patients is not None:
            facts.append(f"the number of patients, {settings.patients}, as `patients` declares it")
        if settings.one_row_a_patient:
            facts.append("that no two rows share a patient, as `one_row_a_patient` declares")
        if settings.public is not None:
            settles = f": it settles {', '.join(self.settled)}" if self.settled else ""
            facts.append(Message(f"what `public` shows{settles}", "what `public` shows"))
        return [*facts, Message("`epsilon`, `delta`, the method and its settings", "the settings")]

    def open_in_words(self, listed: Callable[[Sequence[str]], str] = some) -> str:
        """Return what is open of which columns."""
        found: dict[str, list[str]] = {}
        for name, column in self.open.items():
            found.setdefault(column.in_words, []).append(name)
        return "; ".join(f"{what} of {listed(names)}" for what, names in found.items())

    def expected(self, plan: Plan) -> Expectation | None:
        """Return what a fit by this plan should achieve; None if its method or an order cannot be simulated."""
        if self.order is not None or not (self.open or expectation.counts_columns(plan)):
            return None
        level, rare = self._smallest_levels(plan)
        return Expectation(
            one_way=expectation.of_table(plan, self.declared),
            level=None if level is None else level / plan.rows,
            target_class=None if rare is None else rare / plan.rows,
        )

    def _smallest_levels(self, plan: Plan) -> tuple[float | None, float | None]:
        """Return the rows that an open level needs to survive the noise, and an open class; None if there is none."""
        levels = partition_selection.LEVELS
        found: dict[str, list[float]] = {levels: [], partition_selection.TARGET: []}
        for table, schema in self.open_schemas.items():
            for label, names in partition_selection.asked(schema).items():
                columns = self.columns if self.bare and label == levels else len(names)
                if label in found:
                    found[label].append(smallest_level(plan, of_table(table, label), columns, self.most_rows(table)))
        level, rare = (max(sizes, default=None) for sizes in found.values())
        return level, rare

    def notes_on_noise(self, plan: Plan) -> list[str]:
        """Return notes about the noise before anything is spent, from declared numbers and planned noise alone."""
        if isinstance(self.data, ClusterTable):
            check_plan(plan)
        notes = list[str]()
        if self.open and not self.bare:
            shares = plan.shares()
            cost = sum(
                shares[of_table(table, label)]
                for table, schema in self.open_schemas.items()
                for label in partition_selection.asked(schema)
            )
            notes.append(Message(
                f"Open: {self.open_in_words()}. To learn them takes {cost:.1%} of the privacy loss. What you declare "
                "is not measured."
            ))  # fmt: skip
        if rules := self.declared.open_pairs:
            std, least = pair_selection.threshold(plan, len(rules))
            notes.append(Message(
                f"At this budget a pair of {' or '.join(repr(rule.text) for rule in rules)} needs about "
                f"{least + SURELY_STDS * std:.0f} rows to survive the noise. Codes without one become 'other'."
            ))  # fmt: skip
        level, rare = self._smallest_levels(plan)
        needed = {f"a class of {self.target!r}": rare, "an open level": level}
        known = {what: rows for what, rows in needed.items() if rows is not None}
        if not known:
            return notes
        needs = " and ".join(
            f"{what} needs about {rows:.0f} rows ({rows / plan.rows:.1%})" for what, rows in known.items()
        )
        notes.append(Message(
            f"At this budget {needs} to survive the noise. Rarer values are merged. The usual partner of a common "
            "level, such as 1 next to 0, needs fewer rows. Declared levels all stay, at no cost."
        ))  # fmt: skip
        worst = rare if rare is not None else max(known.values())
        if worst > RARE_SHARE * plan.rows:
            what = "levels" if rare is None else f"classes of {self.target!r}"
            few = f"the model may lose {what} below {min(worst / plan.rows, 1):.0%} of the rows."
            notes.insert(0, Message(few, None, kind=FEW_ROWS))
        return notes

    def remarks(self, settings: FitSettings, plan: Plan) -> Iterator[Message]:
        """Yield what becomes public without a declaration, and warnings about the table's header."""
        if self.bare:
            yield Message(
                "No schema: the fit learns kinds, levels and bounds privately, with a part of the budget. A declared "
                "schema gives better results.",
                "No schema: a part of the budget learns one. Declare one for better results.",
                note="Kinds of columns, levels and bounds were learned from noisy counts.",
            )
        elif self.open:
            yield Message(note=f"Learned from noisy counts: {self.open_in_words(', '.join)}.")
        yield from self.doubts(settings)
        if self.keys_by_name:
            names = ", ".join(self.keys_by_name)
            keys_ = f"Keys, judged by their names: {names}. No model learns them; sampled rows get fresh keys."
            yield Message(keys_)
        if not plan.unit.declared:
            yield Message(note=f"{ONE_ROW} {SEVERAL_ROWS.capitalize()}.")
        if self.shared_keys:
            warning = (
                f"The column {self.shared_keys[0]!r} reads like a patient's key. This fit protects one row. A patient "
                "with several rows is protected less, by a factor of about their number."
            )
            yield Message(
                f"{warning} If rows may share a patient, stop here and name the column as `unit`, or in a schema. If "
                "no two rows do, declare that with `one_row_a_patient`.",
                f"{self.shared_keys[0]!r} reads like a patient's key, but the claim is for one row. If rows share "
                "patients, stop here and set `unit`. If not, declare `one_row_a_patient`.",
                kind=WARNING, note=warning,
            )  # fmt: skip
        most = rows_of(plan.max_rows or 1)
        if self.order:
            ordered = f"{self.order!r} orders the rows of a patient; the first {most} stay. Columns that may change"
            own = changing(self.declared)
            yield Message(f"{ordered} from row to row: {', '.join(own)}.", f"{ordered}: {some(own)}.")
        elif self.max_rows and self.max_rows > 1 and not self.declared.constant:
            yield independent_rows(facts_of_a_person(self.data.header))
        if settings.unit is not None:
            yield Message(
                f"{settings.unit!r} names the patients. The claim is for one patient, who counts with at most {most}, "
                "drawn at random. A larger `max_rows` keeps more rows, and the noise grows in proportion."
            )
        if settings.rows is None:
            yield Message(
                f"The table's row count, {plan.rows}, is public. To declare another, set `rows`.",
                note="The row count was not declared: the table's own became public.",
            )


def after_a_look(schemas: Iterable[Schema]) -> list[str]:
    """Return the public fact about entries that were declared after a look at the table; none without such entries."""
    seen = sum(schema.seen for schema in schemas)
    text = f"{seen} of these declarations, made after a look at the table: the claim takes them as given"
    return [Message(text, text)] if seen else []


def rows_per_patient(table: str = "") -> Charge:
    """Return the measurement of the rows per patient, in a table or in one of several by its name."""
    return Charge(label=of_table(table, ROWS_PER_PATIENT_LABEL), weight=ROWS_PER_PATIENT_SHARE**-0.5)


def smallest_level(plan: Plan, label: str, columns: int, most: int = 1) -> float:
    """Return the rows that a level needs to pass a measurement in 95 of 100 fits. Public: it follows from the plan.

    `most`: the most rows of a patient.
    """
    event = plan.events[label][0]
    std = event.multiplier * most * math.sqrt(columns)
    delta = event.delta if isinstance(event, Thresholded) else 0.5
    return most + rarely_exceeded(std, delta / (columns * most)) + SURELY_STDS * std


def read_rows(path: Path | str, saved: SavedAs = USUAL) -> io_table.Table | LargeTable:
    """Return the private table at a path, in memory; a large one is only counted, and read when its rows are needed.

    Raises TableError.
    """
    file = TableFile.of(path)
    return reader.read_large(file, saved) if reader.is_large(file) else reader.read(file, saved)


def read_table(path: Path | str, saved: SavedAs = USUAL) -> io_table.Table:
    """Read and check the private table at a path, once for the whole command.

    Its header and row count become public. Raises TableError.
    """
    return reader.read(path, saved)


def open_table(
    table: Path | str | pd.DataFrame | io_table.Table | LargeTable, settings: TableSettings, notice: Notice
) -> PrivateTable:
    """Open a table from a path, a frame or memory, with the schema of its fit.

    Raises TableError or SchemaError, UsageError for an encoding that does not exist, or for a setting that a schema
    declares as well.
    """
    path = Path(table) if isinstance(table, str | Path) else None
    if isinstance(table, io_table.Table | LargeTable):
        data: io_table.Table | LargeTable = table
    else:
        if isinstance(table, pd.DataFrame):
            settings.saved.check("frame")
            data = io_table.from_frame(table)
        else:
            data = read_rows(table, settings.saved)
    chosen = schema_of_fit(data, settings, path, notice)
    declared = chosen.schema
    if isinstance(table, pd.DataFrame) and not all(map(is_text, io_table.with_index(table).dtypes)):
        notice(TYPED_FRAME)
    if settings.decimal_comma or declared.decimal_comma:
        if data.file_form.delimiter == ",":
            raise UsageError(
                "`decimal_comma` is for a file with semicolons, tabs or bars between its columns. Export the table so."
            )
        data = replace(data, file_form=replace(data.file_form, decimal=","))
    if isinstance(data, ClusterTable):
        check_declared(data, declared, notice)
    refuse_floats(data, declared.columns, [declared.unit, declared.order])
    named = settings.target is not None or declared.target is not None
    if settings.target is not None or declared.target is None:
        names = may_be_targets(declared) if settings.target is None else declared.names
        declared = declared.with_target(settled_target(settings.target, names, notice))
    check_target(declared)
    if declared.unit and isinstance(data, io_table.Table):
        patients(data, declared.unit)  # finds a row without a patient before anything else
    if settings.na_values and not declared.open:
        raise UsageError("`na_values` are for open columns, and the schema has none. Name the codes in its `missing`.")
    return PrivateTable(
        data=data, declared=declared, target=declared.target, undeclared=chosen.undeclared, target_named=named,
        na_values=tuple(code.strip() for code in settings.na_values),
        one_row_a_patient=declares_one_row(declared, settings),
    )  # fmt: skip


def possible_targets(path: Path, settings: TableSettings) -> list[str]:
    """Return the columns that may be the target of the table at `path`, the default last; [] if one is declared.

    There are none for several tables. Only the header is read. Raises as `open_table` does.
    """
    if is_linked(path):
        return []
    declared = choose_schema(reader.header(path, settings.saved), settings, path, lambda text: None).schema
    named = settings.target is not None or declared.target is not None
    return [] if named else may_be_targets(declared)


def possible_patients(path: Path, settings: TableSettings) -> tuple[tuple[str, ...], str | None]:
    """Return the columns that may name the patients of the table at `path`, and one that does by its name.

    There are none if it is declared who a row is, and for several tables. Only the header is read. Raises as
    `open_table` does.
    """
    if is_linked(path):
        return (), None
    data = reader.header(path, settings.saved)
    declared = choose_schema(data, settings, path, lambda text: None).schema
    names = () if who_is_declared(declared, settings) else data.header
    return names, next(iter(person_keys(names)), None)


def table_header(path: Path, saved: SavedAs = USUAL) -> tuple[str, ...]:
    """Return a table's column names from its header alone. Raise TableError, and as `confirm_names`."""
    header = reader.header(path, saved).header
    confirm_names(header, str(path), saved)
    return header
