"""Lines of a REDCap data dictionary."""

import csv
import io
from pathlib import Path

FILES = Path(__file__).parents[1] / "dictionaries" / "files"
HEADER = (FILES / "redcap.csv").read_text().splitlines()[0]


def field(
    name: str, kind: str = "text", of: str = "", check: str = "", low: str = "", high: str = "", logic: str = ""
) -> str:
    """A line of a data dictionary: `of` are its choices or its calculation, `check` its validation."""
    text = io.StringIO()
    csv.writer(text).writerow([name, "form", "", kind, name, of, "", check, low, high, "", logic, "y", *[""] * 5])
    return text.getvalue()
