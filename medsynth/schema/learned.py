"""A schema learned from noisy measurements, and sentences about it, which use released numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from ..errors import DROPPED_TARGET, LOST, NEEDS_SCHEMA, TIMES, WARNING, Message, TargetError, some
from .cells import CLOCKS
from .columns.column import Column, level_text
from .columns.identifier import Identifier
from .declared import yaml_key
from .header import doubtful, is_amount, may_be_key
from .magnitudes import CLEAR_STDS

if TYPE_CHECKING:
    from .schema import Schema

LEARNED_NAME = "learned"  # the name of each schema that a fit learned
NAMES_IN_SENTENCE, LARGE_NUMBER = 12, 1_000_000
LEVEL_KINDS = ("whole", "boolean", "word")  # kinds of columns that may have levels, besides decimals of few digits
EMPTY = ("",)  # the only level of a column whose cells are all empty
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
    most have more. `codes`: of missing values, as they are written. `words`: noisy count of words among numbers or
    dates, zero if it is unclear.
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
    words: float = 0.0

    @property
    def numbers(self) -> bool:
        """Whether the column contains numbers."""
        return self.cells in ("whole", "decimal")

    @property
    def may_have_levels(self) -> bool:
        """Whether the column's values may be few enough to be levels."""
        return self.cells in LEVEL_KINDS or self.short or self.form in CLOCKS

    def with_codes(self, found: list[str]) -> ColumnKind:
        """Return the kind with codes of missing values that another noisy count shows."""
        return replace(self, codes=tuple(dict.fromkeys((*self.codes, *found))))


class Far(NamedTuple):
    """What was found far from a column's values: codes that are not on the list, and numbers or years near others."""

    codes: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


def lost_target(name: str) -> TargetError:
    """Return the error for a target with fewer than two classes in a charged measurement, with its cure."""
    return TargetError(
        f"The target {name!r} has one class in the noisy counts: there is nothing to predict. The fit stopped here, "
        "and the budget counts what it has measured. Start again with `force`, and set `target` to another column, or "
        "to none if the method allows that. Or draft a schema and declare the classes there. `resume` only repeats "
        "this message.",
        NEEDS_SCHEMA,
    )


def no_target(name: str) -> Message:
    """Return the notice for a fit without a target: nobody named the column `name`, and it cannot be one."""
    return Message(
        f"{name!r}, the last column, is a key or has fewer than two classes, by the noisy counts. So the model "
        "predicts no column. This costs no more budget. To predict another column, name it as `target` next time.",
        None, kind=DROPPED_TARGET, column=name,
    )  # fmt: skip


def all_keys() -> TargetError:
    """Return the error for a table of which the noisy counts show keys alone."""
    return TargetError(
        "By the noisy counts all columns are keys, which no model learns. The budget counts what was measured. Add the "
        "columns to learn from, or declare a schema, and start again with `force`."
    )


