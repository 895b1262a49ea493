"""List the noisy tables that a model file keeps, each with its noise and with what the fitted model makes of it.

A release is what the vault answered: a count plus noise of known size. Tables that were released minus their means get
back what was not measured, their margins, from the model. The consistent counts of all tables are those of the same
large sample of the model, so the margins of all tables agree.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..arrays import Floats
from ..artifact import Model
from ..errors import UsageError
from ..methods import registry
from ..methods.bins import DIGITS_OF
from ..methods.registry import restored_settings
from ..mixture.constants import BY_CLASS, CROSSED, VALUES
from ..mixture.crossed import feature_words
from ..mixture.declared import item_words
from ..mixture.one_way import LEVELS_OF
from ..mixture.perturbed import exact
from ..mixture.products import Products
from ..mixture.replicates import replayed
from ..mixture.rules import DerivedColumn
from ..mixture.stages import CLASSES, Stages
from ..privacy.queries.query import RowQuery
from ..privacy.queries.rows import CellMap, cells_of
from ..privacy.queries.tables import Marginals
from ..privacy.queries.vectors import VectorSum
from ..row_count import COUNTED_ROWS
from ..sampling.draw import Draw
from ..sampling.pipeline import sample_codes
from ..sampling.replicates import broken_model, plan_of, why_not
from ..schema import Schema
from ..schema.columns.column import Column

MOST_CODES = 1 << 20  # of a column: cells of larger ones are described by the edges of their grid
MOST_WORDS = 5  # levels of a cell that are listed
TIMES, FEWEST, MOST = 20, 20_000, 200_000  # rows of the sample: this number of times the table's, within limits
UNIT = "sum of products of standardised columns, clipped (docs/decisions/0030-inference.md)"


@dataclass(frozen=True, kw_only=True)
class NoisyTables:
    """One measurement: the `label` of the ledger, and one line per number, `lines`.

    Columns of `lines`: table; for each axis column_1, cell_1, ...; count, noise_std, std_error, consistent. `asked`:
    the number of tables, and what one of their numbers is.
    """

    label: str
    asked: str
    lines: pd.DataFrame

    @property
    def file(self) -> str:
        """The name of its file."""
        return re.sub("[^a-z0-9]+", "-", self.label.lower()) + ".csv"


class Example(NamedTuple):
    """Two groups of rows and a level.

    `shares`: of the level in each group, and of the group in all rows. `noise_std`: of the difference of the former.
    """

    level: str
    groups: tuple[str, str]
    shares: list[tuple[float, float]]
    noise_std: float


def example_of(model: Model) -> Example | None:
    """Return the first column of levels by the two largest classes of the target; None without such a column."""
    target = model.schema.target
    columns = model.schema.columns
    names = [name for name, one in columns.items() if not one.ordered and one.modelled and name != target]
    if not names or target is None or columns[target].ordered or why_not(model) is not None:
        return None
    lines = noisy_tables(model, BY_CLASS)[0].lines
    own = lines[lines["table"] == f"{target} by {names[0]}"]
    table = own.pivot_table("consistent", "cell_1", "cell_2", aggfunc="sum", sort=False)
    if len(table) < 2 or table.shape[1] < 2:
        return None
    sizes = table.sum(axis=1).nlargest(2)
    level = table.sum().idxmax()
    rows = float(table.to_numpy().sum())
    shares = [(float(table.at[group, level] / size), float(size / rows)) for group, size in sizes.items()]
    noise = float(own["noise_std"].iloc[0]) * math.sqrt(sum(size**-2.0 for size in sizes))
    groups = (f"{target}={sizes.index[0]}", f"{target}={sizes.index[1]}")
    return Example(f"{names[0]}={level}", groups, shares, noise)


def noisy_tables(model: Model, label: str | None = None) -> list[NoisyTables]:
    """Return all releases of a model, in the order of the ledger, or those of one measurement.

    Raises UsageError for a model that keeps none, ArtifactError for a broken one.
    """
    if (reason := why_not(model)) is not None:
        raise UsageError(reason)
    config: Any = restored_settings(registry.load(model.method, model.preset).Config, model.config)
    with broken_model():
        kept, stages = replayed(config, model.schema.core, plan_of(model), model.tensors)
        rows = float(model.tensors[COUNTED_ROWS][0])
        drawn = int(min(max(TIMES * rows, FEWEST), MOST))
        sample = _Sample(sample_codes(model, Draw(rows=drawn, seed=0)), model.schema, stages, rows)
        return [sample.listed(*one) for one in kept.answered if label in (None, one[0])]


@dataclass(frozen=True, eq=False)
class _Sample:
    """A large sample of a model of `rows` rows: codes, (drawn, columns), from which consistent counts follow."""

    codes: np.ndarray
    schema: Schema
    stages: Stages
    rows: float

    def _exact(self, query: RowQuery[Any]) -> list[Floats]:
        scale = self.rows / len(self.codes)
        return [scale * answer for answer in exact(query, self.codes, self.schema.names)]

    def listed(self, label: str, query: RowQuery[Any], arrays: Sequence[Floats], stds: Sequence[float]) -> NoisyTables:
        """Return a release line by line."""
        own = self._exact(query)
        if isinstance(query, VectorSum):
            # The vault adds up minus the products (declared.py).
            lines = _lines(
                self._products(label, query), -arrays[0], -own[0], -own[0], stds[0], counts=False, rows=self.rows
            )
            return NoisyTables(label=label, asked=f"{len(lines)} numbers, each a {UNIT}", lines=lines)
        assert isinstance(query, Marginals)
        whole = self._exact(replace(query, centred=()))
        parts = [
            _lines(self._cells(name, query), noisy, plain, centred, std, counts=True, rows=self.rows)
            for name, noisy, plain, centred, std in zip(query.tables, arrays, whole, own, stds, strict=True)
        ]
        lines = pd.concat(parts, ignore_index=True)
        axes = [name for name in map(str, lines) if name[-1].isdigit()]
        lines = lines[["table", *sorted(axes, key=lambda name: name[-1]), *lines.columns.drop(["table", *axes])]]
        if label == VALUES:  # the file keeps only counts that noise does not explain
            lines = lines[lines["count"] != 0]
        asked = f"{len(query.tables)} tables of counts"
        if query.centred:
            asked += f", {len(query.centred)} of them released without their margins, which the model adds here"
        return NoisyTables(label=label, asked=asked, lines=lines)

    def _cells(self, name: str, query: Marginals) -> pd.DataFrame:
        """Return the cells of a table in the order of its numbers: two columns per axis."""
        axes = [self._axis(column, cells) for column, cells in query.tables[name]]
        index = pd.MultiIndex.from_product([words for _, words in axes]).to_frame(index=False)
        shown = [k for k, (column, _) in enumerate(axes) if column]
        title = " by ".join(axes[k][0] for k in shown) + (", kinds of numbers" if name.startswith(DIGITS_OF) else "")
        found = pd.DataFrame({"table": title or "all rows"}, index=index.index)
        for number, k in enumerate(shown, 1):
            found[f"column_{number}"] = axes[k][0]
            found[f"cell_{number}"] = index[k]
        return found

    def _axis(self, name: str | tuple[str, ...], cells: CellMap) -> tuple[str, list[str]]:
        if isinstance(name, tuple):
            assert isinstance(cells, DerivedColumn)
            (title,) = (n for n, one in self.stages.derived.items() if one.inputs == name and one.cells == cells.cells)
            return title, cell_words(cells.definition.column, cells.bins)
        name = name.removeprefix(LEVELS_OF).removeprefix(DIGITS_OF)
        if name in ("", CLASSES):
            return "", ["all rows"] * cells.cells
        return name, cell_words(self.schema.columns[name], cells)

    def _products(self, label: str, query: VectorSum) -> pd.DataFrame:
        """Return the products of columns, or of declared regressions, in the order of the sums."""
        by_class = getattr(query.vectors, "given", None)
        products = query.vectors if by_class is None else getattr(query.vectors, "products", None)
        assert isinstance(products, Products)
        each = (feature_words(n) if label == CROSSED else item_words(n, self.stages.bins[n]) for n in products.tables)
        items = list(itertools.chain.from_iterable(each))
        words = [
            " × ".join(filter(None, (items[place] for place in own))) or "1" for own in products.factors.T.tolist()
        ]
        target, classes = self._axis(*by_class) if by_class else ("", [""])
        found = pd.MultiIndex.from_product([classes, words]).to_frame(index=False, name=["cell_1", "table"])
        return pd.DataFrame({"table": found["table"], "column_1": target, "cell_1": found["cell_1"]})


def _lines(
    cells: pd.DataFrame, noisy: Floats, plain: Floats, centred: Floats, std: float, *, counts: bool, rows: float
) -> pd.DataFrame:
    """Return a table line by line: released numbers, and those of the model, `plain` and as released, `centred`."""
    count = (noisy + (plain - centred)).ravel()
    likely = np.clip(plain.ravel(), 0.0, rows)
    # The sampling error of a sum of products is not known.
    sampling = likely * (1 - likely / max(rows, 1.0)) if counts else np.full(count.shape, np.nan)
    numbers: dict[str, Any] = {
        "count": count,
        "noise_std": std,
        "std_error": np.sqrt(std**2 + sampling),
        "consistent": plain.ravel(),
    }
    return cells.assign(**{name: np.round(values, 3) for name, values in numbers.items()})


def cell_words(column: Column, cells: CellMap) -> list[str]:
    """Return the values of a column in each cell of a map, in words: (cells,)."""
    codes = np.arange(column.size + column.gaps)
    if len(codes) > MOST_CODES:
        plain = cells.plain() if hasattr(cells, "plain") else cells
        grid: Any = getattr(plain, "grid", plain)
        codes = np.unique(np.clip(np.concatenate([grid.ends, grid.ends - 1]), 0, len(codes) - 1))
    place = cells_of(cells, codes.astype(np.int32))
    words = [list[str]() for _ in range(cells.cells)]
    for cell in range(cells.cells):
        own = codes[place == cell]
        values, gone = own[own < column.size], own[own >= column.size]
        if column.ordered and len(values):
            ends = [column.text(int(code)) for code in (values[0], values[-1])]
            words[cell] = [" to ".join(dict.fromkeys(ends))]
        else:
            words[cell] = [column.text(int(code)) for code in values[:MOST_WORDS]]
            words[cell] += [f"{len(values) - MOST_WORDS} more levels"] * (len(values) > MOST_WORDS)
        words[cell] += [column.text(int(code)) or "missing" for code in gone]
    return [", ".join(one) or "no value" for one in words]
