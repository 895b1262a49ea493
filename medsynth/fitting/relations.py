"""Find rules that nearly all rows obey and that arithmetic or structure explains: for a person who may see the table.

NO NOISE. A rule contains no value but 1, 100, and levels that are public before the table is seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import permutations

import numpy as np
import pandas as pd

from ..arrays import Floats, Mask
from ..schema.clinical import spelled
from ..schema.columns.column import Column, Values
from ..schema.rules import ValuesByName, in_rule, yes_level

ALMOST, SOME_ROWS = 0.01, 30  # of the rows that show a rule some may break it; rows of each kind that show one
FEW_ROWS, MOSTLY = 200, 0.95  # rows in which sums are tried first, and the share of these that must fit
MOST_NUMBERS, MOST_PARTS = 150, 40  # columns in which sums are looked for, and columns of a sum
BY_CHANCE = 20  # rows that break an implication, expected of unrelated columns
ROWS_OF_A_CODE, MOST_CODES, MOST_ANSWERS = 20, 500, 10  # on average; of a column; levels that skip a question
EXACT = 1e-6  # relative error of a sum of decimals
ENDS = {"1": 1.0, "100": 100.0}  # sums of answers and of shares
Broken = dict[str, int]  # rules, with the number of rows that break each


def relations(columns: Mapping[str, Column], values: ValuesByName, closed: Collection[str], last: str) -> Broken:
    """Return sums, values that are present together or with one answer only, and labels that follow from codes.

    closed: the columns of which levels or bounds are public. last: the table's last column, which is the usual target.
    """
    names = [name for name in columns if in_rule(name)]
    words = {name: values[name] for name in names if columns[name].categorical and columns[name].part is None}
    yes = {name: word for name in words if name in closed and (word := yes_level(columns[name].levels))}
    some = [name for name in names if name in yes or not (columns[name].categorical or columns[name].dated)]
    ones = {name: values[name] == yes[name] if name in yes else values[name] for name in some}
    numbers = {name: np.asarray(np.where(pd.isna(values[name]), np.nan, own), np.float64) for name, own in ones.items()}
    found = _sums(numbers, yes, {*closed} - {last})
    added = {name for _, own in found.values() for name in own}
    answers = {name: own for name, own in words.items() if name in closed and columns[name].size <= MOST_ANSWERS}
    known = {name: np.asarray(pd.notna(values[name]), np.bool_) for name in names}
    labels = _labels(words, {*added, last})
    return {rule: broken for rule, (broken, _) in found.items()} | dict([*_presences(known, answers), *labels])


def _sums(
    numbers: Mapping[str, Floats], answers: Collection[str], closed: Collection[str]
) -> dict[str, tuple[int, set[str]]]:
    """Return sums of neighbours, or of columns with a common name, that are 1, 100 or another column.

    Each comes with the rows that break it and its columns. Answers are zero or one. Of sums that share two columns, the
    one that the fewest rows break counts.
    """
    stems = [" ".join(spelled(name)[:-1]) or name for name in numbers]
    usual = {name: np.nanmedian(own) for name, own in numbers.items() if np.isfinite(own).any()}
    odd = {name: (numbers[name] != one) & np.isfinite(numbers[name]) for name, one in usual.items()}
    place = dict(zip(numbers, map(stems.index, stems), strict=True))
    names = sorted((name for name in odd if odd[name].any()), key=place.__getitem__)[:MOST_NUMBERS]
    ends = {end: np.full(len(odd[names[0]]), value) for end, value in ENDS.items()} if names else {}
    texts = [*ends, *names]
    rows = np.stack([*ends.values(), *(numbers[name] for name in names)], 1) if names else np.empty((0, 0))
    some = rows[:: max(1, len(rows) // FEW_ROWS)]
    candidates = list[tuple[int, int, str, set[str]]]()
    for start in range(len(ends), len(texts)):
        total = some[:, start]
        for stop in range(start + 2, min(start + MOST_PARTS, len(texts)) + 1):
            total = total + some[:, stop - 1]
            fits = _apart(some, total)
            known = np.isfinite(fits).sum(0)
            parts = texts[start:stop]
            for k in np.flatnonzero((known > 0) & ((fits <= EXACT).sum(0) >= MOSTLY * known)):
                if texts[k] in (*parts, *answers) or (texts[k] == "100" and {*answers} & {*parts}):
                    continue
                apart = _apart(rows[:, [k]], rows[:, start:stop].sum(1))[:, 0]
                shown = sorted(int((odd[part] & np.isfinite(apart)).sum()) for part in parts)
                broken = int((apart > EXACT).sum())
                if shown[-2] >= SOME_ROWS and broken <= ALMOST * shown[0]:
                    added = " + ".join(map(in_rule, parts))
                    end = texts[k] if texts[k] in ENDS else in_rule(texts[k])
                    rule = f"{end} = {added}" if texts[k] in closed else f"{added} = {end}"
                    candidates.append((broken, len(parts), rule, {*parts, texts[k]} - ENDS.keys()))
    found = dict[str, tuple[int, set[str]]]()
    for broken, _, rule, own in sorted(candidates, key=lambda one: one[:2]):
        if all(len(own & other) < 2 for _, other in found.values()):
            found[rule] = broken, own
    return found


def _apart(ends: Floats, total: Floats) -> Floats:
    """Return the relative distance of columns, (rows, columns), from a total, (rows,); NaN if either is missing."""
    return np.asarray(np.abs(ends - total[:, None]) / (1 + np.abs(total[:, None])), np.float64)


def _presences(known: Mapping[str, Mask], answers: Mapping[str, Values]) -> Iterator[tuple[str, int]]:
    """Yield what is present together with another column, or only with one answer: the rarest, if there are several."""
    firsts = dict[str, Mask]()
    for name, own in known.items():
        few = ALMOST * min(own.sum(), (~own).sum())
        if few < ALMOST * SOME_ROWS:
            continue
        twin = next((one for one, other in firsts.items() if (own != other).sum() <= few), None)
        if twin is not None:
            rule = f"{in_rule(twin)} is present if and only if {in_rule(name)} is present"
            yield rule, int((own != firsts[twin]).sum())
            continue
        firsts[name] = own
        asked = [
            (int(given.sum()), other, level, given)
            for other, texts in answers.items() if other != name
            for level in pd.unique(texts[own & pd.notna(texts)]) if '"' not in str(level)
            if (rest := (known[other] & ~(given := texts == level)).sum()) >= SOME_ROWS
            and (own & ~given).sum() <= min(few, ALMOST * rest) and own.sum() * rest >= BY_CHANCE * len(own)
        ]  # fmt: skip
        if asked:
            count, other, level, given = min(asked, key=lambda one: one[:3])
            both = (given & ~own).sum() <= min(few, ALMOST * count)
            broken = given != own if both else own & ~given
            joined = "if and only if" if both else "implies"
            yield f'{in_rule(name)} is present {joined} {in_rule(other)} = "{level}"', int(broken.sum())


def _labels(words: ValuesByName, others: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield which labels follow from codes, but none of `others`. A label has one code, and determines nothing."""
    levels = {name: pd.factorize(own) for name, own in words.items()}
    sizes = {name: len(texts) for name, (_, texts) in levels.items() if 2 <= len(texts) <= MOST_CODES}
    codes, labels = set[str](), set[str]()
    for code, label in sorted(permutations(sizes, 2), key=lambda pair: -sizes[pair[0]]):
        ours, theirs = (levels[name][0] for name in (code, label))
        known = (ours >= 0) & (theirs >= 0)
        answer = sizes[label] == 2 < sizes[code]  # such as whether a patient is pregnant, by wards
        if (sizes[label] > sizes[code] or answer or {code, label} & labels or label in {*codes, *others}
                or known.sum() < ROWS_OF_A_CODE * sizes[code]):  # fmt: skip
            continue
        pairs = np.bincount(ours[known] * sizes[label] + theirs[known], minlength=sizes[code] * sizes[label])
        table = pairs.reshape(sizes[code], sizes[label])
        shown = known.sum() - table.sum(0).max()  # rows with another label than the commonest
        broken = int(known.sum() - table.max(1).sum())
        if shown >= SOME_ROWS and max(broken, ((ours < 0) != (theirs < 0)).sum()) <= ALMOST * shown:
            codes.add(code)
            labels.add(label)
            yield f"{in_rule(code)} determines {in_rule(label)}", broken
