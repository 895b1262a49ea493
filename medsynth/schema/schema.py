"""A schema: the columns of a table, in order, and its target; read from YAML and written to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from ..errors import DeclarationError, SchemaError, did_you_mean
from ..io.table import frame_dtypes
from ..row_count import MAX_ROWS_PER_PATIENT
from .columns.column import Column, Level, code_texts, level_text
from .columns.dtypes import dtype_name
from .columns.open import Open
from .columns.parts import Columns, file_columns, to_dict
from .declared import ENDING, Declaration, bundled_files, yaml_key, yaml_text
from .rules import Constraint, Definition, Rule, parse, yes_level

if TYPE_CHECKING:
    import pandas as pd

MAX_RULES = 200
MOST_PAIRS = 4_000_000  # of a code and a label, which a fit counts


class TimeToEvent(BaseModel):
    """The column of the time under observation, and the `event` column, whose `level` says that the event ended it.

    `level` is by default the second level of a binary column. The report compares survival by these columns.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: str
    event: str
    level: Level | None = None


class Schema(Declaration):
    """The public description of a table: `columns` by name, in the table's order, and the `target` column.

    >>> schema = Schema.from_yaml('''
    ... name: clinic
    ... target: class
    ... columns:
    ...   tsh: {kind: continuous, bounds: [0, 1], scale: log, decimals: 5, unit: U/l}
    ...   visits: {kind: count, bounds: [0, 50]}
    ...   sex: {kind: binary, levels: [0, 1]}
    ...   class: {kind: categorical, levels: [1, 2, 3]}
    ... ''')
    >>> schema.names
    ('tsh', 'visits', 'sex', 'class')
    """

    called: ClassVar[str] = "schema"

    name: str
    target: str | None = None
    columns: Columns = {}
    other_columns: Literal["refuse", "leave out", "learn"] = "refuse"  # columns of the table that are not declared
    rules: tuple[str, ...] = Field((), max_length=MAX_RULES)
    unit: str | None = None  # the identifier of patients, if the patient and not the row is the unit of privacy
    max_rows: int | None = Field(None, ge=1, le=MAX_ROWS_PER_PATIENT)
    one_row_a_patient: bool = False  # whether no two rows share a patient
    decimal_comma: bool | Literal["seen"] = False  # whether sampled rows have decimal commas; declared after a look
    constant: tuple[str, ...] = ()  # columns that are constant over a patient's rows
    order: str | None = None  # the column that orders a patient's rows, ascending
    survival: TimeToEvent | None = None  # the columns that have the roles of time and event
    seen_rules: tuple[str, ...] = ()  # those of the rules that a person declared after a look at the table
    pairs: dict[str, Annotated[dict[str, Level], BeforeValidator(code_texts)]] = {}  # of a column: its label by code
    public_labels: str | None = None  # the file whose labels were declared public, if levels come from them
    _definitions: dict[str, Definition] = PrivateAttr(default_factory=dict)
    _constraints: tuple[Constraint, ...] = PrivateAttr(default=())

    @model_validator(mode="before")
    @classmethod
    def _without_todos(cls, content: Any) -> Any:
        """Leave out what is null, as a TODO is."""
        if not isinstance(content, Mapping):
            return content
        found = {key: value for key, value in content.items() if value is not None}
        if isinstance(rules := found.get("rules"), list):
            marked = [rule["rule"] for rule in rules if isinstance(rule, dict) and {*rule} == {"rule", "seen"}]
            texts = [rule["rule"] if isinstance(rule, dict) and "rule" in rule else rule for rule in rules]
            found["rules"] = [rule for rule in texts if rule is not None]
            found |= {"seen_rules": marked} if marked else {}
        return found

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.columns and self.other_columns != "learn":
            raise ValueError("declare `columns`, or set `other_columns: learn`")
        named = self.other_columns != "learn"  # else the table's header names more columns
        if named and self.target is not None and self.target not in self.columns:
            raise ValueError(f"the key target must name a column.{did_you_mean(self.target, self.columns)}")
        if (self.unit is None) != (self.max_rows is None):
            raise ValueError(
                'set "unit", the identifier of patients, and "max_rows", the most rows of a patient, together'
            )
        if self.unit is not None and self.one_row_a_patient:
            raise ValueError('set one of "unit" and "one_row_a_patient": rows can share a patient, or no two rows do')
        if self.unit is not None and (self.unit not in self.columns or self.columns[self.unit].modelled):
            raise ValueError('the schema key "unit" must name a column of kind identifier')
        if self.constant and self.unit is None:
            raise ValueError(
                '`constant` lists columns that stay the same over a patient\'s rows, so it needs the key "unit"'
            )
        if lost := [name for name in self.constant if name not in self.core.columns]:
            raise ValueError(f"`constant`: {lost[0]!r} must be a column, not a key and not defined by a rule")
        if self.order is not None:
            self._check_order(self.order)
        if self.survival is not None:
            self._check_survival(self.survival)
        self._check_pairs()
        settled: set[str] = set()
        for rule in self.parsed_rules:
            self._check_known(rule)
            self._check_across(rule)
            if (name := rule.defines) is None:
                continue
            later = {other.defines for other in self.parsed_rules} - settled
            if name == self.target or name in settled or rule.columns & later:
                raise ValueError(
                    f"rule {rule.text!r}: it must not define the target, define a column twice, or read a column that "
                    "a later rule defines"
                )
            empty = bool(rule.before) or any(self.columns[c].missing for c in rule.columns)
            if empty and not rule.cumulative and not self.columns[name].missing:
                raise ValueError(f"rule {rule.text!r}: its input may be missing, so {name!r} needs `missing: true`")
            settled.add(name)
        for name, column in self.columns.items():
            if name == self.target and not column.may_be_target:
                raise DeclarationError(f"the target {name!r} cannot be of kind {column.kind}", name, "kind")
            try:
                column.check_related(self.columns)
            except ValueError as error:
                raise DeclarationError(f"column {name!r}: {error}", name, getattr(error, "entry", "")) from None
            if name not in settled and settled.intersection(column.depends_on):
                raise DeclarationError(
                    f"column {name!r}: a rule must define it, as one defines the column it depends on", name, "after"
                )
        return self

    def _check_order(self, name: str) -> None:
        """Raise ValueError unless the column of that name can decide which of a patient's rows comes first."""
        if self.unit is None:
            raise ValueError('`order` sorts the rows of a patient, so it needs the key "unit"')
        column = self.columns.get(name)
        if isinstance(column, Open):
            raise ValueError(f"`order`: {name!r} is open ({column.in_words}). Declare it, since it sorts rows")
        if column is None or name == self.unit or name == self.target or name in self.constant:
            raise ValueError(
                f"`order`: {name!r} must be a column that changes over a patient's rows. It cannot be the patient, the "
                "target or a constant column"
            )
        if self.max_rows == 1 or column.missing:
            raise ValueError(f"`order`: {name!r} needs `max_rows` of two or more, and must not have missing cells")
        if self.other_columns != "learn" and not set(self.core.columns) - {*self.constant, name}:
            raise ValueError(f"`order`: no column other than {name!r} changes over a patient's rows. Leave out `order`")
        if column.modelled and (name not in self.core.columns or not column.ordered or column.depends_on):
            raise ValueError(
                f"`order`: {name!r} must be a date without `after`, a number, an identifier or planned visits (kind "
                "ordinal)"
            )

    def _check_survival(self, roles: TimeToEvent) -> None:
        """Raise ValueError unless the roles name a number and a level, in a table of one row per patient."""
        time, event = self.columns.get(roles.time), self.columns.get(roles.event)
        if time is None or time.categorical or time.dated or not time.modelled or type(time) is Open:
            raise ValueError(f"`survival`: `time` must name a number column.{did_you_mean(roles.time, self.columns)}")
        if event is None or not event.categorical or not event.modelled:
            raise ValueError(
                f"`survival`: `event` must name a column with levels.{did_you_mean(roles.event, self.columns)}"
            )
        levels = [level_text(level) for level in event.levels]
        if roles.level is None and len(levels) != 2:
            raise ValueError(
                f"`survival`: {roles.event!r} has not exactly two levels. Set `level` to that of the event"
            )
        if roles.level is not None and level_text(roles.level) not in levels:
            raise ValueError(f"`survival`: `level` must be a level of {roles.event!r}")
        if self.max_rows not in (None, 1):
            raise ValueError(
                "`survival` needs one row per patient. For several rows, set `order` and a rule with `last row`"
            )

    @property
    def event_level(self) -> str | None:
        """The level of the event column that means the event; None without `survival`."""
        if self.survival is None:
            return None
        level = self.survival.level
        return level_text(self.columns[self.survival.event].levels[1] if level is None else level)

    def _check_known(self, rule: Rule) -> None:
        """Raise ValueError for a rule that reads a column of open kind, or defines an open one."""
        for name in sorted(rule.columns | {rule.defines or min(rule.columns)}):
            column = self.columns[name]
            if type(column) is Open or (isinstance(column, Open) and name == rule.defines and not rule.code):
                raise ValueError(f"rule {rule.text!r}: {name!r} is open ({column.in_words}). Declare it for this rule")
            if name in rule.dates and not column.dated:
                raise ValueError(f"rule {rule.text!r}: years( ) takes dates, but {name!r} is not one")

    def _check_pairs(self) -> None:
        """Raise ValueError for a rule whose pairs a fit cannot learn, and for pairs that lack a code or a label."""
        labels = {rule.defines: rule for rule in self.parsed_rules if rule.code}
        if lost := self.pairs.keys() - labels:
            raise ValueError(f"`pairs`: no rule determines {min(lost)!r}. Add one, such as: ward determines department")
        for name, rule in labels.items():
            code, label = self.columns[rule.code or ""], self.columns[name or ""]
            texts = [{*map(level_text, column.levels)} for column in (code, label)]
            own = {text: level_text(one) for text, one in self.pairs.get(name or "", {}).items()}
            event = {self.survival.event} if self.survival else set()
            fault = ""
            if rule.columns & (event | labels.keys()) or code.part or label.part:
                fault = f"{rule.code!r} must be a whole cell, not follow from another column, and not be an event"
            elif not rule.open and (isinstance(code, Open) or texts[0] - own.keys() or {*own.values()} - texts[1]):
                fault = f"`pairs` must give each declared level of {rule.code!r} a level of {name!r}"
            elif rule.open and (code.size * label.size > MOST_PAIRS or not (texts[1] or isinstance(label, Open))):
                fault = f"{name!r} needs levels, and at most {MOST_PAIRS:,} pairs are counted"
            if fault:
                raise ValueError(f"rule {rule.text!r}: {fault}")

    def _check_across(self, rule: Rule) -> None:
        """Raise ValueError for a rule across rows without an order, and for a sum that would not be exact."""
        if rule.across and self.order is None:
            raise ValueError(
                f"rule {rule.text!r} reads more than one row of a patient. Set the key `order` to the column that "
                "sorts these rows"
            )
        if rule.defines and rule.cumulative:
            total, part = self.columns[rule.defines], self.columns[min(rule.columns)]
            whole = getattr(total, "whole_from", None) is not None
            if total.dated or part.dated or whole or total.places < part.places:
                raise ValueError(
                    f"rule {rule.text!r}: a sum needs numbers, at least as many decimals as these, and no `whole_from`"
                )

    def __copy__(self) -> Self:
        """Return a copy without what follows from the columns and rules, because `model_copy` may replace these."""
        copied = super().__copy__()
        for name in ("parsed_rules", "core"):
            vars(copied).pop(name, None)
        return copied

    @property
    def has_rules_across_rows(self) -> bool:
        """Whether a rule reads more than one row of a patient."""
        return any(rule.across for rule in self.parsed_rules)

    @cached_property
    def parsed_rules(self) -> tuple[Rule, ...]:
        """The rules, in order. Raises ValueError for a text that is not a rule about these columns."""
        found = []
        for text in self.rules:
            try:
                found.append(self.rule(text))
            except ValueError as error:
                raise ValueError(f"rule {text!r}: {error}") from None
        return tuple(found)

    def rule(self, text: str) -> Rule:
        """Return a rule about these columns. Raise ValueError for a text that is not one."""
        numbers = {name: not column.categorical for name, column in self.columns.items() if column.modelled}
        yes = {name: word for name, column in self.columns.items() if (word := yes_level(column.levels))}
        pairs = {name: {code: level_text(one) for code, one in own.items()} for name, own in self.pairs.items()}
        return parse(text, numbers, yes, pairs)

    @cached_property
    def core(self) -> Schema:
        """What a model learns: this schema without its rules, the columns that they define, and identifiers."""
        rules = self.parsed_rules
        defined = {rule.defines for rule in rules}
        columns = {name: c for name, c in self.columns.items() if c.modelled and name not in defined}
        left = {"columns": columns, "rules": (), "unit": None, "max_rows": None, "constant": (), "order": None}
        core = self.model_copy(update={**left, "survival": None, "one_row_a_patient": False})
        core._definitions = {}
        for rule in rules:
            name = rule.defines
            read = sorted(rule.columns)
            if not name or not rule.formula or rule.open or rule.across or not rule.columns <= set(columns):
                continue
            if not any(self._is_unsettled(one) for one in (name, *read)):
                inputs = {one: columns[one] for one in read}
                core._definitions[name] = Definition(self.columns[name], rule.formula, inputs)
        single = [rule for rule in rules if not rule.defines and not rule.across]
        core._constraints = tuple(found for rule in single if (found := core._constraint(rule)))
        return core

    def _is_unsettled(self, name: str) -> bool:
        """Return whether a column cannot be read by itself yet: it depends on another one, or is open."""
        column = self.columns[name]
        return bool(column.depends_on) or isinstance(column, Open)

    def _constraint(self, rule: Rule) -> Constraint | None:
        """Return a rule about columns of this core; None if it reads others, or one that is open or depends on one."""
        computed = {name: self._definitions[name] for name in sorted(rule.columns) if name in self._definitions}
        named = set(rule.columns - set(computed)).union(*(one.inputs for one in computed.values()))
        if not named <= set(self.columns) or any(map(self._is_unsettled, named)):
            return None
        return Constraint(rule, {name: self.columns[name] for name in sorted(named)}, computed)

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """For a core, the columns outside of it that follow from its own, by name."""
        return self._definitions

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """For a core, the rules of the whole schema about single rows that its own columns can decide."""
        return self._constraints

    @property
    def open_pairs(self) -> tuple[Rule, ...]:
        """The rules `code determines label` whose pairs a fit learns."""
        return tuple(rule for rule in self.parsed_rules if rule.open)

    @property
    def read(self) -> Schema:
        """The columns whose cells a fit reads: those of the core, and labels whose pairs it learns."""
        labels = {name: self.columns[name] for rule in self.open_pairs if (name := rule.defines)}
        return self.core.with_columns(self.core.columns | labels)

    @property
    def open(self) -> dict[str, Open]:
        """The columns of which something is open, so that a fit learns it."""
        return {name: column for name, column in self.columns.items() if isinstance(column, Open)}

    @property
    def seen(self) -> int:
        """The number of entries that a person declared after a look at the table."""
        entries = ([one.given.get("seen") if isinstance(one, Open) else one.seen for one in own.values()]
                   for own in self.header.values())  # fmt: skip
        return len(self.seen_rules) + (self.decimal_comma == "seen") + sum(any(own) for own in entries)

    def closed(self) -> Self:
        """Return the schema if nothing is open. Raise SchemaError for a column that only a fit can learn."""
        for name, column in self.open.items():
            raise SchemaError(
                f"schema {self.name!r}: column {name!r} is open ({column.in_words}). A fit can learn it; here it must "
                "be declared."
            )
        for rule in self.open_pairs:
            raise SchemaError(
                f"schema {self.name!r}: a fit learns the pairs of rule {rule.text!r}. Here declare `pairs`."
            )
        if self.other_columns == "learn":
            raise SchemaError(f"schema {self.name!r}: `other_columns: learn` is for a fit. Declare the columns here.")
        return self

    def with_columns(self, columns: Mapping[str, Column], **changes: object) -> Self:
        """Return the schema with these columns, without validation: what a fit learned contradicts no declaration."""
        return self.model_copy(update={"columns": dict(columns), **changes})

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in the table's order."""
        return tuple(self.columns)

    @property
    def header(self) -> dict[str, dict[str, Column]]:
        """The columns of the table's file, in order, each with the columns of this schema that share its cells."""
        return file_columns(self.columns)

    def in_order(self, header: Sequence[str]) -> Self:
        """Return the schema with its columns in the order of the table's file, without those that it lacks."""
        return self.with_columns(
            {part: column for name in header for part, column in self.header.get(name, {}).items()}
        )

    def with_target(self, target: str | None) -> Schema:
        """Return the schema with another target, or without one. Raise SchemaError if it is not a column."""
        if target is not None and target not in self.columns:
            raise SchemaError(f"The target {target!r} is not a column.{did_you_mean(target, self.names)}")
        return Schema.from_dict({**self.to_dict(), "target": target}, f"schema {self.name!r}")

    @property
    def days(self) -> frozenset[str]:
        """The columns whose values are days without a time, unless a `dtype` is declared: dates in Parquet."""
        return frozenset(n for n, c in self.columns.items() if c.days and c.dtype is None)

    def with_dtypes(self, frame: pd.DataFrame) -> Schema:
        """Return the schema with a frame's dtypes declared: they are public from then on, and sampled rows have them.

        A fit does not use its table's dtypes, which depend on cells: a missing cell turns int64 into float64. A column
        whose dtype has no name in a schema, or that the frame does not have, keeps the dtype that it has.
        """
        named = {name: dtype_name(dtype) for name, dtype in frame_dtypes(frame).items()}
        columns = {n: c.model_copy(update={"dtype": named.get(n) or c.dtype}) for n, c in self.columns.items()}
        return self.model_copy(update={"columns": columns})

    def to_dict(self) -> dict[str, object]:
        """Return plain data without defaults; `from_dict` reads it back."""
        head = self.model_dump(mode="json", exclude_defaults=True, exclude={"columns", "rules", "seen_rules"})
        rules = [{"rule": rule, "seen": True} if rule in self.seen_rules else rule for rule in self.rules]
        return {**head, "columns": to_dict(self.columns), **({"rules": rules} if rules else {})}

    def to_yaml(self) -> str:
        """Return YAML text with one line per column; `from_yaml` reads it back."""
        content = self.to_dict()
        columns, rules = content.pop("columns"), content.pop("rules", None)
        assert isinstance(columns, dict)
        lines = [f"  {yaml_key(name)}: {yaml_text(column, flow=True)}" for name, column in columns.items()]
        tail = yaml_text({"rules": rules}) if rules else ""
        return yaml_text(content) + "columns:\n" + "\n".join(lines) + "\n" + tail


def open_schema(columns: Iterable[str], target: str | None = None, name: str = "open") -> Schema:
    """Return a schema of these columns in which everything is open."""
    return Schema(name=name, target=target, columns={column: Open() for column in columns})


@cache
def bundled() -> Mapping[str, Schema]:
    """Return the schemas that come with medsynth, by name."""
    files = (path for path in bundled_files().values() if not path.name.endswith(ENDING))
    schemas = (Schema.from_yaml(path.read_text("utf-8"), path.name) for path in files)
    return MappingProxyType({schema.name: schema for schema in schemas})


def bundled_for(header: Sequence[str]) -> Schema | None:
    """Return the bundled schema whose columns are exactly `header`, in any order, or None."""
    return next((s for s in bundled().values() if sorted(s.names) == sorted(header)), None)
