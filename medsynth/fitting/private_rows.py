"""Private rows as patients and as codes: in memory or, of a table that is larger, on disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import MedsynthError, SchemaError, UsageError
from ..io.table import MISSING_TOKENS, LargeTable, Table
from ..privacy.contribution import PrivacyUnits
from ..privacy.queries.rows import Codes
from ..privacy.queries.stored_rows import StoredCodes
from ..privacy.release import Releases
from ..schema import Schema
from .cluster import ClusterCodes, ClusterTable

if TYPE_CHECKING:
    from ..privacy.queries.noising import Noising
    from ..privacy.vault import Vault

Coded = Codes | StoredCodes | ClusterCodes


def patients(data: Table | LargeTable, unit: str) -> NDArray[np.int64]:
    """The patient of each row, (rows,), numbered by their first rows. Raises SchemaError for a row without one."""
    numbers, found = dict[str | bytes, int](), list[NDArray[np.int64]]()
    pieces: Iterable[tuple[NDArray[np.int64], Sequence[str | bytes]]]
    pieces = data.people if isinstance(data, ClusterTable) else (keys_of(piece, unit) for piece in data.chunks())
    for place, keys in pieces:
        found.append(np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)[place])
    return np.concatenate(found)


def keys_of(piece: Table, unit: str) -> tuple[NDArray[np.int64], list[str]]:
    """The place of each row's patient among the keys, (rows,), and these. Raises SchemaError for a row without one."""
    place, texts = pd.factorize(piece.cells[unit], use_na_sentinel=False)
    empty = np.array([text in MISSING_TOKENS for text in texts], np.bool_)[place]
    if empty.any():
        row = piece.before + int(empty.argmax()) + 1
        raise SchemaError(
            f"{piece.where}, column {unit!r}, row {row}: no patient, so that the row has no privacy unit. Fill the "
            "cell or take the row out."
        )
    return place, [*texts]


def order_of_rows(data: Table | LargeTable, schema: Schema) -> NDArray[np.float64]:
    """Return numbers by which a patient's rows ascend, (rows,): values of the column of order, or ranks of its keys.

    They are for comparisons within a patient alone: only the comparison of two of them depends on these two rows alone.
    Raises UsageError for a table that is read in pieces.
    """
    if isinstance(data, LargeTable):
        raise UsageError(
            f"{data.where} is larger than what is read at once, and `order` needs all rows of a patient. Fit a "
            "part of the patients, or leave `order` out of the schema."
        )
    name = schema.order or ""
    return schema.columns[name].ranks(data.cells[name])


def codes_of(columns: Schema) -> list[int]:
    """How many codes each column has, those of missing values included."""
    return [column.size + column.gaps for column in columns.columns.values()]


def coded(
    data: Table | LargeTable,
    encode: Callable[[Table], Codes],
    sizes: Sequence[int],
    folder: Path | None,
    done: Callable[[float], None] = lambda share: None,
    unit: str | None = None,
) -> Coded:
    """The codes of all rows, of columns with so many codes each: in memory, or in a file of no name in `folder`.

    Those of a table on a cluster stay there, with the patients that the column `unit` names. `done` receives the share
    of a large table that was read. Raises MedsynthError if a large table's codes have no room in `folder`, and whatever
    `encode` does.
    """
    if isinstance(data, Table):
        return encode(data)
    if isinstance(data, ClusterTable):
        return data.coded(encode, partial(keys_of, unit=unit) if unit else None, sizes, done)
    place = folder or Path(tempfile.gettempdir())
    needed = data.rows * sum(np.min_scalar_type(max(size - 1, 0)).itemsize for size in sizes)
    if needed > shutil.disk_usage(place).free:
        raise MedsynthError(
            f"The rows' codes, which lie on disk while the fit runs, take more room than {place} has. Make room there."
        )
    found = StoredCodes(sizes, place)
    for piece in data.chunks():
        found.append(encode(piece))
        done((piece.before + piece.rows) / data.rows)
    return found


def vault_of(
    codes: Coded,
    names: tuple[str, ...],
    stay: NDArray[np.int64] | None,
    releases: Releases,
    units: PrivacyUnits | None,
    noising: Noising | None = None,
) -> Vault:
    """Return the vault of all rows or, by their positions, of those that `stay`."""
    from ..privacy.vault import Vault

    if not isinstance(codes, np.ndarray):
        return Vault(list(codes.parts(names, stay)), names, releases, units, noising)
    return Vault(codes if stay is None else codes[stay], names, releases, units, noising)
