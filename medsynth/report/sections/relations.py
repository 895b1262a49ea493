"""Are strong relations kept? Pairs of columns, and levels that nearly determine another column.

A relation is strong if Cramer's V of two columns is above STRONG, or if nearly all rows with one level have a certain
level of another column. It is lost if synthetic rows keep less than half of it.

Thousands of pairs are looked at, so a loss must be more than chance among all of them (Bonferroni). That a relation is
kept needs no such correction: the verdict "all are kept" is wrong only if the very relation that is lost passes.

Clopper and Pearson 1934 (limits of a share); Zou and Donner 2008
(limits of a difference from limits of its parts).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import beta, chi2_contingency, norm

from ...arrays import Floats, Whole
from ...rng import Stream
from ...schema.rules import in_rule, parse
from ...similarity import cells_in, edges_of
from ..data.columns import words
from ..data.proposal import listed
from ..data.question import QUESTIONS
from ..data.statistics import DRAWS, cramers_v
from ..data.tables import Cells, Tables
from ..data.verdict import Estimate, Record, Thresholds, Verdict
from .registry import Section

Kept = Literal["lost", "cannot tell", "kept"]
STRONG = 0.5  # Cramer's V of a strong pair of columns. Cohen 1988 calls an effect of this size large.
NEARLY_ALL = 0.9  # Share of the rows with a level that must have the partner's level.
MOST_ELSEWHERE = 0.6  # Share of the other rows with the partner's level. Above it, the level tells too little.
HALF = 0.5  # Part of a relation that must be left.
FEWEST = 10  # Real rows with a level, and without it. Limits of shares allow for so few.
FEW = 0.01  # Share of the real rows. A relation within fewer rows is named on page one, and no verdict counts it.
FEW_SYNTHETIC = 10  # Synthetic rows with a level, for a share among them.
LOST = 0.01  # Chance that any relation of a table is wrongly called lost.
LEVEL = 0.05  # Chance that a lost relation is called kept.
PARTS = 4  # Quantile cells of a number column.
SHARED = 0.02  # Share of rows. A number that more rows share has a cell of its own.
MOST_LEVELS = 30  # Levels of a word column; the others share one cell.
MOST_LISTED = 40  # Pairs in the record, the worst first.
MOST_PICTURES = 8  # Pairs with a picture.
MOST_SHOWN = 6  # Bars, or rows of a map, in a picture.
MOST_RULES = 5  # Rules suggested for a pair.
MOST_ENTRIES = 50_000_000  # Rows times cells at once; a larger table is represented by fewer rows.
BETWEEN = "between "  # Before the ends of an interval.
RARE, MISSING = "(other levels)", "(missing)"


class Relation(Record):
    """One strong relation of the pair `column` and `partner`, the worst that the pair has.

    With a `level`: `real` and `synthetic` are the shares of rows with this level that have `partner_level`, and
    `elsewhere` is the real share among the other rows. `synthetic` is None if too few synthetic rows have the level.
    Without one they are Cramer's V. `rows`: real rows with the level, or all. `left`: the part of the relation that
    synthetic rows keep; 1 is all. `few`: whether it concerns so few rows that no verdict counts it: those
    with the level, or without it, or without the commonest cell of one of the columns.

    The picture has shares of the partner's cells `labels` for each of `row_labels`. `rules` would keep the relation.
    """

    column: str
    level: str | None
    partner: str
    partner_level: str | None
    real: float
    synthetic: float | None
    elsewhere: float | None
    rows: int
    synthetic_rows: int
    left: float
    kept: Kept
    few: bool = False
    rules: list[str]
    row_labels: list[str]
    labels: list[str]
    shares_real: list[list[float]]
    shares_synthetic: list[list[float]]

    @property
    def name(self) -> str:
        """Return the two columns, or the two levels, in words."""
        if self.level is None or self.partner_level is None:
            return f"{self.column} and {self.partner}"
        return f"{_cell(self.partner, self.partner_level)} in rows with {_cell(self.column, self.level)}"

    @property
    def sentence(self) -> str:
        """Return both figures in words."""
        if self.level is None or self.partner_level is None:
            return f"{self.name}: strength {self.real:.2f} of 1 in real rows, {self.synthetic:.2f} in synthetic rows"
        rows, partner = _cell(self.column, self.level), _cell(self.partner, self.partner_level)
        start = f"{self.real:.0%} of the real rows with {rows} have {partner}"
        if self.synthetic is None:
            return f"{start}, and there is no synthetic row with {rows}"
        return f"{start}, and {self.synthetic:.0%} of the synthetic rows"


def _cell(column: str, label: str) -> str:
    return f"{column} {label}" if re.match(f"below |above |{BETWEEN}", label) else f"{column} = {label}"


class Relations(Record):
    """Pairs of columns with a strong relation in real rows: `found` counts them, `listed` has the worst.

    Of these, `kept` are shown to be kept, and for `unclear` the rows cannot tell. Pairs whose relation concerns FEW
    rows are listed, but not counted.

    `lost` is the number of pairs with a lost relation; its ends are the pairs that chance cannot explain, and those
    that are not shown to keep theirs.
    """

    rows: int
    synthetic_rows: int
    found: int
    kept: int
    unclear: int
    lost: Estimate
    listed: list[Relation]

    @property
    def shown(self) -> list[Relation]:
        """Return the pairs that have a picture: those that are not shown to be kept."""
        return [one for one in self.listed if one.kept != "kept"][:MOST_PICTURES]


@dataclass(frozen=True)
class _Cells:
    """The cells of a column: `labels`, and the cell of each row of both tables, (rows,)."""

    name: str
    labels: list[str]
    real: Whole
    synthetic: Whole


class _Side(NamedTuple):
    """Counts of one table, (cells, cells) of all columns together. `size`: rows that one independent unit has."""

    counts: Floats
    rows: int
    size: float


def relations(tables: Tables, rng: Stream) -> Relations | None:
    """Find the strong relations of the held-out rows, and tell which of them the synthetic rows keep."""
    columns = [_number(tables, name) if name in tables.numbers else _word(tables, name) for name in tables.names]
    starts = np.cumsum([0, *(len(column.labels) for column in columns)])
    sides = [_side(columns, starts, side, tables, rng) for side in ("real", "synthetic")]
    if min(side.rows for side in sides) < FEWEST:
        return None
    found: dict[tuple[tuple[int, int], bool], list[Relation]] = {}
    for pair, relation in [*_pairs(columns, starts, sides, rng), *_levels(columns, starts, sides)]:
        found.setdefault((pair, relation.few), []).append(relation)
    order: list[Kept] = ["lost", "cannot tell", "kept"]
    worst = [_worst(own, order, tables) for own in found.values()]
    worst.sort(key=lambda one: (order.index(one.kept), one.few, one.left))
    judged = [one for one in worst if not one.few]
    known = [one.kept for one in judged]
    lost = Estimate(
        value=sum(one.left <= HALF for one in judged), low=known.count("lost"), high=len(known) - known.count("kept")
    )
    return Relations(
        rows=sides[0].rows,
        synthetic_rows=sides[1].rows,
        found=len(judged),
        kept=known.count("kept"),
        unclear=known.count("cannot tell"),
        lost=lost,
        listed=worst[:MOST_LISTED],
    )


def _worst(own: Sequence[Relation], order: Sequence[Kept], tables: Tables) -> Relation:
    """Return the worst relation of a pair of columns, with a rule for each level that is not kept.

    Shares of a level say more to a reader than Cramer's V.
    """
    first = min(own, key=lambda one: (order.index(one.kept), one.level is None, one.left))
    if first.kept == "kept":
        return first
    texts = [_rule(one, tables) for one in own if one.level is not None and one.kept != "kept"]
    return first.model_copy(update={"rules": [text for text in texts if text][:MOST_RULES]})


def _rule(one: Relation, tables: Tables) -> str | None:
    """Return the rule that would keep a relation of two levels; None if a rule cannot name a cell."""
    if one.level is None or one.partner_level is None or {RARE, MISSING} & {one.level, one.partner_level}:
        return None
    sides = [(one.column, one.level), (one.partner, one.partner_level)]
    parts = [f"{in_rule(column)} = {_value(level, tables.names)}" for column, level in sides]
    text = f"{parts[0]} implies {parts[1]}"
    try:
        parse(text, {column: column in tables.numbers for column, _ in sides})
    except ValueError:
        return None
    return text


def _value(text: str, names: Sequence[str]) -> str:
    plain = re.fullmatch(r"-?\d+(\.\d+)?", text) or (in_rule(text) == text and text not in names)
    return text if plain else f'"{text}"' if '"' not in text else f"'{text}'"


def _number(tables: Tables, name: str) -> _Cells:
    """Return the cells of a number column: PARTS quantiles of the real rows, values that many share, and missing."""
    values = [frame[name].to_numpy(np.float64) for frame in (tables.real, tables.synthetic)]
    known = values[0][np.isfinite(values[0])]
    edges = edges_of(known, PARTS)
    if len(known):  # A rarer value than a quantile may be shared by many rows as well, such as zero.
        common, counts = np.unique(known, return_counts=True)
        edges = np.union1d(edges, common[counts >= max(SHARED * len(known), FEWEST)][:MOST_LEVELS])
    cells = [cells_in(side, edges) for side in values]
    shares = np.bincount(cells[0], minlength=2 * len(edges) + 2) / max(len(cells[0]), 1)
    place = np.zeros(2 * len(edges) + 2, np.int64)
    labels = list[str]()
    date = tables.dates.get(name)
    ends = [f"{edge:.12g}" if date is None else date.shown(edge) for edge in edges]
    for k in range(2 * len(edges) + 1):  # Even cells lie between edges, odd ones are the edges.
        place[k] = len(labels)
        if k % 2 and shares[k] < SHARED:  # It belongs to the cell above.
            continue
        low, high = (ends[i] if 0 <= i < len(ends) else "" for i in ((k - 1) // 2, k // 2))
        labels.append(high if k % 2 else _interval(low, high))
    place[-1] = len(labels)
    return _Cells(name, [*labels, MISSING], place[cells[0]], place[cells[1]])


def _interval(low: str, high: str) -> str:
    """Return an interval in words; an empty end is open."""
    if low and high:
        return f"{BETWEEN}{low} and {high}"
    return f"below {high}" if high else f"above {low}" if low else "any"


def _word(tables: Tables, name: str) -> _Cells:
    """Return the cells of a word column: levels of at least FEWEST real rows, all other levels, and missing."""
    counts = words(tables.real[name]).value_counts()
    levels = [str(level) for level in counts.index[counts >= FEWEST][:MOST_LEVELS]]
    real, synthetic = (Cells({}, {name: levels}).column(frame, name) for frame in (tables.real, tables.synthetic))
    return _Cells(name, [*levels, RARE, MISSING], real, synthetic)


def _side(columns: Sequence[_Cells], starts: Whole, side: str, tables: Tables, rng: Stream) -> _Side:
    """Count every pair of cells of one table: one product of indicators."""
    codes = np.stack([column.real if side == "real" else column.synthetic for column in columns], 1)
    most = MOST_ENTRIES // int(starts[-1])
    if len(codes) > most:
        codes = codes[np.sort(rng.choice(len(codes), most, replace=False))]
    hot = np.zeros((len(codes), starts[-1]), np.float32)
    hot[np.arange(len(codes))[:, None], codes + starts[:-1]] = 1
    patients = tables.patients.get(side)
    size = 1.0 if patients is None else len(patients) / max(len(np.unique(patients)), 1)
    return _Side((hot.T @ hot).astype(np.float64), len(codes), size)


def _block(side: _Side, starts: Whole, i: int, j: int) -> Floats:
    return side.counts[starts[i] : starts[i + 1], starts[j] : starts[j + 1]]


def _pairs(
    columns: Sequence[_Cells], starts: Whole, sides: Sequence[_Side], rng: Stream
) -> list[tuple[tuple[int, int], Relation]]:
    """Return the pairs of columns with a strong Cramer's V in real rows."""
    made = []
    pairs = list(itertools.combinations(range(len(columns)), 2))
    chance = LOST / max(len(pairs), 1)
    for i, j in pairs:
        blocks = [_block(side, starts, i, j) for side in sides]
        real = float(cramers_v(blocks[0]))
        if real <= STRONG or _by_chance(blocks[0] / sides[0].size) > chance:
            continue
        synthetic = float(cramers_v(blocks[1]))
        # A Poisson bootstrap of the rows is one of the counts.
        draws = [
            cramers_v(np.asarray(rng.poisson(block / side.size, (DRAWS, *block.shape)) * side.size, np.float64))
            for block, side in zip(blocks, sides, strict=True)
        ]
        error = float((draws[1] - HALF * draws[0]).std())
        gap = synthetic - HALF * real
        picture = _picture(columns[i], columns[j], blocks)
        relation = Relation(
            column=columns[i].name, level=None, partner=columns[j].name, partner_level=None, real=real,
            synthetic=synthetic, elsewhere=None, rows=sides[0].rows, synthetic_rows=sides[1].rows,
            left=synthetic / real, rules=[], few=_few(blocks[0]), **picture,
            kept=_kept(gap - float(norm.isf(LEVEL)) * error, gap + float(norm.isf(chance)) * error),
        )  # fmt: skip
        made.append(((i, j), relation))
    return made


