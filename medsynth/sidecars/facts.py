"""The facts that every description states: tables, columns, claim and origin. No private row is read.

They come from the model file, from the request that drew the synthetic rows, and from the review file. The summaries
of columns come from a second draw by the model itself, so that no file of rows is ever parsed here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import count, islice
from pathlib import Path
from typing import Literal

import numpy as np

from ..arrays import Codes
from ..artifact import Model, claim, leans_on
from ..errors import TableError, UsageError
from ..io.formats import FileForm, TableFile, name_of, named
from ..report.data.verdict import Review
from ..report.sections.documentation import schema_learned
from ..sampling.draw import MARK, MARKED
from ..sampling.pipeline import REPLICATE, drawn_parts, numbers_in_text
from ..sampling.provenance import Provenance, beside, drawn_by, load
from ..schema import Schema
from ..schema.columns.column import Column, level_text
from ..schema.columns.date import Date
from ..schema.columns.dtypes import holds_moments
from ..schema.columns.number import Quantity, WrittenNumber
from ..schema.columns.parts import to_dict, whole_of

ValueKind = Literal["integer", "number", "boolean", "date", "datetime", "string"]
WEEKS = ("%G", "%V", "%U", "%W")  # codes of weeks, with which no usual reader makes a date
MEDIA_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
QUARTERS = (0.25, 0.5, 0.75)
MOST_SHARES = 20  # levels with a share of their own
ORIGINS = {False: "declared", True: "learned from noisy counts"}


@dataclass(frozen=True, kw_only=True)
class ColumnSummary:
    """The share of missing values, and either three quartiles as texts or the shares of levels among all rows."""

    missing: float
    quartiles: tuple[str, ...] = ()
    shares: tuple[tuple[str, float], ...] = ()

    @property
    def sentence(self) -> str:
        """Return the summary in words, with its source."""
        words = [f"{self.missing:.1%} missing"]
        words += ["quartiles " + ", ".join(self.quartiles)] if self.quartiles else []
        words += ["shares " + ", ".join(f"{level} {share:.1%}" for level, share in self.shares)] if self.shares else []
        return f"in the synthetic rows: {', '.join(words)}"


@dataclass(frozen=True, kw_only=True)
class SharedColumn:
    """One column as its reader needs it. Texts are as in the table's cells.

    `low` and `high` are the bounds, declared or learned (`origin`); never the extremes of rows. `refers_to` is the
    table and the column whose keys it contains. `about` has further facts in words.
    """

    name: str
    kind: str
    values: ValueKind
    label: str = ""
    value_labels: Mapping[str, str] = field(default_factory=dict)
    role: str = ""
    unit: str = ""
    low: str = ""
    high: str = ""
    origin: str = ""
    levels: tuple[str, ...] = ()
    ordered: bool = False
    missing: tuple[str, ...] = ()
    decimals: int | None = None
    format: str = ""
    is_key: bool = False
    refers_to: tuple[str, str] | None = None
    about: tuple[str, ...] = ()
    summary: ColumnSummary | None = None

    @property
    def has_words(self) -> bool:
        """Whether a code of missing values is a word."""
        return any(word and not is_number(word) for word in self.missing)

    @property
    def sentence(self) -> str:
        """Return the column in words, and that it is synthetic."""
        return f"SYNTHETIC. {self.in_words}."

    @property
    def in_words(self) -> str:
        """Return the column in words."""
        missing = [f"{word or 'an empty cell'}{self._meaning(word)}" for word in self.missing]
        words = [
            self.label, f"{self.kind}{f' in {self.unit}' if self.unit else ''}",
            f"bounds {self.low} to {self.high} ({self.origin})" if self.low else "",
            f"levels{' in this order' if self.ordered else ''} "
            f"{', '.join(f'{level}{self._meaning(level)}' for level in self.levels)} ({self.origin})"
            if self.levels else "",
            f"written as {self.format}" if self.format else "",
            f"{self.decimals} decimals" if self.decimals else "",
            f"missing values: {', '.join(missing)}" if missing else "",
            *self.about,
            self.summary.sentence if self.summary else "",
        ]  # fmt: skip
        return "; ".join(word for word in words if word)

    def _meaning(self, code: str) -> str:
        return f" ({self.value_labels[code]})" if code in self.value_labels else ""


@dataclass(frozen=True, kw_only=True)
class SharedTable:
    """A file of synthetic rows, and what it contains. `key` is the column whose keys are unique, if there is one.

    form: "csv", "parquet", "sav", "dta" or "xpt". `text`: how a text file is written.
    """

    name: str
    path: Path
    rows: int
    columns: tuple[SharedColumn, ...]
    sha256: str
    size: int
    form: str
    key: str | None = None
    text: FileForm = FileForm()

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def media_type(self) -> str:
        """The media type of the unpacked file."""
        if self.form == "csv" and self.text.delimiter == "\t":
            return "text/tab-separated-values"
        return MEDIA_TYPES.get(self.form, "application/octet-stream")  # statistical files have no registered type


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that the descriptions state. `made` is the day on which they are written."""

    title: str
    tables: tuple[SharedTable, ...]
    method: str
    epsilon: float | None
    delta: float
    unit: str
    claim: str
    leans: str
    drawn: str
    medsynth: str
    review: Review
    made: date
    provenance: Path

    @property
    def statement(self) -> str:
        """Return what every description says first."""
        drew = f"SYNTHETIC: a model fitted by medsynth (method {self.method}) drew these rows."
        return " ".join(part for part in (drew, self.claim, self.leans, self.drawn) if part)

    @property
    def for_croissant(self) -> bool:
        """Whether readers of Croissant can read the files: they know text with commas or tabs in UTF-8 only."""
        texts = [table.text for table in self.tables if table.form == "csv"]
        return all(t.delimiter in ",\t" and t.decimal == "." and t.encoding.startswith("utf-8") for t in texts)

    @property
    def used_for(self) -> str:
        """Return the purpose and the recipient, as the review file states them; "" without either."""
        review = self.review
        purpose = review.purpose or ", ".join(review.uses)
        parts = [("Purpose", purpose), ("Recipient", review.recipient), ("Access", review.access)]
        return " ".join(f"{name}: {text.rstrip('.')}." for name, text in parts if text)

    @property
    def description(self) -> str:
        """The statement, and what the rows are used for."""
        return f"{self.statement} {self.used_for}".strip()


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """Return a different identifier of lower-case letters, digits and _ for each name: readers refuse blanks in them.

    >>> identifiers(["Age (years)", "age_years", "größe"])
    {'Age (years)': 'age_years', 'age_years': 'age_years_2', 'größe': 'gr_e'}
    """
    found = dict[str, str]()
    for name in names:
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "name"
        others = (f"{plain}_{number}" for number in count(2))
        found[name] = next(one for one in (plain, *islice(others, len(found))) if one not in found.values())
    return found


