"""A schema learned from noisy measurements, and sentences about it, which use released numbers alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from ..errors import LOST, NEEDS_SCHEMA, TIMES, WARNING, Message, TargetError, some
from ..io.text import ESCAPED
from .cells import CLOCKS, is_timed
from .columns.column import Column, level_text
from .columns.date import dates_in
from .columns.identifier import Identifier
from .declared import bundled_yaml, yaml_key
from .header import doubtful, is_amount, may_be_key
from .magnitudes import CLEAR_STDS

if TYPE_CHECKING:
    from .schema import Schema

LEARNED_NAME = "learned"  # the name of each schema that a fit learned
NAMES_IN_SENTENCE, LARGE_NUMBER = 12, 1_000_000
MOSTLY_LOST = 0.8  # share of a column's values without which it is lost
HIDDEN_SHARE = 0.025  # share of the rows from which on a loss that the noise may hide is named
LIKELY_STDS = 1.65  # standard deviations of noise from which on rows have probably lost their level
LEVEL_KINDS = ("whole", "boolean", "word")  # kinds of columns that may have levels, besides decimals of few digits
EMPTY = ("",)  # the only level of a column whose cells are all empty
FEW_VALUES = 20  # a column with at most this many whole numbers between its bounds is not a key, whatever its name


@dataclass(frozen=True, kw_only=True)
class ColumnKind:
    """What a column without a schema is read as.

    `form`: the spelling of booleans, the format of dates. `seconds`: whether timestamps have any. `pointed`: whether
    whole numbers are written 8.0; `zeros`: whether decimals are written 8.50. `mixed`: whether more numbers are whole
    than have decimals; `short`: whether hardly any has more than two decimals; `spikes`: whether some are whole where
    most have more. `rewritten`: whether clearly some cells come back in another form; `unsure`: whether the counts
    leave open if zeros end the numbers. `codes`: of missing values, as they are written. `words`: noisy count of words
    among numbers or dates, zero if it is unclear. `beside`: what the numbers among words are read as, if there clearly
    are some.
    """

    cells: Literal["whole", "decimal", "boolean", "date", "word", "text"]
    form: str = ""
    seconds: bool = False
    pointed: bool = False
    mixed: bool = False
    short: bool = False
    zeros: bool = False
    spikes: bool = False
    rewritten: bool = False
    unsure: bool = False
    codes: tuple[str, ...] = ()
    words: float = 0.0
    beside: ColumnKind | None = None

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


@dataclass(frozen=True, kw_only=True)
class LearnedColumn:
    """A column from noisy counts; its `column` is None if it has no levels and is to be read as numbers.

    `kept` and `gaps`: noisy counts of its levels and of its codes of missing values; `rest`: of rows with neither;
    `std`: the standard deviation of the noise of `rest`. `unread`: of cells that are neither values nor codes, in a
    column of numbers or dates. `rounded`: whether numbers have more decimals than codes keep. `key`: whether the noisy
    counts show the numbers of keys; `repeats`: those of keys that occur in several rows each.
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
    rounded: bool = False

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
        """Whether there probably are rows with rarer levels, which have become another level such as `other`."""
        other = self.column is not None and any(level_text(level) not in self.kept for level in self.column.levels)
        return bool(self.kept) and (self.rest > LIKELY_STDS * self.std or other)

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
        """Whether no value of the column survived, or hardly any, though it clearly has some."""
        found = self.column
        bare = bool(self.gaps) and self.std > 0 and self.rest <= CLEAR_STDS * self.std
        few = found is not None and found.categorical and len(found.levels) < 2
        gone = self.rest if found is not None and found.categorical else self.unread
        mostly = gone > max(MOSTLY_LOST * (sum(self.kept.values()) + self.rest), CLEAR_STDS * self.std)
        return (few and self.only is None and not bare and not self.empty) or mostly

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


