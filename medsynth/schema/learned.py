"""A schema learned from noisy measurements, and sentences about it, which use released numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..errors import LOST, TargetError
from .columns.categorical import level_text
from .columns.column import Column
from .columns.identifier import Identifier
from .declared import yaml_key
from .header import doubtful, is_amount, may_be_key
from .magnitudes import CLEAR_STDS

if TYPE_CHECKING:
    from .schema import Schema

LEARNED = "Learned: "  # starts a ledger's notes about what was learned, lost and merged
NAMES_IN_SENTENCE, LARGE_NUMBER = 12, 1_000_000
LEVEL_KINDS = ("whole", "boolean", "word")  # kinds of columns that may have levels, besides decimals of few digits
# Lines of a schema for a lost column, after its name.
CURES = (
    "kind: identifier}  # keys: fresh ones",
    "kind: identifier, drop: true}  # free text: left out",
    "kind: categorical, levels: [A, B, other], unknown: other}  # codes: or with a hierarchy in place of levels",
    "kind: continuous, bounds: [LOW, HIGH], missing: true, unknown: missing}  # numbers, written without units",
    'kind: date, bounds: [FIRST, LAST], format: "%Y-%m-%dT%H:%M:%S+01:00"}  # dates in another form, or with a zone',
)
FEW_VALUES = 20  # a column with at most this many whole numbers between its bounds is not a key, whatever its name


@dataclass(frozen=True, kw_only=True)
class ColumnKind:
    """What a column without a schema is read as.

    `form`: the spelling of booleans, the format of dates. `seconds`: whether timestamps have any. `pointed`: whether
    whole numbers are written 8.0; `zeros`: whether decimals are written 8.50. `mixed`: whether more numbers are whole
    than have decimals; `short`: whether hardly any has more than two decimals; `spikes`: whether some are whole where
    most have more. `codes`: of missing values, as they are written. `words`: whether there are words among numbers or
    dates.
    """

    cells: Literal["whole", "decimal", "boolean", "date", "word", "text"]
    form: str = ""
    seconds: bool = False
    pointed: bool = False
    mixed: bool = False
    short: bool = False
    zeros: bool = False
    spikes: bool = False
    codes: tuple[str, ...] = ()
    words: bool = False

    @property
    def numbers(self) -> bool:
        """Whether the column contains numbers."""
        return self.cells in ("whole", "decimal")

    @property
    def may_have_levels(self) -> bool:
        """Whether the column's values may be few enough to be levels."""
        return self.cells in LEVEL_KINDS or self.short

    def with_codes(self, found: list[str]) -> ColumnKind:
        """Return this kind with codes of missing values that another noisy count shows."""
        return replace(self, codes=tuple(dict.fromkeys((*self.codes, *found))))


class Far(NamedTuple):
    """What was found far from a column's values: codes that are not on the list, and numbers or years near others."""

    codes: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


def lost_target(name: str) -> TargetError:
    """Return the error for a target with fewer than two classes in a charged measurement, with its cure."""
    return TargetError(
        f"The target {name!r} has one class in the noisy counts: there is nothing to predict. The fit stopped here, "
        "and the budget counts what it has measured. Start again with `force`, and set `target` to another column. Or "
        "draft a schema and declare the classes there. `resume` only repeats this message."
    )