def gather(model: Model, model_path: Path, synthetic: Path, review: Review) -> Facts:
    """Return the facts about the synthetic table in the file `synthetic`, or the tables in that folder.

    Raises as `proven` does, and UsageError for a wrong review.
    """
    found = proven(model, model_path, synthetic)
    tables = _shared(model, synthetic, found, review)
    known = {column.name for table in tables for column in table.columns}
    if unknown := [name for name in review.roles if name not in known]:
        raise UsageError(f"review: `roles` names columns that the synthetic table does not have: {', '.join(unknown)}.")
    return Facts(
        title=f"{review.table or (tables[0].name if model.tables is None else model.name)}, synthetic", tables=tables,
        method=f"{model.method}, preset {model.preset}" if model.preset else model.method, epsilon=model.epsilon,
        delta=model.ledger.delta, unit=model.ledger.protects, claim=claim(model), leans=leans_on(model),
        drawn=_drawn(found), medsynth=model.versions.get("medsynth", found.medsynth), review=review, made=date.today(),
        provenance=beside(synthetic),
    )  # fmt: skip


def proven(model: Model, model_path: Path, synthetic: Path) -> Provenance:
    """Return the request that drew the rows in the file or folder `synthetic`.

    Raises UsageError unless the model in `model_path` provably drew exactly these rows: a description never summarises
    rows of another origin. Raises TableError if there is no such table.
    """
    if not synthetic.exists():
        raise TableError(f"There is no synthetic table {synthetic}. Draw it first, or name another as `synthetic`.")
    if synthetic.is_dir() != (model.tables is not None):
        raise UsageError(f"{synthetic}: a model of several tables needs a folder, and one of one table needs a file.")
    found = load(synthetic)
    if found is None or not drawn_by(model, synthetic):
        raise UsageError(
            f"Nothing proves that {model_path} drew {synthetic}, so it is not described. Draw the rows again, and "
            "change neither the table nor its provenance file."
        )
    return found


