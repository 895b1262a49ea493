"""What a section may use: the inputs of the report, and the records of the sections computed before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pandas as pd

from ...artifact import Model
from ...rng import Stream, numpy_stream
from ...schema import Schema
from .over_time import Sequences
from .protocol import TaskPredictions
from .tables import Tables
from .verdict import Record, Review, Thresholds

Kind = TypeVar("Kind", bound=Record)


class TableFacts(Record):
    """One table. Rows a patient are means; shares are of its rows, or of patients where it says so.

    `without`: patients without a row. `orphans`: rows whose key no patient has, and keys of rows of other tables that
    point to no row, or to another patient's row. `too_early`: rows before the row of another table that they belong to.
    `beyond`: rows beyond the most that a patient may have.
    """

    table: str
    page: str | None
    rows: int
    rows_a_patient: float
    real_rows_a_patient: float | None
    without: float
    real_without: float | None
    orphans: int
    too_early: int
    beyond: int


class LinkedFacts(Record):
    """Several tables under one claim for one patient in all of them. `broken`: orphans, early rows and rows beyond."""

    patients: int
    tables: list[TableFacts]
    broken: int

    @property
    def of_real_rows(self) -> bool:
        """Whether a figure was computed from real rows."""
        figures = [(table.real_rows_a_patient, table.real_without) for table in self.tables]
        return any(figure is not None for pair in figures for figure in pair)


@dataclass(frozen=True, kw_only=True)
class Context:
    """The inputs of one report. `rng` is the public stream of the section being computed.

    `synthetic`, `real` and `train` are the tables as given, each cell a text, "" for an empty one. `tables` has them in
    the form in which they are compared, `predictions` those of the classifiers for the held-out rows; both are None in
    a shareable report. `sequences` has each table's patients in the order that the schema declares, by "real", "train"
    and "synthetic"; {} without an order. `drawn_by_model`: whether it is proven that `model` draws exactly these rows.
    `disjoint`: whether the real tables are known to hold different rows. `fitted_rows`: whether the model was fitted to
    the rows of `real`, so that nothing is held out. `fits`: those on the table that are on file.
    `linked`: what is known of several tables, where this report is on their patients.

    A report is shareable if no field of its context holds a real row, or a figure of real rows: see `shareable`.
    """

    title: str
    target: str
    synthetic: pd.DataFrame
    real: pd.DataFrame | None = None
    train: pd.DataFrame | None = None
    tables: Tables | None = None
    predictions: TaskPredictions | None = None
    sequences: Mapping[str, Sequences] = field(default_factory=dict)
    model: Model | None = None
    drawn_by_model: bool = False
    disjoint: bool = False
    fitted_rows: bool = False
    fits: int | None = None
    linked: LinkedFacts | None = None
    review: Review = field(default_factory=Review)
    thresholds: Thresholds = field(default_factory=Thresholds)
    groups: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    rng: Stream = field(default_factory=lambda: numpy_stream(0, "report"))
    records: dict[str, Record | None] = field(default_factory=dict)

    @property
    def schema(self) -> Schema | None:
        """The model's schema, where there is a model."""
        return self.model.schema if self.model else None

    @property
    def declared(self) -> Schema:
        """The model's schema, for a section that needs one."""
        assert self.schema is not None
        return self.schema

    @property
    def compared(self) -> Tables:
        """The tables as they are compared, for a section that needs real rows."""
        assert self.tables is not None
        return self.tables

    @property
    def claiming_model(self) -> Model | None:
        """The model whose claim covers the synthetic rows: one that makes a claim and is proven to draw these rows."""
        return self.model if self.model and self.model.claims and self.drawn_by_model else None

    @property
    def shareable(self) -> bool:
        """Whether no section can reach a real row: the one place that decides between both variants."""
        tables = self.real, self.train, self.tables, self.predictions
        ordered = self.sequences.get("real"), self.sequences.get("train")
        figures = self.linked is not None and self.linked.of_real_rows
        return all(rows is None for rows in (*tables, *ordered)) and not figures

    def record(self, kind: type[Kind]) -> Kind | None:
        """The record of this kind that an earlier section made, if one did."""
        return next((record for record in self.records.values() if isinstance(record, kind)), None)
