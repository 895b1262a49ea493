"""SPSS, Stata and SAS files as dictionaries: value labels, user-missing values, measurement levels and formats.

Programs make labels from observed categories, so a steward must declare them public. Rows are not read, and the types,
widths, numbers of rows, notes and times of the file are not taken.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..errors import SchemaError
from ..io.statistical import FileVariable, variables
from ..io.table import is_number
from .entry import ENDS_ALONE, DescribedTable, Entry, Type, whole_scale

FORM = "SPSS, Stata or SAS file"
FORMATS: dict[str, tuple[Type, str]] = {
    "date": ("date", "%Y-%m-%d"), "datetime": ("datetime", "%Y-%m-%d %H:%M:%S"), "time": ("time", "%H:%M:%S"),
}  # fmt: skip


def statistical(
    path: Path, kind: str, encoding: str | None, catalogue: Path | None, *, labels_are_public: bool
) -> DescribedTable:
    """Return the table that the file describes. Raise SchemaError unless its labels are declared public.

    The `catalogue` of a SAS file has the labels of its formats.
    """
    if catalogue and kind not in ("sas7bdat", "xpt"):
        raise SchemaError(f"{catalogue} is a catalogue of SAS formats, but {path} is not a SAS file. Leave it out.")
    if not labels_are_public:
        raise SchemaError(
            f"{path} may have labels that a program made from its rows, such as every category that it found. If they "
            "come from a codebook, set `labels_are_public`. Otherwise import the codebook itself."
        )
    entries = tuple(_entry(variable) for variable in variables(path, kind, encoding, catalogue))
    named = f"{path.name}, {catalogue.name}" if catalogue else path.name
    return DescribedTable(name=path.stem, entries=entries, head={"public_labels": named})


def _entry(found: FileVariable) -> Entry:
    codes, lost = _missing(found)
    labelled = tuple(code for code, _ in found.values if code not in codes)
    usual = Entry(
        name=found.name, line=0, type="", label=found.label, labels=dict(found.values), missing=codes,
        open=(f"missing: not taken: {', '.join(lost)}. List the codes",) if lost else (),
    )  # fmt: skip
    if found.form in FORMATS:
        kind, form = FORMATS[found.form]
        return replace(usual, type=kind, format=form)
    if labelled and found.measure != "scale":
        levels = whole_scale(labelled)
        why = "the levels are all codes that have a label" if levels == labelled else ENDS_ALONE
        ordered = found.measure == "ordinal" or levels != labelled
        return replace(usual, type="levels", levels=levels, ordered=ordered, guesses=(why,))
    if found.form == "text":
        return replace(usual, type="string")
    guesses = () if found.decimals is None else ("decimals are those of the display format",)
    return replace(usual, type="integer" if found.decimals == 0 else "number", decimals=found.decimals, guesses=guesses)


def _missing(found: FileVariable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the codes of user-missing values, and the ranges of which only labelled codes could be taken.

    Labelled letters, such as .a, are codes of missing values in Stata and SAS.
    """
    codes = [code for code, _ in found.values if found.form != "text" and not is_number(code) and code[:1] == "."]
    lost = list[str]()
    for low, high in found.missing:
        if low == high:
            codes.append(low)
            continue
        codes += [code for code, _ in found.values if is_number(code) and _within(code, low, high)]
        lost.append(f"{low} to {high}")
    return tuple(dict.fromkeys(codes)), tuple(lost)


def _within(code: str, low: str, high: str) -> bool:
    return float(low) <= float(code) <= float(high)
