"""Private rows as patients and as codes, in memory or, for a larger table, on disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..arrays import Codes, Floats, Whole
from ..errors import WARNING, MedsynthError, Message, SchemaError, UsageError
from ..io.table import MISSING_TOKENS, LargeTable, Table
from ..privacy.contribution import PrivacyUnits
from ..privacy.queries.stored_rows import StoredCodes
from ..privacy.release import Releases
from ..schema import Schema
from ..schema.columns.column import Column
from ..schema.columns.parts import cells_of
from ..schema.declared import yaml_key
from .cluster import ClusterCodes, ClusterTable

if TYPE_CHECKING:
    from ..privacy.queries.noising import Noising
    from ..privacy.vault import Vault

Coded = Codes | StoredCodes | ClusterCodes


def refuse_floats(data: Table | LargeTable, columns: Mapping[str, Column], keys: Collection[str | None]) -> None:
    """Raise SchemaError for keys in a column of floats, and for declared codes of more than 15 digits in one.

    pandas makes floats of whole numbers once a cell of their column is missing or has decimals, and floats round. So
    one cell would change the keys of other rows. The column's type and its declaration decide, and never a cell.
    `keys`: the columns that may contain keys; those that the schema models have values.
    """
    for name in data.header:
        if name not in data.floats:
            continue
        column = columns.get(name)
        if name in keys and (column is None or not column.modelled):
            what = "its keys"
        elif column is not None and column.long_codes:
            what = "declared codes of more than 15 digits"
        else:
            continue
        raise SchemaError(
            f"{data.where}, column {name!r} has a type of floats, which rounds {what}. Read it with `dtype=str` or as "
            "`Int64`, or store it as text or whole numbers."
        )


def patients(data: Table | LargeTable, unit: str) -> Whole:
    """Return the patient of each row, (rows,), numbered by first rows. Raise SchemaError for an empty key."""
    numbers = dict[str | bytes, int]()
    found = list[Whole]()
    pieces: Iterable[tuple[Whole, Sequence[str | bytes]]]
    pieces = data.people if isinstance(data, ClusterTable) else (keys_of(piece, unit) for piece in data.chunks())
    for place, keys in pieces:
        found.append(np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)[place])
    return np.concatenate(found)


def keys_of(piece: Table, unit: str) -> tuple[Whole, list[str]]:
    """Return each row's index among the keys, (rows,), and the keys. Raise SchemaError for an empty key, or floats."""
    refuse_floats(piece, {}, [unit])
    place, texts = pd.factorize(piece.cells[unit], use_na_sentinel=False)
    empty = np.array([text in MISSING_TOKENS for text in texts], np.bool_)[place]
    if empty.any():
        row = piece.before + int(empty.argmax()) + 1
        raise SchemaError(
            f"{piece.where}, column {unit!r}, row {row}: no patient, so the row has no privacy unit. Fill the cell, or "
            "remove the row."
        )
    return place, [*texts]


def order_of_rows(data: Table | LargeTable, schema: Schema) -> Floats:
    """Return numbers by which a patient's rows ascend, (rows,): values of the order column, or ranks of its keys.

    Compare them only within a patient: the comparison of two numbers depends on their two rows alone. Raises UsageError
    for a table that is read in pieces.
    """
    if isinstance(data, LargeTable):
        raise UsageError(
            f"{data.where} is too large to be read at once, and `order` needs all rows of a patient together. Fit a "
            "part of the patients, or leave `order` out of the schema."
        )
    name = schema.order or ""
    return schema.columns[name].ranks(cells_of(data.cells, name, schema.columns[name]))


def codes_of(columns: Schema) -> list[int]:
    """Return the number of codes of each column, including those of missing values."""
    return [column.size + column.gaps for column in columns.columns.values()]


def coded(
    data: Table | LargeTable,
    encode: Callable[[Table], Codes],
    sizes: Sequence[int],
    folder: Path | None,
    done: Callable[[float], None] = lambda share: None,
    unit: str | None = None,
) -> Coded:
    """Return the codes of all rows, for columns with `sizes` codes each: in memory, or in an unnamed file in `folder`.

    The codes of a table on a cluster stay there, with the patients that the column `unit` names. `done` receives the
    share of a large table that was read. Raises MedsynthError if a large table's codes do not fit into `folder`, and
    the errors of `encode`.
    """
    if isinstance(data, Table):
        return encode(data)
    if isinstance(data, ClusterTable):
        return data.coded(encode, partial(keys_of, unit=unit) if unit else None, sizes, done)
    place = folder or Path(tempfile.gettempdir())
    needed = data.rows * sum(np.min_scalar_type(max(size - 1, 0)).itemsize for size in sizes)
    if needed > shutil.disk_usage(place).free:
        raise MedsynthError(
            f"The fit stores the codes of the rows on disk, and {place} has too little free space. Free some there."
        )
    found = StoredCodes(sizes, place)
    for piece in data.chunks():
        found.append(encode(piece))
        done((piece.before + piece.rows) / data.rows)
    return found


def vault_of(
    codes: Coded,
    names: tuple[str, ...],
    stay: Whole | None,
    releases: Releases,
    units: PrivacyUnits | None,
    noising: Noising | None = None,
) -> Vault:
    """Return the vault of all rows, or of the rows at the positions `stay`."""
    from ..privacy.vault import Vault

    if not isinstance(codes, np.ndarray):
        return Vault(list(codes.parts(names, stay)), names, releases, units, noising)
    return Vault(codes if stay is None else codes[stay], names, releases, units, noising)


def independent_rows(names: Sequence[str]) -> Message:
    """Return a warning that a patient's rows are drawn one by one. `names`: columns that look constant by their names.

    No measurement shows which columns stay the same over a patient's rows, so they are not read, but declared.
    """
    line = f"constant: [{', '.join(map(yaml_key, names))}]" if names else "constant: [COLUMN, COLUMN]"
    head = "A synthetic patient's rows are drawn one by one: one patient may be aged 34, 32 and 40."
    cure = f"Name the columns that stay the same in a schema, in the line {line}"
    return Message(
        f"{head} {cure}. Each row then repeats them. To follow patients over time, set `order` there to the column "
        "that sorts their rows.",
        f"{head} {cure}.",
        kind=WARNING,
    )