def _drawn(found: Provenance) -> str:
    """Return how the rows were selected, if they were."""
    words = [f"Only rows with {' and '.join(found.where)}."] if found.where else []
    words += [f"Only patients with a row with {' and '.join(found.where_any)}."] if found.where_any else []
    words += ["Each class of the target is equally frequent."] if found.balance else []
    words += [f"The rows of {found.replicates} replicates follow one another."
              if found.replicate is None else f"Replicate {found.replicate} of {found.replicates}."
             ] if found.replicates else []  # fmt: skip
    return " ".join(words)


def _shared(model: Model, place: Path, found: Provenance, review: Review) -> tuple[SharedTable, ...]:
    """Return the tables of the file or folder `place`, each with the columns of its file."""
    parts = [codes for _, codes in drawn_parts(model, found.draw)]
    shared = list[SharedTable]()
    numbered = found.replicates is not None and found.replicate is None
    first = (SharedColumn(name=REPLICATE, kind="count", values="integer", about=("number of the replicate",)),)
    several = model.tables is not None
    for table, schema in model.written.items():
        path = named(place, table) if several else place
        assert path is not None  # the proof read it
        codes = np.concatenate([part[table] for part in parts])
        own = _columns(model, _stored(schema, path), codes, review, model.links(table))
        # A learned schema has no name of its own.
        name = table if several else name_of(path).removesuffix(".synthetic")
        key = schema.unit if several and not shared else None  # the first of several tables has one row per patient
        made = _table(path, name, len(codes), (*first * numbered, *own), found.mark, key)
        text = model.form.of(path)
        if made.form == "csv" and text.decimal == ",":
            numbers = numbers_in_text(schema)
            columns = tuple(_with_commas(one) if one.name in numbers else one for one in made.columns)
            made = replace(made, columns=columns)
        shared.append(replace(made, text=text) if made.form == "csv" else made)
    return tuple(shared)


def _with_commas(column: SharedColumn) -> SharedColumn:
    """Return a column of numbers whose cells have decimal commas. Bounds stay numbers."""
    labels = {code.replace(".", ","): label for code, label in column.value_labels.items()}
    return replace(column, levels=tuple(text.replace(".", ",") for text in column.levels), value_labels=labels)


def _form(path: Path) -> str:
    """Return the form of a table's file, as in SharedTable."""
    return {"text": "csv", "workbook": "csv"}.get(kind := TableFile.of(path).kind, kind)


def _stored(schema: Schema, path: Path) -> Schema:
    """Return the schema of a table as its file stores it: dates of a file with types are dates, not texts."""
    if _form(path) == "csv":
        return schema
    found = dict(schema.columns)
    for own in schema.header.values():
        for name, column in own.items():
            texts = whole_of(own) or (column.dtype is not None and not holds_moments(column.dtype))
            if isinstance(column, Date) and not texts and not column.clock:
                form = "%Y-%m-%d" if column.days else "%Y-%m-%d %H:%M:%S"
                found[name] = column.model_copy(update={"written_as": form})
    return schema.model_copy(update={"columns": found})


def _table(
    path: Path, name: str, rows: int, columns: tuple[SharedColumn, ...], marked: bool, key: str | None
) -> SharedTable:
    mark = SharedColumn(name=MARK, kind="mark", values="string", levels=(MARKED,), origin="constant")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if _form(path) != "csv":  # such a column has one type, so words among numbers make words of all
        columns = tuple(replace(one, values="string") if one.has_words else one for one in columns)
    return SharedTable(
        name=name, path=path, rows=rows, columns=(*columns, *(mark,) * marked), size=path.stat().st_size,
        sha256=digest, form=_form(path), key=key,
    )  # fmt: skip


def _columns(
    model: Model, schema: Schema, codes: Codes, review: Review, links: Mapping[str, tuple[str, str]]
) -> tuple[SharedColumn, ...]:  # fmt: skip
    """Return the columns of a table in the order of its file, each with a summary of its synthetic codes."""
    shared = list[SharedColumn]()
    for file_column, own in schema.header.items():
        found = list[SharedColumn]()
        for name, column in own.items():
            if not column.written:
                continue
            about = ["key of the patient"] if name == schema.unit else []
            about += ["orders the rows of a patient"] if name == schema.order else []
            role = review.roles.get(name, "target" if name == schema.target else "")
            of_it = codes[:, schema.names.index(name)]
            found.append(_column(name, column, role, links.get(name), about, of_it, schema_learned(model.ledger)))
        shared += [_of_shared_cell(file_column, schema, found)] if whole_of(own) else found
    return tuple(shared)