class LearnedFact(NamedTuple):
    """What is worth knowing of some columns: its kind, words in full about each, and in short if these differ."""

    kind: str
    words: Sequence[str]
    few: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A learned schema, the columns that were measured for it, and the likely number of rows."""

    schema: Schema
    columns: Mapping[str, LearnedColumn]
    rows: int

    def summary(self) -> list[Message]:
        """Return what was learned, merged and lost, a sentence or two each, for the user. Shares are noisy."""
        kinds: dict[str, list[str]] = {}
        names = [name for name, column in self.schema.columns.items() if name in self.columns or not column.modelled]
        for name in names:
            kinds.setdefault(self._kind(name), []).append(name)
        counts = ", ".join(f"{len(names)} {kind}" for kind, names in kinds.items())
        found = [_message(*one) for one in self._findings() if one.words]
        return [Message(f"{len(names)} columns: {counts}.", None), *found]

    def _findings(self) -> Iterator[LearnedFact]:
        """Yield what was learned, then what was merged and lost, and columns that may be keys."""
        learned = self.columns.items()
        columns = self.schema.columns
        target = self.schema.target
        yield LearnedFact("target", self._levels_of(target) if target is not None and target in self.columns else [])
        gaps = {n: c.gaps for n, c in learned if c.gaps and columns[n].missing}
        yield LearnedFact("gaps", [f"{n} ({_codes(columns[n], codes, self.rows)})" for n, codes in gaps.items()])
        empty = [n for n, c in learned if c.empty]
        yield LearnedFact("empty", empty)
        yield LearnedFact("codes", [f"{n} ({', '.join(c.far.codes)})" for n, c in learned if c.far.codes])
        yield LearnedFact("far", [f"{n} (near {', '.join(c.far.near)})" for n, c in learned if c.far.near])
        strange = [self._with_share(n, c.unread) for n, c in learned if c.has_unread]
        yield LearnedFact("unread", strange)
        words = {
            n: (*(c.levels if c.categorical else ()), *c.gap_words) for n, c in columns.items() if n in self.columns
        }
        yield LearnedFact("escaped", [n for n, own in words.items() if any(map(ESCAPED.search, map(str, own)))])
        forms = {n: str(getattr(columns[n], "format", "")) for n in self.columns}
        yield LearnedFact(TIMES, [n for n, form in forms.items() if is_timed(form) and not form.endswith("Z")])
        yield LearnedFact(
            "after", [f"{n} after {columns[n].depends_on[0]}" for n in self.columns if columns[n].depends_on]
        )
        yield LearnedFact("hours", [n for n, form in forms.items() if is_timed(form) and columns[n].depends_on])
        yield LearnedFact("order", self._dates_apart())
        yield LearnedFact("present", ["the other columns" if gaps or strange or empty else "any column"])
        merged = [n for n, c in learned if c.merged and not c.lost and n != target]
        yield LearnedFact("merged", [self._with_share(n, self.columns[n].rest) for n in merged], merged)
        unseen = {n: c for n, c in learned if c.std and not (c.merged or c.lost or c.has_unread) and n != target}
        noise = {n: LIKELY_STDS * c.std / self.rows for n, c in unseen.items() if columns[n].modelled}
        hidden = {n: share for n, share in noise.items() if share > HIDDEN_SHARE}
        yield LearnedFact("hidden", [f"{n} (up to {share:.0%} of the rows)" for n, share in hidden.items()], [*hidden])
        shown = {n: c for n, c in learned if columns[n].modelled and not columns[n].categorical}
        yield LearnedFact("rewritten", [n for n, c in shown.items() if c.kind.rewritten or c.rounded])
        yield LearnedFact("unsure", [n for n, c in shown.items() if c.kind.unsure and not c.kind.rewritten])
        only = {n: ({**c.kept, **c.gaps}[c.only], c.only) for n, c in learned if c.only is not None}
        each = [f"{n} ({word}, {_about(count, self.rows)})" for n, (count, word) in only.items()]
        yield LearnedFact("only", each, [*only])
        yield LearnedFact(LOST, [n for n, c in learned if c.lost and columns[n].modelled])
        yield LearnedFact("keys", [n for n, _ in learned if not columns[n].modelled])
        repeated = [repr(n) for n, c in learned if c.repeats and not is_amount(n)]
        yield LearnedFact(WARNING, repeated if self.schema.unit is None else [])
        linear = [n for n, c in shown.items() if c.kind.cells == "whole" and columns[n].scale == "linear"]
        yield LearnedFact("large", [n for n in linear if columns[n].units[1] > LARGE_NUMBER])

    def _dates_apart(self) -> list[str]:
        """Return dates of which some pair has common days, and neither date is learned as days after the other."""
        own = {name: self.schema.columns[name] for name in self.columns}
        dates = {name: date for name, date in dates_in(own).items() if not date.clock}
        ends = {name: dates.get(date.after or name, date) for name, date in dates.items()}
        days = {name: [unit / date.per_day for unit in date.units] for name, date in ends.items()}
        pairs = [
            (one, other) for one, other in combinations(dates, 2)
            if one != dates[other].after and other != dates[one].after
            and max(days[one][0], days[other][0]) <= min(days[one][1], days[other][1])
        ]  # fmt: skip
        return [*dict.fromkeys(name for pair in pairs for name in pair)]

    def _with_share(self, name: str, count: float) -> str:
        return f"{name} ({_about(count, self.rows)} of the rows)"

    def _levels_of(self, name: str) -> list[str]:
        learned, column = self.columns[name], self.schema.columns[name]
        if not column.categorical:
            return [f"{name!r}: numbers"]
        words = map(level_text, column.levels)
        each = [f"{word} ({_about(learned.kept.get(word, learned.rest), self.rows)})" for word in words]
        return [f"{name!r}: {len(column.levels)} classes", *each]

    def _kind(self, name: str) -> str:
        column = self.schema.columns[name]
        if column.categorical or not column.modelled:
            return "of levels" if column.modelled else "of keys"
        return {"whole": "of whole numbers", "decimal": "of decimals"}.get(self.columns[name].kind.cells, "of dates")


def _codes(column: Column, counts: Mapping[str, float], rows: int) -> str:
    named = [(word, counts[word]) for word in column.gap_words if word in counts]
    return ", ".join(f"{word or 'empty'} {_percent(count, rows)}" for word, count in named)


def _about(count: float, rows: int) -> str:
    return "about " * (count >= 0.01 * rows) + _percent(count, rows)


def _percent(count: float, rows: int) -> str:
    """Return a noisy `count` as a share of the rows, at most 100%.

    >>> _percent(101, 100), _percent(-1, 100)
    ('100%', 'less than 1%')
    """
    return f"{min(count / rows, 1.0):.0%}" if count >= 0.01 * rows else "less than 1%"


@cache
def _words() -> dict[str, dict[str, str]]:
    """Return the words about each kind of finding, in full and in short."""
    text = (resources.files("medsynth.schema") / "learned.yaml").read_text(encoding="utf-8")
    return cast("dict[str, dict[str, str]]", bundled_yaml(text, "learned.yaml"))


def _message(kind: str, words: Sequence[str], few: Sequence[str]) -> Message:
    """Return the message about a finding with all its words, and in short with some of the `few` words, or of these."""
    most = len(words) if kind == LOST else NAMES_IN_SENTENCE  # a loss is never "and 10 more"
    found = ", ".join(words[:most])
    more = len(words) - most
    forms = _words()[kind]
    full, brief = (forms.get(form, forms["full"]).replace("{first}", yaml_key(words[0])) for form in ("full", "brief"))
    all_names = found + (f" and {more} more" if more > 0 else "")
    return Message(full.replace("{names}", all_names), brief.replace("{names}", some(few or words)), kind)
