"""Structure-only rows: drawn from a schema alone, before any table. No file of rows is opened, and no budget is used.

A schema becomes a model in which everything that it allows is about equally likely: levels, cells of numbers on their
scale, numbers of rows per patient, steps of the order. Rules, keys and several tables then follow from the same code
that draws from a fitted model. Such a model is never stored, so that no file can pass for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .. import __version__
from ..arrays import Arrays, Floats
from ..artifact import Model
from ..errors import UsageError
from ..methods import registry
from ..methods.bins import Bins, decoder, decoder_tensors, fine_grid
from ..methods.sampler import mixture_tensors
from ..patients import stored
from ..patients.chain import Chain
from ..patients.contexts import EVERY, Contexts
from ..patients.split_rows import GAP, changing, ending, fixed, gap_column, with_rows_column
from ..patients.variables import Variable, fine_cells
from ..privacy.accounting.ledger import Ledger
from ..privacy.hierarchy_selection import MAX_LEVELS, with_levels
from ..schema import Column, Schema
from ..schema.columns.categorical import Categorical, without_levels
from ..schema.columns.hierarchies import hierarchy
from ..schema.declared import ENDING, bundled_files
from ..schema.linked import LinkedTables, chain_view, joint
from .patients import ROWS_PER_PATIENT

METHOD = "independent"
ROWS = 1000  # by default
MISSING = 0.1  # share of missing values where a column allows them
BINS, GROUPS = 32, 2  # bins of a number; groups of a column of later rows, on which nothing depends


def declared_in(source: Path | str) -> tuple[Schema | LinkedTables, Path]:
    """Return what a YAML file, or a bundled schema of that name, declares, and its file.

    Raises UsageError for a file of another kind, which is not opened; SchemaError as `Schema.load` does.
    """
    path = Path(source)
    own = bundled_files().get(str(source))
    path = own if own and not path.exists() else path
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{path} is not a schema. Name a YAML file, or a bundled schema such as thyroid.")
    kind = LinkedTables if path.name.endswith(ENDING) else Schema
    return kind.load(path), path


def structure_model(declared: Schema | LinkedTables | Path | str, rows: int = ROWS) -> Model:
    """Return a model whose rows follow from a schema alone, or from a file of tables: draw from it as from any other.

    No table is opened, and no budget is used. `rows`: drawn by default; of several tables, the patients. Codes of a
    hierarchy without levels, which a fit would choose, have those of its finest layer with few enough. Raises as
    `declared_in` does, and UsageError for a schema of identifiers alone.
    """
    declared = (declared_in(declared)[0] if isinstance(declared, Path | str) else declared).closed()
    schema = joint(declared) if isinstance(declared, LinkedTables) else declared
    if not schema.core.columns:
        raise UsageError(
            f"The schema {schema.name!r} has only identifiers, and rows of keys alone are not drawn. Declare another "
            "column."
        )
    chosen = {name: _layer(column) for name, column in without_levels(schema.columns).items()}
    schema = schema.model_copy(update={"columns": schema.columns | chosen})
    found = _first_rows(schema if schema.order is None else with_rows_column(schema))
    if isinstance(declared, LinkedTables):
        for k, name in enumerate(declared.others):
            view = chain_view(declared, name)
            found |= stored.of_table(k, _later_rows(view)) if (view.max_rows or 1) > 1 else {}
    elif schema.unit:
        most = schema.max_rows or 1
        found |= {ROWS_PER_PATIENT: np.full(most, 1 / most, np.float32)} | (_later_rows(schema) if schema.order else {})
    config = registry.find(METHOD, None).load(None).Config()
    return Model(
        name=schema.name, method=METHOD, preset=None, config=config.model_dump(), schema=schema,
        ledger=Ledger(delta=0.0, accountant="prv", random_source="none", allowance={}, max_rows=schema.max_rows),
        epsilon=None, epsilon_asked=None, rows=rows, rows_declared=True, rows_read=0, device="cpu",
        versions={"medsynth": __version__}, tensors=found, structure_only=True,
        tables=declared if isinstance(declared, LinkedTables) else None,
    )  # fmt: skip


def _layer(column: Categorical) -> Categorical:
    """Return a column of codes with the finest layer of its hierarchy that has at most MAX_LEVELS nodes."""
    known = hierarchy(column.hierarchy or "")
    nodes = layer = known.children(None)
    while layer and len(layer) <= MAX_LEVELS:
        nodes = layer
        layer = [child for node in layer for child in known.children(node)]
    return with_levels(column, nodes)


def _first_rows(schema: Schema) -> Arrays:
    """Return the tensors of single rows."""
    core = schema.core
    shares = {name: _even(fine_grid(column).cells, column) for name, column in core.columns.items()}
    histograms = {name: own for name, own in shares.items() if not core.columns[name].categorical}
    bins, condition = decoder(core, histograms, 1, BINS)
    columns = [name for name in core.names if name != core.target]
    classes = condition.cells
    binned = {name: np.bincount(bins[name].place, shares[name], bins[name].cells) for name in columns}
    base = {name: np.tile(np.log(own), (classes, 1)) for name, own in binned.items()}
    prior = np.full(classes, 1 / classes, np.float32)
    if core.target is not None:
        prior = _even(classes, core.columns[core.target]).astype(np.float32)
    return {**decoder_tensors(histograms, bins, columns), **mixture_tensors(base, {}), "prior": prior}


def _later_rows(schema: Schema) -> Arrays:
    """Return the tensors of the rows that follow a patient's first one."""
    core = schema.core
    gap = gap_column(schema)
    moving: Mapping[str, Column] = {name: core.columns[name] for name in changing(schema)}
    columns = {**({GAP: gap} if gap else {}), **moving}
    variables = {name: _variable(name, column, moves=name != GAP) for name, column in columns.items()}
    still = {name: _variable(name, core.columns[name], moves=False) for name in fixed(schema)}
    weights = {name: [(EVERY, np.zeros((1, variable.cells)))] for name, variable in variables.items()}
    ends = {name: weights[name] for name in ending(schema)}
    return stored.tensors(Chain(Contexts(schema, variables, still), weights, ends))


def _variable(name: str, column: Column, *, moves: bool) -> Variable:
    fine = fine_cells(name, column)
    bins = Bins.of(column, None if column.categorical else _even(fine.cells, column), None, BINS, fine)
    return Variable.of(name, column, bins, (GROUPS, GROUPS), moves=moves)


def _even(cells: int, column: Column) -> Floats:
    """Return even shares of a column's cells, (cells,): MISSING for all kinds of missing values together."""
    values = cells - column.gaps
    missing = MISSING if column.gaps else 0.0
    return np.concatenate(
        [np.full(values, (1 - missing) / values), np.full(column.gaps, missing / max(column.gaps, 1))]
    )
