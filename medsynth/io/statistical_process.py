"""Read an SPSS, Stata or SAS file in a process of its own, and write its cells to standard output as Arrow streams.

`medsynth.io.statistical` starts this file as a script. The C code of pyreadstat can crash or ask for any amount of
memory: here that ends this process alone. The script imports nothing of medsynth. The notes and times of the file are
not passed on, and its labels only if they are asked for.

The first stream has the columns without rows, and before it the number of its bytes. The second stream has the rows;
for a `header` or `labels` there is none.
Columns are called by their place: "0" for the numbers or texts of the first, "0.tag" for the letters of its missing
values in Stata and SAS. The metadata of "0" contain the column's name and format, and its `labels` as JSON.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import resource
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

# Encodings with states, with escapes, or that decode the text as a whole: one cell changes others.
WITH_STATES = ("hz", "iso2022", "utf-7", "punycode", "idna", "unicode-escape", "raw-unicode-escape")
BYTES = "ISO-8859-1"  # the encoding in which each byte is a character of its own
DAMAGED, LARGE, ENCODING = 3, 4, 5  # exit codes
LENGTH = 8  # bytes of the number before the first stream
READERS = {"sav": "read_sav", "dta": "read_dta", "sas7bdat": "read_sas7bdat", "xpt": "read_xport"}


def decoder_of(name: str) -> Callable[[str], str]:
    """Return what turns the bytes of a cell, one character each, into the text of an encoding; a half one is dropped.

    pyreadstat's own decoder keeps a state between cells, so that a cell of Hebrew would end in the next one. Raises
    UnicodeError for an encoding that Python does not have, and for one in which a cell changes others.
    """
    try:
        found = codecs.lookup(re.sub("^windows-|^ms-?", "cp", name.lower()))
    except LookupError:
        raise UnicodeError("no such encoding") from None
    if found.name.replace("_", "-").startswith(WITH_STATES):
        raise UnicodeError("an encoding with states")
    return cache(lambda text: codecs.getincrementaldecoder(found.name)().decode(text.encode("latin-1")))


def encoding_of(kind: str, path: str) -> str:
    """Return the encoding that a file states, or the usual one: before release 118, Stata wrote that of Windows."""
    import pyreadstat

    stated = getattr(pyreadstat, READERS[kind])(path, metadataonly=True)[1].file_encoding
    if stated or kind != "dta":
        return stated or "utf-8"
    with open(path, "rb") as file:
        start = file.read(40)
    release = re.search(b"<release>([0-9]+)", start)
    return "utf-8" if release and int(release[1]) >= 118 else "cp1252"


def read(
    kind: str, path: str, encoding: str, rows: int | None, *, labels: bool = False, catalogue: str = ""
) -> pyarrow.Table:
    """Return the columns of the file, with its rows unless `rows` is None. Raise OverflowError for more than `rows`.

    `encoding`: of its texts. The `catalogue` of a SAS file has the labels of its formats.
    """
    import pyarrow
    import pyreadstat

    usual: dict[str, Any] = {"output_format": "dict", "disable_datetime_conversion": True, "encoding": BYTES}
    usual |= {} if kind == "xpt" else {"user_missing": True}  # .xpt has none
    usual |= {"metadataonly": True} if rows is None else {"row_limit": rows + 1}
    decoded = decoder_of(encoding)
    found, facts = getattr(pyreadstat, READERS[kind])(path, **usual)
    if rows is not None and max(map(len, found.values()), default=0) > rows:
        raise OverflowError
    formats = pyreadstat.read_sas7bcat(catalogue, encoding=BYTES)[1].value_labels if catalogue else {}
    arrays, fields = [], []
    for place, name in enumerate(facts.column_names):
        words = facts.readstat_variable_types[name] == "string"
        values = found.pop(name, [])
        tags = [] if words else [value if isinstance(value, str) else None for value in values]
        if any(tags):
            values = [None if tag else value for tag, value in zip(tags, values, strict=True)]
            arrays.append(pyarrow.array(tags, pyarrow.large_string()))
            fields.append(pyarrow.field(f"{place}.tag", arrays[-1].type))
        if words:
            values = [decoded(value) if isinstance(value, str) else value for value in values]
        arrays.append(pyarrow.array(values, pyarrow.large_string() if words else pyarrow.float64()))
        about = {"name": decoded(name), "format": facts.original_variable_types[name] or ""}
        about |= {"labels": labels_of(facts, name, formats, decoded)} if labels else {}
        fields.append(pyarrow.field(str(place), arrays[-1].type, metadata=about))
    return pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(fields))


def labels_of(facts: Any, name: str, formats: dict[str, Any], decoded: Callable[[str], str]) -> str:
    """Return what the file, and the labels of `formats`, declare of a column, without its format, as JSON."""
    values = facts.variable_value_labels.get(name) or formats.get(facts.original_variable_types[name]) or {}

    def text(value: Any) -> Any:
        return decoded(value) if isinstance(value, str) else value

    return json.dumps({
        "label": text(facts.column_names_to_labels.get(name) or ""),
        "values": [[text(code), text(label)] for code, label in values.items()],
        "missing": [[text(one["lo"]), text(one["hi"])] for one in facts.missing_ranges.get(name, ())],
        "measure": facts.variable_measure.get(name) or "",
    })  # fmt: skip


def stream(table: pyarrow.Table) -> bytes:
    """Return a table as an Arrow stream."""
    import pyarrow

    out = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def main(what: str, kind: str, path: str, encoding: str, catalogue: str, cells: str, memory: str, seconds: str) -> int:
    """Write the streams. Return an exit code that says what is wrong, in none but these words."""
    with contextlib.suppress(ValueError, OSError):  # a system without this limit
        resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would contain rows
    try:
        encoding = encoding or encoding_of(kind, path)
        head = read(kind, path, encoding, None, labels=what == "labels", catalogue=catalogue)
        content = stream(head)
        sys.stdout.buffer.write(len(content).to_bytes(LENGTH, "little") + content)
        sys.stdout.buffer.flush()
        if what == "rows":
            sys.stdout.buffer.write(stream(read(kind, path, encoding, int(cells) // max(1, head.num_columns))))
            sys.stdout.buffer.flush()
    except (MemoryError, OverflowError):
        return LARGE
    except UnicodeError:
        return ENCODING
    except Exception as error:  # a damaged file can cause any error in the parser
        text = str(error).lower()
        return LARGE if "memory" in text else ENCODING if "encoding" in text or "character" in text else DAMAGED
    return 0


if __name__ == "__main__":
    os._exit(main(*sys.argv[1:]))