@dataclass(frozen=True, kw_only=True)
class LearnedColumn:
    """A column from noisy counts; its `column` is None if it has no levels and is to be read as numbers.

    `kept` and `gaps`: noisy counts of its levels and of its codes of missing values; `rest`: of rows with neither;
    `std`: the standard deviation of the noise of `rest`. `unread`: of cells that are neither values nor codes, in a
    column of numbers or dates. `key`: whether the noisy counts show the numbers of keys; `repeats`: those of keys that
    occur in several rows each.
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
    repeats: bool = False

    @property
    def size(self) -> int:
        """The number of values or levels."""
        return self.column.size if self.column else 0

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
        return None if self.empty else word if word in self.kept or word in self.gaps else None

    @property
    def empty(self) -> bool:
        """Whether the noisy counts show no value, but only empty cells."""
        return self.column is not None and self.column.categorical and self.column.levels == EMPTY

    @property
    def lost(self) -> bool:
        """Whether no value of the column survived, though it clearly has some."""
        found = self.column
        bare = bool(self.gaps) and self.std > 0 and self.rest <= CLEAR_STDS * self.std
        few = found is not None and found.categorical and len(found.levels) < 2
        return few and self.only is None and not bare and not self.empty

    def without_level(self, rows: int) -> float:
        """Return the share of rows whose values have become another level, by noisy counts: all if it is lost."""
        found = self.column
        if found is None or not found.categorical or not self.kept:
            return float(self.lost)
        return min(max(self.rest / rows, 0.0), 1.0)

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

    def summary(self) -> list[Message]:
        """Return what was learned, merged and lost, a sentence or two each, for the user. Shares are noisy."""
        target = self.schema.target
        kinds: dict[str, list[str]] = {}
        for name in self.schema.columns:
            kinds.setdefault(self._kind(name), []).append(name)
        counts = ", ".join(f"{len(names)} {kind}" for kind, names in kinds.items())
        what = f"{len(self.schema.columns)} columns: {counts}."
        found = [Message(what, what)]
        if target is not None:
            found.append(_both(f"The target {target!r}: {{}}.", self._levels_of(target)))
        if gaps := {name: c.gaps for name, c in self.columns.items() if c.gaps and self.schema.columns[name].missing}:
            each = [f"{name} ({_codes(self.schema.columns[name], codes, self.rows)})" for name, codes in gaps.items()]
            found.append(_both("Missing values in {}.", each))
        if empty := [name for name, column in self.columns.items() if column.empty]:
            found.append(_both("Only empty cells in {}: sampled rows have no values there.", empty))
        if named := {name: column.far.codes for name, column in self.columns.items() if column.far.codes}:
            found.append(_both(
                "Read as codes of missing values, because they lie far from all other values: {}. If they are values, "
                "declare a schema.",
                [f"{name} ({', '.join(codes)})" for name, codes in named.items()],
            ))  # fmt: skip
        if apart := {name: column.far.near for name, column in self.columns.items() if column.far.near}:
            found.append(_both(
                "Some values lie far from all others and are read as missing: {}. If they are codes, name them as "
                "codes of missing values. If they are values, declare a schema.",
                [f"{name} (near {', '.join(near)})" for name, near in apart.items()],
                "Read as missing, because they lie far from all others: {}. If they are values, declare a schema.",
            ))  # fmt: skip
        if strange := {name: column.unread for name, column in self.columns.items() if column.has_unread}:
            found.append(_both(
                "Cells that are neither values nor known codes are read as missing: {}.",
                [f"{name} (about {_percent(count, self.rows)} of the rows)" for name, count in strange.items()],
            ))  # fmt: skip
        if timed := [name for name, column in self.schema.columns.items() if _shows_clock(column)]:
            found.append(_both(
                "Times are read as the clock shows them: {}. If they have a zone or an offset such as +01:00, it is "
                "left out. To get a zone back, declare it in the column's `dtype`.",
                timed, kind=TIMES,
            ))  # fmt: skip
        if after := [f"{name} after {c.depends_on[0]}" for name, c in self.schema.columns.items() if c.depends_on]:
            found.append(_both("The model learns these dates as days after another date: {}.", after, ""))
        where = "the other columns" if gaps or strange or empty else "any column"
        found.append(Message(
            f"The noisy counts show no missing value in {where}. Rare words among numbers or dates are read as "
            "missing, also those of a second header row, such as units: remove such a row before you fit."
        ))  # fmt: skip
        return found + self._losses()

    def _losses(self) -> list[Message]:
        """Return what was merged and lost, and columns that may be keys."""
        found = list[Message]()
        if merged := [n for n, c in self.columns.items() if c.merged and not c.lost and n != self.schema.target]:
            found.append(_both(
                "Rare values were merged in {}: each has too few rows to exceed the noise.",
                [f"{name} (about {_percent(self.columns[name].rest, self.rows)} of the rows)" for name in merged],
                "Rare values were merged in {}.", merged,
            ))  # fmt: skip
        if only := {name: column for name, column in self.columns.items() if column.only is not None}:
            counts_of = {name: {**c.kept, **c.gaps}[str(c.only)] for name, c in only.items()}
            found.append(_both(
                "Only one value survived the noise in {}. Rarer values, if there are any, were merged into it. To keep "
                "them, declare a schema.",
                [f"{n} ({only[n].only}, about {_percent(count, self.rows)})" for n, count in counts_of.items()],
                "Only one value survived the noise in {}. To keep rarer ones, declare a schema.", only,
            ))  # fmt: skip
        if lost := [n for n, column in self.columns.items() if column.lost and self.schema.columns[n].modelled]:
            found.append(_both(
                "{}. No value of these columns has enough rows, and sampled rows contain none of them. Remove these "
                "columns, or declare them in a schema by the line that fits:\n"
                + "\n".join(f"  {yaml_key(lost[0])}: {{{line}" for line in CURES),
                lost, kind=LOST,
            ))  # fmt: skip
        if keys := [name for name in self.columns if not self.schema.columns[name].modelled]:
            found.append(_both(
                "Read as keys, which no model learns: {}. Their numbers or names are those of keys, and the noisy "
                "counts show no frequent value. Sampled rows have fresh keys. To keep numbers, declare a schema with "
                f"`{yaml_key(keys[0])}: {{kind: count, bounds: [LOW, HIGH]}}`.",
                keys,
                "Read as keys: {}. Sampled rows have fresh keys. To keep numbers, declare a schema with "
                f"`{yaml_key(keys[0])}: {{kind: count, bounds: [LOW, HIGH]}}`.",
            ))  # fmt: skip
        if shared := [repr(n) for n, column in self.columns.items() if column.repeats and self.schema.unit is None]:
            found.append(_both(
                "numbers of keys, each in several rows: {}. The noisy counts show the numbers from one on, each in "
                "several rows. If they name patients, the claim does not cover a patient with all rows: do not publish "
                "this model, and fit again with `unit`.",
                shared,
                "numbers of keys, each in several rows: {}. If they name patients, do not publish this model, and fit "
                "again with `unit`.",
                kind=WARNING,
            ))  # fmt: skip
        if large := [name for name in self.columns if self._reads_like_a_key(name)]:
            found.append(_both(
                "{}: large whole numbers, none of them frequent. If these are keys, declare them identifiers: a model "
                "must not learn keys.",
                large,
            ))  # fmt: skip
        return found

    def _levels_of(self, name: str) -> list[str]:
        learned, column = self.columns[name], self.schema.columns[name]
        if not column.categorical:
            return ["numbers"]
        words = map(level_text, column.levels)
        each = [f"{word} (about {_percent(learned.kept.get(word, learned.rest), self.rows)})" for word in words]
        return [f"{len(column.levels)} classes", *each]

    def _reads_like_a_key(self, name: str) -> bool:
        learned, column = self.columns[name], self.schema.columns[name]
        whole = learned.kind.cells == "whole" and column.modelled and not column.categorical and not learned.kept
        return whole and column.units[1] > LARGE_NUMBER and column.scale == "linear"

    def _kind(self, name: str) -> str:
        column = self.schema.columns[name]
        if column.categorical or not column.modelled:
            return "of levels" if column.modelled else "of keys"
        return {"whole": "of whole numbers", "decimal": "of decimals"}.get(self.columns[name].kind.cells, "of dates")


def _shows_clock(column: Column) -> bool:
    """Return whether a column has times without a zone."""
    written = str(getattr(column, "format", ""))
    return "%H" in written and not written.endswith("Z")


def _codes(column: Column, counts: Mapping[str, float], rows: int) -> str:
    named = [(word, counts.get(word, 0.0)) for word in column.gap_words]
    return ", ".join(f"{word or 'empty'} {_percent(count, rows)}" for word, count in named)


def _percent(count: float, rows: int) -> str:
    """Return a noisy `count` as a share of the rows, at most 100%.

    >>> _percent(101, 100), _percent(-1, 100)
    ('100%', 'less than 1%')
    """
    return f"{min(count / rows, 1.0):.0%}" if count >= 0.01 * rows else "less than 1%"


def _both(
    full: str, words: Sequence[str], brief: str | None = None, few: Iterable[str] | None = None, kind: str = ""
) -> Message:
    """Return a message with its words in place of "{}", and in short with some of the `few` words, or of the same."""
    found, more = ", ".join(words[:NAMES_IN_SENTENCE]), len(words) - NAMES_IN_SENTENCE
    short = some(words if few is None else few)
    return Message(
        full.replace("{}", found + (f" and {more} more" if more > 0 else "")),
        (full if brief is None else brief).replace("{}", short),
        kind=kind,
    )
