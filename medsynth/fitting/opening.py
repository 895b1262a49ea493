"""Turn the source of a fit into private tables: read and checked once, before anything else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import pandas as pd

from ..errors import UsageError
from ..io.table import LargeTable, Table
from ..patients.split_rows import ending
from ..schema import Schema
from ..schema.impossible import refuse_impossible_rules
from .cluster import ClusterTable
from .private_table import PrivateTable, open_table
from .private_tables import PrivateTables, open_tables
from .settings import FitSettings, Notice
from .source import find, is_linked

# Words in the name or the levels of a column that may state how patients end.
END_WORDS = re.compile(
    r"\bdies\b|died|dead|death|deceased|alive|surviv|mort|status|outcome|event|censor|relaps|discharg|transplant"
    r"|verstorben|gestorben|décéd|décès|fallec|muert"
)
Fittable = Path | str | pd.DataFrame | Table | LargeTable | PrivateTables
# Settings that apply to several tables, too. The file that names these tables declares the others.
OF_SEVERAL = {
    "epsilon", "anyway", "no_dp", "delta", "method", "preset", "settings", "rows", "encoding", "skip_lines",
    "skip_rows", "skip_last_rows", "header_lines", "header_is_names", "device", "seed",
}  # fmt: skip


def opened(source: Fittable, settings: FitSettings, notice: Notice) -> PrivateTable:
    """Return the private table, or tables, from a path, a frame or a table in memory.

    Raises UsageError for a setting that several tables do not take, TableError or SchemaError for what cannot be read.
    """
    private: PrivateTable
    if isinstance(source, PrivateTables):
        check_settings(settings)
        private = source
    elif isinstance(source, Path | str) and is_linked(Path(source)):
        check_settings(settings)
        private = open_tables(find(Path(source), notice), settings.saved)
    else:
        private = replace(open_table(source, settings, notice), place=_file_of(source))
    for schema in private.declared_schemas:
        refuse_impossible_rules(schema)
    if advice := advice_on_ends(private.declared_schemas, private.target):
        notice(advice)
    return private


def _file_of(source: Fittable) -> Path | None:
    """Return the file of a table, or the one that it was read from; None for a frame and for a part of a table."""
    if isinstance(source, Path | str):
        return Path(source)
    if isinstance(source, ClusterTable) or (isinstance(source, Table) and source.written is not None):
        return Path(source.where)
    return None


def advice_on_ends(schemas: Sequence[Schema], target: str | None) -> str | None:
    """Return the advice to declare how patients end at their last rows; None if that is declared, or no state is known.

    `schemas`: of the tables of a fit. A state in the patient's own columns is known at first rows, and its relation to
    last rows is measured through all rows between.
    """
    in_order = [schema for schema in schemas if schema.order is not None]
    own = any(target in schema.constant and _may_end(schema, target) for schema in in_order if target)
    if not own or any(ending(schema) for schema in in_order):
        return None
    return (
        f"If {target!r} states how patients end, such as death, tie a column of the rows in order to the last, with a "
        "rule such as `died = yes implies last row`. Its relation to last values is then measured by itself."
    )


def _may_end(schema: Schema, name: str) -> bool:
    """Return whether a column could state how patients end, by its name and levels: sex or a drug could not."""
    column = schema.columns[name]
    return column.categorical and bool(END_WORDS.search(" ".join([name, *map(str, column.levels)]).lower()))


def check_settings(settings: FitSettings) -> None:
    """Raise UsageError for a setting of one table alone."""
    if settings.inference:
        raise UsageError(
            "`inference` needs one table with one row per patient. Make such a table of these tables, and fit it. "
            "Nothing was spent."
        )
    for field in fields(FitSettings):
        if field.name not in OF_SEVERAL and getattr(settings, field.name) != field.default:
            raise UsageError(f"`{field.name}` is for one table. Set this option per table, in the tables file.")