@dataclass(frozen=True, kw_only=True)
class LearnedColumn:
    """A column from noisy counts; its `column` is None if it has no levels and is to be read as numbers.

    `kept` and `gaps`: noisy counts of its levels and of its codes of missing values; `rest`: of rows with neither;
    `std`: the standard deviation of the noise of `rest`. `unread`: of cells that are neither values nor codes, in a
    column of numbers or dates. `key`: whether the noisy counts show the numbers of keys.
    """

    kind: ColumnKind
    column: Column | None
    kept: Mapping[str, float] = field(default_factory=dict)
    gaps: Mapping[str, float] = field(default_factory=dict)
    rest: float = 0.0
    std: float = 0.0
    far: Far = Far()
    unread: float = 0.0
    key: bool = False

    @property
    def has_unread(self) -> bool:
        """Whether there clearly are cells that are neither values nor codes. They are read as missing."""
        return self.std > 0 and self.unread > CLEAR_STDS * self.std

    @property
    def has_gaps(self) -> bool:
        """Whether the noisy counts show missing values."""
        return bool(self.gaps) or self.has_unread

    @property
    def merged(self) -> bool:
        """Whether there clearly are rows with rarer levels, which have become another level."""
        return bool(self.kept) and self.rest > CLEAR_STDS * self.std

    @property
    def only(self) -> str | None:
        """The value that nearly all rows share, if it is the only surviving one; else None."""
        found = self.column
        if found is None or not found.categorical or len(found.levels) > 1:
            return None
        word = level_text(found.levels[0])
        return word if word in self.kept or word in self.gaps else None

    @property
    def lost(self) -> bool:
        """Whether no value of the column survived, though it clearly has some."""
        found = self.column
        bare = bool(self.gaps) and self.std > 0 and self.rest <= CLEAR_STDS * self.std
        return found is not None and found.categorical and len(found.levels) < 2 and self.only is None and not bare

    def is_key(self, name: str, rows: int) -> bool:
        """Return whether a column of a table of `rows` rows is a key by its numbers or its name, and has no levels.

        A doubtful name does not decide about few whole numbers. The end of a name only decides if all cells may differ.
        Numbers do not decide if the name means an amount.
        """
        found = self.column
        if found is None or (found.categorical and not self.lost):
            return False
        fewest = FEW_VALUES + 1 if doubtful(name) else rows
        wide = found.categorical or found.places > 0 or found.size >= fewest
        return (may_be_key(name) and wide) or (self.key and not is_amount(name))

    def fresh_keys(self) -> Identifier:
        """Return the column as fresh keys: whole numbers from one on in place of whole numbers."""
        whole = self.kind.cells == "whole"
        return Identifier(shape="#", dtype="int64") if whole and not self.lost else Identifier()


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A learned schema, the columns that were measured for it, and the likely number of rows."""

    schema: Schema
    columns: Mapping[str, LearnedColumn]
    rows: int

    def summary(self) -> list[str]:
        """Return what was learned, merged and lost, a sentence or two each, for the user. Shares are noisy."""
        target = self.schema.target or self.schema.names[-1]
        kinds: dict[str, list[str]] = {}
        for name in self.schema.columns:
            kinds.setdefault(self._kind(name), []).append(name)
        counts = ", ".join(f"{len(names)} {kind}" for kind, names in kinds.items())
        found = [f"{len(self.schema.columns)} columns: {counts}."]
        found.append(f"The target {target!r}: {self._levels_of(target)}.")
        if gaps := {name: c.gaps for name, c in self.columns.items() if c.gaps and self.schema.columns[name].missing}:
            each = (f"{name} ({_codes(self.schema.columns[name], codes, self.rows)})" for name, codes in gaps.items())
            found.append(f"Missing values in {_listed(each)}.")
        if named := {name: column.far.codes for name, column in self.columns.items() if column.far.codes}:
            each = (f"{name} ({', '.join(codes)})" for name, codes in named.items())
            found.append(
                "Read as codes of missing values, because they lie far from all other values: "
                f"{_listed(each)}. If they are values, declare a schema."
            )
        if apart := {name: column.far.near for name, column in self.columns.items() if column.far.near}:
            each = (f"{name} (near {', '.join(near)})" for name, near in apart.items())
            found.append(
                f"Some values lie far from all others and are read as missing: {_listed(each)}. If they are codes, "
                "name them as codes of missing values. If they are values, declare a schema."
            )
        if strange := {name: column.unread for name, column in self.columns.items() if column.has_unread}:
            each = (f"{name} (about {_percent(count, self.rows)} of the rows)" for name, count in strange.items())
            found.append(f"Cells that are neither values nor known codes are read as missing: {_listed(each)}.")
        if after := [f"{name} after {c.depends_on[0]}" for name, c in self.schema.columns.items() if c.depends_on]:
            found.append(f"The model learns these dates as days after another date: {_listed(after)}.")
        where = "the other columns" if gaps or strange else "any column"
        found.append(
            f"The noisy counts show no missing value in {where}. Rare words among numbers or dates are read as missing."
        )
        if merged := [n for n, c in self.columns.items() if c.merged and not c.lost and n != target]:
            shares = (f"{name} (about {_percent(self.columns[name].rest, self.rows)} of the rows)" for name in merged)
            found.append(f"Rare values were merged in {_listed(shares)}: each has too few rows to exceed the noise.")
        if only := {name: column for name, column in self.columns.items() if column.only is not None}:
            counts_of = {name: {**c.kept, **c.gaps}[str(c.only)] for name, c in only.items()}
            words = (f"{n} ({only[n].only}, about {_percent(count, self.rows)})" for n, count in counts_of.items())
            found.append(
                f"Only one value survived the noise in {_listed(words)}. Rarer values, if there are any, were merged "
                "into it. To keep them, declare a schema."
            )
        return [*found, *self._lost_and_keys()]

    def _lost_and_keys(self) -> list[str]:
        """Return sentences about columns of which the model learns nothing, with lines of a schema that keep them."""
        found = list[str]()
        if lost := [n for n, column in self.columns.items() if column.lost and self.schema.columns[n].modelled]:
            found.append(
                f"{LOST}{_listed(lost)}. No value of these columns has enough rows, and sampled rows contain none of "
                "them. Remove these columns, or declare them in a schema by the line that fits:\n"
                + "\n".join(f"  {yaml_key(lost[0])}: {{{line}" for line in CURES)
            )
        if keys := [name for name in self.columns if not self.schema.columns[name].modelled]:
            found.append(
                f"Read as keys, which no model learns: {_listed(keys)}. Their numbers or names are those of keys, and "
                "the noisy counts show no frequent value. Sampled rows have fresh keys. To keep numbers, declare a "
                f"schema with `{yaml_key(keys[0])}: {{kind: count, bounds: [LOW, HIGH]}}`."
            )
        if large := [name for name in self.columns if self._reads_like_a_key(name)]:
            found.append(
                f"{_listed(large)}: large whole numbers, none of them frequent. If these are keys, declare them "
                "identifiers: a model must not learn keys."
            )
        return found

    def _levels_of(self, name: str) -> str:
        learned, column = self.columns[name], self.schema.columns[name]
        if not column.categorical:
            return "numbers"
        words = map(level_text, column.levels)
        each = (f"{word} (about {_percent(learned.kept.get(word, learned.rest), self.rows)})" for word in words)
        return f"{len(column.levels)} classes, {_listed(each)}"

    def _reads_like_a_key(self, name: str) -> bool:
        learned, column = self.columns[name], self.schema.columns[name]
        whole = learned.kind.cells == "whole" and column.modelled and not column.categorical and not learned.kept
        return whole and column.units[1] > LARGE_NUMBER and column.scale == "linear"

    def _kind(self, name: str) -> str:
        column = self.schema.columns[name]
        if column.categorical or not column.modelled:
            return "of levels" if column.modelled else "of keys"
        return {"whole": "of whole numbers", "decimal": "of decimals"}.get(self.columns[name].kind.cells, "of dates")


def _codes(column: Column, counts: Mapping[str, float], rows: int) -> str:
    named = [(word, counts.get(word, 0.0)) for word in column.gap_words]
    return ", ".join(f"{word or 'empty'} {_percent(count, rows)}" for word, count in named)


def _percent(count: float, rows: int) -> str:
    """Return a noisy `count` as a share of the rows, at most 100%.

    >>> _percent(101, 100), _percent(-1, 100)
    ('100%', 'less than 1%')
    """
    return f"{min(count / rows, 1.0):.0%}" if count >= 0.01 * rows else "less than 1%"


def _listed(words: Iterable[str]) -> str:
    found = list(words)
    more = f" and {len(found) - NAMES_IN_SENTENCE} more" if len(found) > NAMES_IN_SENTENCE else ""
    return ", ".join(found[:NAMES_IN_SENTENCE]) + more
