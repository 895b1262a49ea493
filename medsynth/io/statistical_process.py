"""Read an SPSS, Stata or SAS file in a process of its own, and write its cells to standard output as an Arrow stream.

`medsynth.io.statistical` starts this file as a script. The C code of pyreadstat can crash or ask for any amount of
memory: here that ends this process alone. The script imports nothing of medsynth, and writes no word of the file to
standard error. Labels, notes and times of the file are not passed on.

Columns are called by their place: "0" with the numbers or texts, "0.tag" with the letters of Stata's and SAS's kinds
of missing values. The metadata of a column contain its name and its format.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

DAMAGED, LARGE, ENCODING = 3, 4, 5  # exit codes
READERS = {"sav": "read_sav", "dta": "read_dta", "sas7bdat": "read_sas7bdat", "xpt": "read_xport"}


def read(kind: str, path: str, encoding: str | None, most: int, *, rows: bool) -> pyarrow.Table:
    """Return the columns of the file, with its rows or without. Raise OverflowError for more than `most` cells."""
    import pyarrow
    import pyreadstat

    read_file = getattr(pyreadstat, READERS[kind])
    usual: dict[str, Any] = {"output_format": "dict", "disable_datetime_conversion": True, "encoding": encoding}
    if kind != "xpt":  # it has no user-missing values
        usual["user_missing"] = True
    _, facts = read_file(path, metadataonly=True, **usual)
    names, found = list(facts.column_names), {}
    if rows and len(set(names)) == len(names):
        limit = most // max(1, len(names))
        found, _ = read_file(path, row_limit=limit + 1, **usual)
        if max(map(len, found.values()), default=0) > limit:
            raise OverflowError
    arrays, fields = [], []
    for place, name in enumerate(names):
        words = facts.readstat_variable_types[name] == "string"
        of_file = {"name": name, "format": facts.original_variable_types[name] or ""}
        values = found.pop(name, [])
        cells = values if words else [None if isinstance(value, str) else value for value in values]
        arrays.append(pyarrow.array(cells, pyarrow.large_string() if words else pyarrow.float64()))
        fields.append(pyarrow.field(str(place), arrays[-1].type, metadata=of_file))
        if not words and any(isinstance(value, str) for value in values):
            tags = [value if isinstance(value, str) else None for value in values]
            arrays.append(pyarrow.array(tags, pyarrow.large_string()))
            fields.append(pyarrow.field(f"{place}.tag", arrays[-1].type))
    return pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))


def main(kind: str, path: str, encoding: str, most: str, memory: str, seconds: str, what: str) -> int:
    """Write the stream. Return an exit code that names what is wrong, and nothing else about the file."""
    with contextlib.suppress(ValueError, OSError):  # a system without this limit
        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would contain rows
    try:
        import pyarrow

        table = read(kind, path, encoding or None, int(most), rows=what == "rows")
        with pyarrow.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
            stream.write_table(table)
        sys.stdout.buffer.flush()
    except (MemoryError, OverflowError):
        return LARGE
    except UnicodeError:
        return ENCODING
    except Exception as error:  # a damaged file can cause any error in the parser
        text = str(error).lower()
        return ENCODING if "encoding" in text or "character" in text else LARGE if "memory" in text else DAMAGED
    return 0


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))