def _few(counts: Floats) -> bool:
    """Return whether nearly all rows are in one cell of a column; counts: (rows, columns)."""
    return bool(min(counts.sum() - counts.sum(axis).max() for axis in (0, 1)) < FEW * counts.sum())


def _by_chance(counts: Floats) -> float:
    """Return the p-value of the chi-squared test that two columns are independent; counts: (rows, columns)."""
    table = counts[counts.sum(1) > 0][:, counts.sum(0) > 0]
    return float(chi2_contingency(table, correction=False).pvalue)


def _kept(low: float, high: float) -> Kept:
    """Return the decision from the limits of what is left of a relation less half of it."""
    return "lost" if high < 0 else "kept" if low > 0 else "cannot tell"


def _levels(columns: Sequence[_Cells], starts: Whole, sides: Sequence[_Side]) -> list[tuple[tuple[int, int], Relation]]:
    """Return the levels that nearly determine the level of another column in real rows."""
    real, synthetic = sides
    total = np.diag(real.counts)  # Rows with each cell.
    column = np.repeat(np.arange(len(columns)), np.diff(starts))
    enough = (total >= FEWEST) & (real.rows - total >= FEWEST)
    among = real.counts / np.maximum(total, 1)[:, None]
    elsewhere = (total[None, :] - real.counts) / np.maximum(real.rows - total, 1)[:, None]
    asked = enough[:, None] & (column[:, None] != column[None, :]) & (total > 0)[None, :]
    strong = asked & (among > NEARLY_ALL) & (elsewhere <= MOST_ELSEWHERE)
    chance = LOST / max(int(asked.sum()), 1)
    made = []
    for a, b in np.argwhere(strong):
        i, j = int(column[a]), int(column[b])
        rows, made_rows = total[a], synthetic.counts[a, a]
        if made_rows < FEW_SYNTHETIC and total[a] / real.rows * synthetic.rows < 2 * FEWEST:
            continue  # So few synthetic rows that the level may lack by chance.
        ours, theirs = (_excess(side, int(a), int(b), chance) for side in sides)
        if ours[1] <= 0:
            continue  # Chance may have made the relation.
        hits = synthetic.counts[a, b]
        shown = made_rows >= FEW_SYNTHETIC
        kept = (
            _kept(*_left_over(ours, theirs)) if shown else "lost" if _rarer(sides, int(a)) < chance else "cannot tell"
        )
        row = slice(a - starts[i], a - starts[i] + 1)
        blocks = [_block(side, starts, i, j)[row] for side in sides]
        relation = Relation(
            column=columns[i].name, level=columns[i].labels[a - starts[i]], partner=columns[j].name,
            partner_level=columns[j].labels[b - starts[j]], real=float(among[a, b]),
            synthetic=float(hits / made_rows) if shown else None, elsewhere=float(elsewhere[a, b]), rows=int(rows),
            synthetic_rows=int(made_rows), left=float(theirs[0] / ours[0]) if shown else 0.0,
            kept=kept, few=bool(min(total[a], real.rows - total[a]) < FEW * real.rows), rules=[],
            **_picture(columns[i], columns[j], blocks, int(a - starts[i]), int(b - starts[j])),
        )  # fmt: skip
        made.append(((min(i, j), max(i, j)), relation))
    return made


