"""Learn what a schema leaves open, by four questions answered with noise.

| question about the cells of each open column | share of the privacy loss | use of the answer |
|---|---|---|
| 1. How many are numbers, dates, words, codes of missing values? | 3 % | the kinds of questions 2 to 4 |
| 2. How many cells of the target, if any, have each level? | 7.5 % | the classes, or that the column has none |
| 3. The same for every column that may have levels | 7.5 % | the levels of columns with few levels |
| 4. How large are numbers, which digits and years occur, how far are dates apart? | 7.5 % | bounds of the others |

The shares are those of a schema in which everything is open. Questions 1 and 4, asked of some columns, have that part
of their share, so that a column's counts always have the same noise. Questions 2 and 3 have their share whole: the
fewer columns they are about, the rarer the levels that survive. A question that no column needs is not asked.

The questions are planned from the schema alone. The columns of each question follow from the answers before it, and
from nothing exact. `medsynth/schema/inference.py` turns the answers into columns, in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NoReturn

import numpy as np
import pandas as pd

from ..arrays import Floats, Whole
from ..errors import BudgetError, TargetError
from ..io.table import LargeTable, Table, is_number, whole_text
from ..row_count import NoisyTotal, likely_rows
from ..schema import Schema, inference, magnitudes
from ..schema.cells import CLOCKS, CellKinds, is_code_of_a_number, moment
from ..schema.columns.open import BOUNDS, OpenLevels, OpenNumbers
from ..schema.header import doubtful
from ..schema.learned import ColumnKind, Learned, LearnedColumn, lost_target
from ..schema.magnitudes import REQUIRED_SHARE
from ..schema.settling import kind_of, settled_column, with_declared_bounds
from .accounting.calibration import Charge, of_table
from .accounting.events import Event, Thresholded
from .contribution import PrivacyUnits, check_units
from .noise import noised, rarely_exceeded
from .queries.query import added
from .raw_rows import RawRows, levels_added
from .release import Release, Releases

Counts = dict[str, float]
Kinds = Mapping[str, ColumnKind]
KINDS, TARGET, LEVELS = "schema: kinds of columns", "schema: target levels", "schema: levels"
FORMATS = "schema: number formats"
DECLARED = 1e12  # a count that noise does not change
KINDS_SHARE, LOSS_SHARE = 0.03, 0.075  # Of the privacy loss: for the kinds, and for each other measurement.


def asked(schema: Schema) -> dict[str, list[str]]:
    """Return the open columns that each question is about, by label; a label without a column is left out."""
    columns, target = schema.open, schema.target
    found = {
        KINDS: [name for name, column in columns.items() if column.open_kind],
        TARGET: [name for name, column in columns.items() if column.open_levels and name == target],
        LEVELS: [name for name, column in columns.items() if column.open_levels and name != target],
        FORMATS: [name for name, column in columns.items() if column.open_format],
    }
    return {label: names for label, names in found.items() if names}


def queries(schema: Schema, table: str = "", columns: int | None = None) -> list[Charge]:
    """Return the queries that learn what a schema leaves open: the same for every table, whatever its cells contain.

    The target's levels are a separate measurement: its rare classes matter most, and one column has the least noise.
    `table`: the name of one of several tables; they have this number of `columns` in all.
    """
    own = len(schema.core.columns)
    columns = columns or own
    found = asked(schema)
    shares = {label: len(names) / columns for label, names in found.items()} | {TARGET: 1.0, LEVELS: own / columns}
    parts = {label: shares[label] * (KINDS_SHARE if label == KINDS else LOSS_SHARE) for label in found}
    return [
        Charge(label=of_table(table, label), weight=part**-0.5, thresholded=label in (TARGET, LEVELS))
        for label, part in parts.items()
    ]


class RawVault:
    """A table whose schema has open columns. Only these can be measured.

    `rows`: their number, as a public number or as a noisy one with errors of `rows_std`; the errors of a declared
    number are unknown (None). `na_values`: codes of missing values to add. With `units`, the patient of each row,
    the patient is the unit of privacy and has at most `max_rows` rows. These may all have the same cells, so
    sensitivities, also in the norm, are those of a row times `max_rows`. `name`: that of one of several tables. Raises
    BudgetError if the ledger has other units.
    """

    __slots__ = (
        "__kept",
        "__releases",
        "__table",
        "_asked",
        "_given_std",
        "_kinds",
        "_max_rows",
        "_name",
        "_open",
        "_rows",
        "_rows_std",
        "_schema",
    )

    def __init__(
        self,
        table: Table | LargeTable,
        rows: int,
        releases: Releases,
        schema: Schema,
        na_values: tuple[str, ...] = (),
        units: PrivacyUnits | None = None,
        rows_std: float | None = None,
        name: str = "",
    ) -> None:
        check_units(units, table.rows, releases.max_rows)
        self.__table, self.__releases = table, releases
        self.__kept: RawRows | None = None
        self._schema, self._open, self._asked = schema, schema.open, asked(schema)
        self._rows, self._given_std, self._rows_std = rows, rows_std, rows_std or 0.0
        self._kinds = CellKinds(na_values)
        self._max_rows, self._name = units.max_rows if units else 1, name

    def measure_schema(self, *, required: bool = True, used: Collection[str] = ()) -> Learned:
        """Return the schema with all columns settled, by noisy measurements of the open ones.

        Such a column has a value for each cell, and every bound clips. Raises BudgetError if the plan lacks the
        measurements that `queries` lists. If a `required` target lacks two classes, it raises TargetError as soon as
        the measurements show that, and the rest is not measured. Any other open target that lacks them, or is a key,
        becomes an ordinary column, and the schema has no target: this depends on the released counts alone. Columns
        that are `used` in declared regressions are not keys. Raises TargetError if all columns are keys.
        """
        # Everything planned is measured: if no column may have levels, or formats, all columns are measured in vain.
        target = self._schema.target
        # 1. What each column of open kind consists of.
        ordinary, kinds = self._measure_kinds(target)
        # 2. The target's classes.
        levels = dict[str, LearnedColumn]()
        if target is not None and TARGET in self._asked:
            levels = self._measure_classes(target, kinds, required=required)
            served = self._serves(levels.get(target))
            if not served:
                kinds, target = ordinary, None
                levels = levels if LEVELS not in self._asked else {}
        # 3. The levels of other columns, or the words among their numbers.
        if LEVELS in self._asked:
            others = [n for n, column in self._open.items() if column.open_levels and n != target]
            named = [n for n in others if kinds[n].may_have_levels or kinds[n].words or kinds[n].spikes] or others
            levels |= self._measure_levels(LEVELS, named, kinds)
            coded = {n: kinds[n].beside for n in named if inference.words_are_codes(levels[n])}
            kinds = {**kinds, **{n: kind for n, kind in coded.items() if kind is not None}}
            levels |= {n: replace(levels[n], kind=kinds[n], column=None) for n in coded}
        # 4. The others except free texts: sizes and digits of numbers, years of dates, days between dates.
        numbers = [n for n, one in self._open.items() if isinstance(one, OpenNumbers)]  # their levels are words
        found = {n: one for n, one in levels.items() if one.column and kinds[n].may_have_levels and n not in numbers}
        texts = {n: inference.free_text(kinds[n]) for n in self._open if kinds[n].cells == "text"}
        rest = [n for n in self._asked.get(FORMATS, ()) if n not in found and n not in texts]
        dated = {n: one for n, one in self._open.items() if not (one.open_levels or one.open_format)}
        known = {n: with_declared_bounds(one, kinds[n]) for n, one in dated.items()}
        columns = self._measure_formats(rest, kinds, levels, target) | found | texts | known
        shown = {n for n, one in self._open.items() if one.open_kind and columns[n].is_key(n, self._rows)}
        shown = shown.difference(used, self._schema.constant)
        wrong = {n for n, one in columns.items() if one.column is None or one.column.size < 2 or n in shown}
        if target in wrong and not required:
            target = None
        # All columns in the table's order. A column that looks like a key is a key, unless it has levels.
        learned = {n: settled_column(one, columns[n]) for n, one in self._open.items()}
        made = self._schema.columns | {n: one.column for n, one in learned.items() if one.column is not None}
        made |= {n: columns[n].fresh_keys() for n in self._open if n in shown and n != target}
        if not any(column.modelled for column in made.values()):
            raise TargetError(
                "By the noisy counts all columns are keys, which no model learns. The budget counts what was measured. "
                "Add the columns to learn from, or declare a schema, and start again with `force`."
            )
        return Learned(schema=self._schema.with_columns(made, target=target), columns=learned, rows=self._rows)

    def _measure_classes(self, target: str, kinds: Kinds, *, required: bool) -> dict[str, LearnedColumn]:
        """Ask question 2: the target's levels. Return {} if it is free text, which has none.

        Raises TargetError if the target is `required` and has fewer than two classes. If its kind shows that, nothing
        is measured.
        """
        text = kinds[target].cells == "text"
        if text and required:
            raise lost_target(target)
        levels = self._measure_levels(TARGET, [target], kinds)
        if required and not self._serves(levels[target]):
            raise lost_target(target)
        return {} if text else levels

    @staticmethod
    def _serves(target: LearnedColumn | None) -> bool:
        """Return whether a column can be the target: it has two levels or more, or is to be read as numbers."""
        found = target.column if target is not None and target.kind.may_have_levels else None
        return target is not None and (found is None or found.size >= 2)

    def _measure_kinds(self, target: str | None) -> tuple[Kinds, Kinds]:
        """Ask question 1: the kinds of each column, and the same with the stricter limits of a target.

        Every count covers all rows, so it also estimates their number. A declared kind is not asked for.
        """
        if KINDS not in self._asked:
            kinds = {name: kind_of(column, None) for name, column in self._open.items()}
            return kinds, kinds
        names = self._asked[KINDS]
        counts, std = self.__histograms(KINDS, {name: partial(RawRows.kinds, name=name) for name in names})
        totals = [NoisyTotal.of(found, std) for found in counts.values()]
        likely = round(likely_rows(self._rows, totals, self._given_std))
        spread = totals[0].std / len(totals) ** 0.5  # Of the mean: all have the same noise.
        off = abs(likely - self._rows) if self._given_std is None else self._given_std
        self._rows = likely
        self._rows_std = min(spread, off)
        made = partial(inference.column_kind, std=std, cells=self._kinds, rows=likely, columns=len(counts))
        shown = {name: made(found) for name, found in counts.items()}
        kinds = {name: kind_of(column, shown.get(name)) for name, column in self._open.items()}
        if target not in counts:
            return kinds, kinds
        return kinds, {**kinds, target: kind_of(self._open[target], made(counts[target], target=True))}

    def _measure_levels(self, label: str, names: list[str], kinds: Kinds) -> dict[str, LearnedColumn]:
        """Ask questions 2 and 3: levels of the columns `names` that pass the threshold, and usual ones.

        A target's labels must always pass the threshold, so no usual ones are asked for. Declared levels are there,
        whatever their count.
        """
        target = label == TARGET
        declared = {name: one.declared_levels for name in names if isinstance(one := self._open[name], OpenLevels)}
        usual = {name: self._public_levels(declared.get(name, ()), target=target) for name in names}
        kept, public, std, threshold = self.__level_counts(label, names, kinds, usual)
        cells = {name: dict(zip(usual[name], counts.tolist(), strict=False)) for name, counts in public.items()}
        gaps = dict[str, Counts]()
        for name in names:
            codes = self._gaps(kinds[name].codes, public[name][len(usual[name]) :], std, len(names), target=target)
            gaps[name] = {code: count for code, count in codes.items() if not is_code_of_a_number(code)}
            # A declared level that is a usual code of missing values, such as "unknown", was counted among these.
            counts = dict(zip(self._kinds.codes, public[name][len(usual[name]) :].tolist(), strict=True))
            for word in declared.get(name, ()):
                gaps[name].pop(word, None)
                cells[name].setdefault(word, counts.get(word, 0.0))
        present = {name: self._rows - sum(gaps[name].values()) for name in names}
        needed = {name: REQUIRED_SHARE * present[name] - sum(kept[name].values()) for name in names}
        known = inference.usual_levels(cells, std, threshold, kinds, needed)
        for name, given in declared.items():
            known[name] |= {word: cells[name][word] for word in given}
            if self._open[name].given["kind"] == "binary":
                known[name] |= inference.second_level(kept[name] | known[name], cells[name])
        columns = dict[str, LearnedColumn]()
        for name in names:
            own = dict(sorted((kept[name] | known[name]).items()))
            words = {} if target else inference.words_of(own, kinds[name])
            own = {word: n for word, n in own.items() if word not in words}
            lost = gaps[name] | words
            rest = present[name] - sum(own.values()) - sum(words.values())
            spread = float(np.hypot(std * math.sqrt(1 + len(own | lost)), self._rows_std))
            column = inference.levels(own, lost, rest, spread, kinds[name], rows=self._rows, target=target)
            strange = 0.0
            if column is not None and column.reads_as_missing:
                others = sum(n for word, n in {**own, **words}.items() if not is_number(word))
                strange = kinds[name].words - others if kinds[name].numbers else rest  # other numbers are levels
            columns[name] = LearnedColumn(
                kind=kinds[name], column=column, kept=own, gaps=lost, rest=rest - strange, std=spread, unread=strange
            )
        return columns

    def _public_levels(self, declared: tuple[str, ...], *, target: bool) -> tuple[str, ...]:
        """Return levels that are public before a table is seen: the declared ones, and usual ones but in a target."""
        usual = () if target else self._kinds.usual
        words = [code for code in self._kinds.codes if not is_code_of_a_number(code)]
        return tuple(level for level in dict.fromkeys((*declared, *usual)) if level not in words)

    def _measure_formats(
        self, names: list[str], kinds: Kinds, levels: Mapping[str, LearnedColumn], target: str | None
    ) -> dict[str, LearnedColumn]:
        """Ask question 4: magnitudes and decimals of numbers, years of dates, days between up to ten pairs of dates.

        If no column is left to ask about, sizes of all are measured and not used: a fit measures all that it planned.
        """
        if not names:
            if all_asked := self._asked.get(FORMATS):
                self.__histograms(FORMATS, {n: partial(RawRows.magnitudes, name=n, kind=kinds[n]) for n in all_asked})
            return {}
        follow = {name: self._open[name].depends_on[0] for name in names if self._open[name].depends_on}
        dates = [name for name in names if kinds[name].cells == "date" and name not in follow]
        numbers = [name for name in names if name not in dates and name not in follow]
        pairs = self._date_pairs([name for name in dates if name != target], kinds)
        between = [*pairs, *((first, name) for name, first in follow.items())]
        counts, std = self.__histograms(FORMATS, self._formats(numbers, dates, between, kinds))
        columns = dict[str, LearnedColumn]()
        own = len(self._kinds.codes)
        for name in (*numbers, *dates):
            kind = kinds[name]
            seen = levels.get(name)
            found = counts[f"{'years' if name in dates else 'magnitudes'} of {name}"]
            codes = {*kind.codes, *(seen.gaps if seen else ())}
            gaps = self._gaps(codes, found[-own:], std, len(names), target=name == target)
            single = {**seen.gaps, **seen.kept} if seen else {}
            single = {word: n for word, n in single.items() if word not in gaps and moment(word) not in CLOCKS}
            key = repeats = rounded = False
            if name in dates:
                column, far = inference.day(found[:-own], std, kind, gaps, single, rows=self._rows)
            else:
                gaps |= {word: n for word, n in single.items() if not is_number(word)}
                digits = counts.get(f"decimals of {name}", self._decimals(name))
                if kind.cells == "whole" and not {**gaps, **single}:  # a key is never missing, and no value is frequent
                    key, repeats = magnitudes.like_keys(found[:-own], std, self._rows)
                tailed = self._open[name].given.get("scale") == "log"
                column, far = inference.number(
                    found[:-own], std, digits, kind, gaps, rows=self._rows, levels=single, tailed=tailed
                )
                rounded = digits is not None and magnitudes.loses_form(digits, std, column.places, kind.zeros)
            gaps = {whole_text(word) or word: n for word, n in {**gaps, **single}.items()}
            gaps = {word: n for word, n in gaps.items() if word in column.gap_words}
            rest = self._rows - sum(gaps.values())
            words = set(gaps).difference(self._kinds.codes)
            unread = float(found[-own - 1]) - sum(gaps[word] for word in words if not is_number(word))
            columns[name] = LearnedColumn(
                kind=kind, column=column, gaps=gaps, rest=rest, std=std, far=far, unread=unread, key=key,
                repeats=repeats, rounded=rounded,
            )  # fmt: skip
        for name, first in follow.items():
            column = inference.declared_after(first, kinds[name], counts[f"days from {first} to {name}"], std)
            columns[name] = LearnedColumn(kind=kinds[name], column=column, rest=self._rows, std=std)
        apart = {(a, b): counts[f"days from {a} to {b}"] for a, b in pairs}
        return inference.dates_after(columns, apart, std, rows=self._rows, rows_std=self._rows_std)

    def _formats(
        self, numbers: list[str], dates: list[str], pairs: list[tuple[str, str]], kinds: Kinds
    ) -> dict[str, Callable[[RawRows], Whole]]:
        """Return the histograms of question 4 by name."""
        parts: dict[str, Callable[[RawRows], Whole]] = {}
        for name in numbers:
            parts[f"magnitudes of {name}"] = partial(RawRows.magnitudes, name=name, kind=kinds[name])
        for name in (name for name in numbers if kinds[name].cells == "decimal" and self._decimals(name) is None):
            parts[f"decimals of {name}"] = partial(RawRows.decimals, name=name, kind=kinds[name])
        for name in dates:
            parts[f"years of {name}"] = partial(RawRows.years, name=name, kind=kinds[name])
        for a, b in pairs:
            start = kinds.get(a) or self._schema.columns[a]
            parts[f"days from {a} to {b}"] = partial(RawRows.differences, first=(a, start), second=(b, kinds[b]))
        return parts

    def _date_pairs(self, dates: list[str], kinds: Kinds) -> list[tuple[str, str]]:
        """Return the pairs of dates with open bounds whose differences are counted; none that is declared to lead."""
        lead = {first for column in self._schema.columns.values() for first in column.depends_on}
        dates = [name for name in dates if name not in lead]
        whole = [name for name in dates if kinds[name].form not in CLOCKS and not self._open[name].given.get(BOUNDS)]
        return inference.date_pairs([name for name in whole if not doubtful(name)])

    def _decimals(self, name: str) -> Floats | None:
        """Return counts of decimals that are as declared; None if they are open."""
        if (places := self._open[name].given.get("decimals")) is None:
            return None
        found = np.zeros(magnitudes.MOST_DECIMALS + 1)
        found[min(places, magnitudes.MOST_DECIMALS)] = DECLARED
        return found

    def _gaps(self, known: Iterable[str], codes: Floats, std: float, columns: int, *, target: bool) -> Counts:
        """Return the codes of missing values that are known or that noisy counts of all codes show, with counts."""
        shown = {*known, *inference.clear_codes(codes, std, self._kinds, columns, target=target)}
        return {code: count for code, count in zip(self._kinds.codes, codes.tolist(), strict=True) if code in shown}

    # The methods below read cells. Results leave only by `Releases.release`.

    def __histograms(
        self, label: str, parts: Mapping[str, Callable[[RawRows], Whole]]
    ) -> tuple[dict[str, Floats], float]:
        """Return noisy histograms by name, in one release, and the standard deviation of their noise.

        A row adds at most one to one cell of each of the k histograms. The L2 sensitivity is sqrt(k) times a patient's
        maximum number of rows, since their cells may all be equal.
        """
        sensitivity = self._max_rows * math.sqrt(len(parts))

        def draw(event: Event) -> Release:
            std = event.multiplier * sensitivity
            exact = added([count(rows) for count in parts.values()] for rows in self.__rows())
            return Release([noised(counts, std, self.__releases.entropy) for counts in exact], of=tuple(parts))

        label = of_table(self._name, label)
        found = self.__releases.release(label, sensitivity, draw).by_name(parts)
        return found, self.__releases.event(label).multiplier * sensitivity

    def __level_counts(
        self, label: str, names: list[str], kinds: Kinds, usual: Mapping[str, tuple[str, ...]]
    ) -> tuple[dict[str, Counts], dict[str, Floats], float, float]:
        """Return noisy counts of levels above the threshold and of public ones, by column, the noise and the threshold.

        Public counts are those of `usual` levels, followed by codes of missing values. A row adds one to one cell of
        each of the k columns: a public one or another level. The L2 sensitivity is sqrt(k) times R, a patient's maximum
        number of rows (or one), since these may all have one level. Every public count gets noise, whether a row has
        it or not, and is released: a Gaussian measurement. Other levels get noise if they occur. A level of only one
        patient has a count of at most R, and is released only if its noise exceeds threshold - R. By the choice of
        threshold - R = std * Phi^-1(1 - delta/(k R)) this has probability delta/(k R). The union over the patient's at
        most k R levels has at most probability delta, which Thresholded charges in addition to its Gaussian.
        """
        sensitivity = self._max_rows * math.sqrt(len(names))
        of = tuple(f"{part} of {name}" for name in names for part in ("levels", "public levels"))

        def draw(event: Event) -> Release:
            std, threshold = self._threshold(event, sensitivity, len(names))
            arrays, words = list[Floats](), list[str]()
            for exact, public in self.__exact_levels(names, kinds, usual):
                noisy = noised(exact.to_numpy(np.int64), std, self.__releases.entropy)
                passed = noisy > threshold
                arrays += [noisy[passed], noised(public, std, self.__releases.entropy)]
                words += [str(word) for word in exact.index[passed]]
            return Release(arrays, words, of)

        label = of_table(self._name, label)
        found = self.__releases.release(label, sensitivity, draw)
        words = iter(found.names)
        arrays = found.by_name(of)
        kept = {name: {next(words): float(count) for count in arrays[f"levels of {name}"]} for name in names}
        public = {name: arrays[f"public levels of {name}"] for name in names}
        return kept, public, *self._threshold(self.__releases.event(label), sensitivity, len(names))

    def _threshold(self, event: Event, sensitivity: float, columns: int) -> tuple[float, float]:
        """Return the noise of counts of levels, and the count that a level without a public name must exceed.

        Raises BudgetError for an event that charges no chance of releasing a name.
        """
        if not isinstance(event, Thresholded):
            raise BudgetError("Names of levels can only be released by partition selection.")
        std, most = event.multiplier * sensitivity, self._max_rows
        return std, most + rarely_exceeded(std, event.delta / (columns * most))

    def __exact_levels(
        self, names: list[str], kinds: Kinds, usual: Mapping[str, tuple[str, ...]]
    ) -> list[tuple[pd.Series, Whole]]:
        """Return for each column the exact counts of levels, and of `usual` levels and codes of missing values."""
        found = list[tuple[pd.Series, Whole]]()
        for rows in self.__rows():
            more = [rows.levels(name, kinds[name], usual[name]) for name in names]
            pairs = zip(found, more, strict=True)
            found = [(levels_added(a, c), b + d) for (a, b), (c, d) in pairs] if found else more
        return found

    def __rows(self) -> Iterator[RawRows]:
        """Yield the rows in pieces. A table in memory is one piece, which keeps what it has read."""
        if isinstance(self.__table, LargeTable):
            return (RawRows(piece, self._kinds, self._open) for piece in self.__table.chunks())
        self.__kept = self.__kept or RawRows(self.__table, self._kinds, self._open)
        return iter([self.__kept])

    def __repr__(self) -> str:
        return "RawVault(private rows)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A raw table cannot be pickled or copied.")
