"""Neighbours at the level of the file: one odd cell in one row, and what else it changes before any measurement.

A simulated table of the schema is written to a file twice, the second time with an odd cell in its last row. Both files
are opened as in a fit, with the schema and without. Everything except that row must be the same: the other rows' cells
and codes, the columns' kinds and dtypes, every notice. A refused file is counted separately.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import MedsynthError
from ..fitting.private_table import open_table
from ..fitting.settings import TableSettings
from ..rng import numpy_stream
from ..schema import Schema
from ..schema.codec import csv_cells, encode
from .statistics import Step, silent

ROWS = 40
MODES = ("schema", "none")  # Whether the schema is declared.
ODD_CELLS: dict[str, bytes] = {
    "missing": b"",
    "a word for missing": b"NA",
    "a new level": b"zq9",
    "a truth value": b"True",
    "a decimal": b"0.5",
    "many decimals": b"0.123456789",
    "a huge number": b"1e300",
    "beyond any float": b"9" * 400,
    "not a number": b"nan",
    "a date": b"1969-12-31",
    "blanks": b"  1 ",
    "a byte outside UTF-8": b"\xff",
    "a quoted line break": b'"1\n2"',
    "a long text": b"x" * 5_000,
}
Result = Literal["identical", "refused", "differs"]
RESULTS: tuple[Result, ...] = ("identical", "refused", "differs")


@dataclass(frozen=True, kw_only=True)
class InputFinding:
    """What one odd cell in one column changed outside its own row, named in `changed`."""

    column: str
    cell: str
    mode: str
    result: Result
    changed: tuple[str, ...] = ()


def audit_inputs(schema: Schema, progress: Step = silent) -> list[InputFinding]:
    """Try every odd cell in every column, with the schema declared and without."""
    tried = [(name, cell, mode) for name in schema.header for cell in ODD_CELLS for mode in MODES]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.csv"
        usual = simulated(schema)
        before = {mode: _opened(path, usual, schema, mode) for mode in MODES}
        for k, (name, cell, mode) in enumerate(tried):
            after = _opened(path, [*usual[:-1], {**usual[-1], name: ODD_CELLS[cell]}], schema, mode)
            changed = tuple(key for key, text in before[mode].items() if after.get(key) != text)
            result: Result = "refused" if "refused" in after else "differs" if changed else "identical"
            changed = changed if result == "differs" else ()
            found.append(InputFinding(column=name, cell=cell, mode=mode, result=result, changed=changed))
            progress(k + 1, len(tried))
    return found


def simulated(schema: Schema) -> list[dict[str, bytes]]:
    """Return rows of a simulated table as cells of a file. Each column has uniform codes."""
    stream = numpy_stream(0, "audit of inputs")
    codes = np.column_stack([stream.integers(0, column.size, ROWS) for column in schema.columns.values()])
    cells = csv_cells(codes.astype(np.int32), schema)
    return [{str(name): str(cell).encode() for name, cell in row.items()} for row in cells.to_dict("records")]


def _opened(path: Path, rows: list[dict[str, bytes]], schema: Schema, mode: str) -> dict[str, str]:
    """Return everything that a file yields before a measurement, as text by name, without its last row."""
    lines = [",".join(rows[0]).encode(), *(b",".join(row.values()) for row in rows)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    notices: list[str] = []
    settings = TableSettings(schema=schema if mode == "schema" else None, target=schema.target)
    try:
        private = open_table(path, settings, notices.append)
        codes = encode(next(private.data.chunks()), private.declared.core)
    except MedsynthError:
        return {"refused": ""}
    found: dict[str, Any] = {f.name: getattr(part, f.name) for part in (private, private.data) for f in fields(part)}
    found |= {
        "data": None,
        "categories": None,
        "codes": None if codes is None else codes[: ROWS - 1].tolist(),
        "notices": notices,
    }
    found["cells"] = found["cells"][: ROWS - 1].to_dict("list")
    return {name: repr(value) for name, value in found.items()}