def _left_over(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Return the limits of what is left of a relation less half of it, from the excesses of both tables: see `_excess`.

    The lower limit allows an error of LEVEL, the upper one that of the first pair of limits.
    """
    gap = theirs[0] - HALF * ours[0]
    low = gap - math.hypot(theirs[0] - theirs[3], HALF * (ours[4] - ours[0]))
    high = gap + math.hypot(theirs[2] - theirs[0], HALF * (ours[0] - ours[1]))
    return low, high


def _rarer(sides: Sequence[_Side], a: int) -> float:
    """Return the p-value of the exact test that the cell `a` is as frequent in synthetic rows as in real ones."""
    (real, made), rows = [side.counts[a, a] / side.size for side in sides], [side.rows / side.size for side in sides]
    return float(beta.cdf(rows[0] / sum(rows), real, made + 1))


def _excess(side: _Side, a: int, b: int, chance: float) -> list[float]:
    """Return how much more often the rows of cell `a` have cell `b` than other rows do, with two pairs of limits.

    The first pair allows an error of `chance`, the second one of LEVEL.
    """
    rows, hits = side.counts[a, a], side.counts[a, b]
    parts = [(hits, rows), (side.counts[b, b] - hits, side.rows - rows)]
    (p, *own), (q, *others) = (_share(k / side.size, n / side.size, (chance, LEVEL)) for k, n in parts)
    found = [p - q]
    for k in (0, 2):
        found += [p - q - np.hypot(p - own[k], others[k + 1] - q), p - q + np.hypot(own[k + 1] - p, q - others[k])]
    return found


def _share(k: float, n: float, chances: Sequence[float]) -> list[float]:
    """Return k / n and its lower and upper limit at each chance of an error to one side."""
    found = [k / n if n else 0.0]
    for chance in chances:
        found += [float(beta.ppf(chance, k, n - k + 1)) if k > 0 else 0.0,
                  float(beta.isf(chance, k + 1, n - k)) if n > k else 1.0]  # fmt: skip
    return found


def _picture(
    one: _Cells, other: _Cells, blocks: Sequence[Floats], row: int | None = None, hit: int | None = None
) -> dict[str, list[str] | list[list[float]]]:
    """Return the partner's shares within the rows of each cell, or of the cell `row`: the commonest cells only."""
    counts = blocks[0] + blocks[1]
    across = [k for k in np.argsort(-counts.sum(0), kind="stable")[:MOST_SHOWN] if counts[:, k].sum() or k == hit]
    across = sorted({*across, hit}) if hit is not None else sorted(across)
    down = sorted(np.argsort(-counts.sum(1), kind="stable")[:MOST_SHOWN])
    down = [k for k in down if counts[k].sum()]
    shares = [block / np.maximum(block.sum(1, keepdims=True), 1) for block in blocks]
    names = [one.labels[k] for k in down] if row is None else [one.labels[row]]
    return {
        "row_labels": names,
        "labels": [other.labels[k] for k in across],
        "shares_real": [np.round(shares[0][k, across], 4).tolist() for k in down],
        "shares_synthetic": [np.round(shares[1][k, across], 4).tolist() for k in down],
    }


LOST_RELATIONS = QUESTIONS["relations_lost"]


def _verdicts(found: Relations | None, thresholds: Thresholds) -> Sequence[Verdict]:
    if found is None:
        return []
    apart = [one for one in found.listed if one.kept != "kept" and not one.few]
    few = [one.sentence for one in found.listed if one.kept == "lost" and one.few]
    known = (found.kept, found.found - found.kept - found.unclear, found.unclear)
    parts = [f"{count} {'is' if count == 1 else 'are'} {state}"
             for count, state in zip(known, ("kept", "lost", "open"), strict=True) if count]  # fmt: skip
    detail = f"Of {found.found} strong relations between columns, {listed(parts)}."
    if not found.found:
        detail = "No strong relation is visible in these real rows."
    if apart:
        start = "Lost" if apart[0].kept == "lost" else "Open"
        detail += f" {start}, such as: {'; '.join(one.sentence for one in apart[:2] if one.kept == apart[0].kept)}."
    if few:
        detail += f" Lost, but not counted: {few[0]}{f', and {len(few) - 1} more' * (len(few) > 1)}. Fewer than 1 in "
        detail += "100 real rows show this. So few cannot keep it, unless a rule in the schema does."
    advice = LOST_RELATIONS.cure if any(one.rules for one in apart) else "Do not study these relations."
    line = LOST_RELATIONS.judge(found.lost, thresholds, detail, advice=advice)
    return [line.model_copy(update={"plain": detail if apart or few else ""})]


RELATIONS = Section(
    "relations", "Strong relations", lambda c: relations(c.compared, c.rng), Relations, needs=("real rows",),
    questions=(LOST_RELATIONS,), verdicts=_verdicts,
)  # fmt: skip