def _of_shared_cell(name: str, schema: Schema, parts: list[SharedColumn]) -> SharedColumn:
    """Return a column of the file whose cells several columns of the schema share. Its notes describe each part."""
    first = parts[0]
    declared = to_dict(schema.header[name])[name]
    form = first.format if first.name == name else str(declared.get("text", ""))
    roles = ", ".join(f"{part.name}: {part.role}" for part in parts if part.role)
    return SharedColumn(
        name=name, kind=str(declared["kind"]), values="string", label=str(declared.get("label", "")), role=roles,
        origin=first.origin, missing=first.missing, format=form,
        about=tuple(f"{part.name}: {part.in_words}" for part in parts),
    )  # fmt: skip


def _column(
    name: str, column: Column, role: str, link: tuple[str, str] | None, about: list[str], codes: Codes, learned: bool
) -> SharedColumn:
    bounded = isinstance(column, Quantity)
    first, last = (unit - column.units[0] for unit in column.number_units) if bounded else (0, 0)
    limits = [*column.below, *column.above] if isinstance(column, WrittenNumber) else []
    whole = getattr(column, "whole_from", None)
    about += [f"refers to {link[1]} in {link[0]}"] if link else []
    about += [f"bounds and quartiles in {column.unit}"] if isinstance(column, Date) and column.after else []
    about += [f"limits of the assay, at the ends of the scale: {', '.join(limits)}"] if limits else []
    about += [f"whole numbers from {whole:g} on"] if whole is not None else []
    return SharedColumn(
        name=name,
        kind=column.kind,
        values=_values(column),
        label=column.label or "",
        value_labels=_as_written(column),
        role=role,
        unit=getattr(column, "unit", None) or "",
        low=column.text(first) if bounded else "",
        high=column.text(last) if bounded else "",
        origin=ORIGINS[learned] if column.modelled else "",
        levels=tuple(map(column.text, range(column.size))) if column.categorical else (),
        ordered=column.ordered and column.categorical,
        missing=column.gap_words,
        decimals=column.places if column.kind == "continuous" else None,
        format=", ".join(column.examples) if isinstance(column, Quantity) else "",
        is_key=not column.modelled,
        refers_to=link,
        about=tuple(about),
        summary=summary(column, codes),
    )


def summary(column: Column, codes: Codes) -> ColumnSummary:
    """Return the summary of the synthetic `codes`, (rows,), of a column. Keys have only a share of missing values.

    Quartiles are values of the column. Levels after the most frequent MOST_SHARES are added up.
    """
    gone = codes >= column.size
    share = float(np.mean(gone)) if len(codes) else 0.0
    known = codes[~gone]
    if not column.modelled or not len(known):
        return ColumnSummary(missing=share)
    if not column.categorical:
        found = np.quantile(known, QUARTERS, method="inverted_cdf")
        return ColumnSummary(missing=share, quartiles=tuple(column.text(int(code)) for code in found))
    counts = np.bincount(known, minlength=column.size) / len(codes)
    first = np.argsort(-counts, kind="stable")[:MOST_SHARES]
    shares = [(column.text(int(code)), float(counts[code])) for code in sorted(first)]
    rest = float(counts.sum() - counts[first].sum())
    others = [("all other levels", rest)] if column.size > MOST_SHARES else []
    return ColumnSummary(missing=share, shares=(*shares, *others))


def _as_written(column: Column) -> dict[str, str]:
    """Return the labels of values by the text of their cells."""
    cells = {level_text(level): column.text(code) for code, level in enumerate(column.levels)}
    return {cells.get(code, code): label for code, label in column.value_labels.items()}


def _values(column: Column) -> ValueKind:
    """Return the type of the column's cells for usual readers; "string" if no type reads all of them."""
    if isinstance(column, Date):
        usual = not any(code in column.format for code in WEEKS)
        return "string" if not usual else "date" if column.days else "datetime"
    if isinstance(column, WrittenNumber) and (column.examples or column.limits):
        return "string"
    if isinstance(column, Quantity):
        return "integer" if column.text(0) == str(column.units[0]) and column.places == 0 else "number"
    if column.categorical and all(isinstance(level, bool) for level in column.levels):
        return "boolean"
    if not column.categorical or not all(type(level) is int for level in column.levels):
        return "string"
    return "integer" if column.text(0) == str(column.levels[0]) else "number"  # 0.0 in a column of floats


def is_number(word: str) -> bool:
    """Return whether usual readers read a word as a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True
