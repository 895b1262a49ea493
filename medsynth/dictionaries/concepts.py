"""CONCEPT.csv of the OHDSI vocabularies: the codes of concept ids. The steward has the file, and none comes with
medsynth.
"""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import TableError
from ..io.formats import check_regular
from ..io.text import delimiter_of

NEEDED = ("concept_id", "concept_name", "vocabulary_id", "concept_code")
_CURE = "Pass the file CONCEPT.csv as Athena exports it"


@dataclass(frozen=True, kw_only=True)
class Concept:
    """A concept: its name, its vocabulary, and its code there."""

    name: str
    vocabulary: str
    code: str


def read_concepts(path: Path, wanted: Collection[str]) -> dict[str, Concept]:
    """Return the `wanted` concepts by id. The file may have millions of lines: only these are kept.

    Raises TableError, with the line, for a file that is not such a table.
    """
    check_regular(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = delimiter_of(first := file.readline())
            header = [name.strip().strip('"').lower() for name in first.split(delimiter)]
            if lacking := [name for name in NEEDED if name not in header]:
                raise TableError(f"{path} has no column {lacking[0]!r}. {_CURE}.")
            # Athena separates by tabs and quotes nothing, so a quote is a part of a name.
            quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
            identifier, *rest = (header.index(name) for name in NEEDED)
            found = dict[str, Concept]()
            for line, cells in enumerate(csv.reader(file, delimiter=delimiter, quoting=quoting), 2):
                if len(cells) < len(header):
                    raise TableError(f"{path}, line {line}: fewer cells than the header has. {_CURE}.")
                if cells[identifier] in wanted:
                    name, vocabulary, code = (cells[place] for place in rest)
                    found[cells[identifier]] = Concept(name=name, vocabulary=vocabulary, code=code)
            return found
    except OSError as error:
        raise TableError(f"{path} cannot be read ({error.strerror}). Check the name and the folder.") from None
    except UnicodeError:
        raise TableError(f"{path} is not valid UTF-8. {_CURE}.") from None
    except csv.Error as error:
        raise TableError(f"{path} is not a table in text ({error}). {_CURE}.") from None
