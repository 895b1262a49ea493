"""The inputs of the report, and the records of sections computed earlier, as a section sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pandas as pd

from ...artifact import Model
from ...fitting.approval import ApprovedPlan
from ...rng import Stream, numpy_stream
from ...schema import Schema
from .cdm import CdmCheck
from .columns import values_alone
from .over_time import Sequences
from .protocol import TaskPredictions
from .tables import Tables
from .verdict import Estimate, Record, Review, Thresholds

Kind = TypeVar("Kind", bound=Record)


class TableFacts(Record):
    """Figures of one table. `rows_a_patient` and its real twin are means; other shares are of patients.

    `without`: share of patients without a row. `orphans`: rows whose patient does not exist, and keys that point to no
    row or to another patient's row. `too_early`: rows dated before the row that they belong to, or in a
    table that `comes_last` before others of the patient. `beyond`: rows above a patient's maximum.
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
    """Several tables under one claim per patient. `broken`: orphans, early rows and rows above the maximum.

    `codes_lost`: the part of the relations between a patient's codes, in all tables, that is lost. `checks`: those of
    OMOP tables.
    """

    patients: int
    tables: list[TableFacts]
    broken: int
    codes_lost: Estimate = Estimate(value=None)
    checks: list[CdmCheck] = []

    @property
    def of_real_rows(self) -> bool:
        """Return whether a figure was computed from real rows."""
        figures = [(table.real_rows_a_patient, table.real_without) for table in self.tables]
        figures += [(self.codes_lost.value, check.real) for check in self.checks] or [(self.codes_lost.value, None)]
        return any(figure is not None for pair in figures for figure in pair)


@dataclass(frozen=True, kw_only=True)
class Context:
    """The inputs of one report. `rng` is the public random stream of the section being computed.

    `synthetic`, `real` and `train` are tables of text cells; "" is an empty cell. `tables` has them in the form in
    which they are compared, and `predictions` has the classifiers' predictions for the held-out rows. Both are None in
    a shareable report. `sequences` has each table's patients in the declared order, under "real", "train" and
    "synthetic"; it is empty without an order. `drawn_by_model`, `disjoint`, `fitted_rows`, `fits`, `looks`, `linked`
    are as in `medsynth.report.build.build`, and `approved` is its `plan`.

    A report is shareable if its context contains neither a real row nor a figure of real rows: see `shareable`.
    """

    title: str
    target: str | None
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
    looks: int = 1
    linked: LinkedFacts | None = None
    approved: ApprovedPlan | None = None
    review: Review = field(default_factory=Review)
    thresholds: Thresholds = field(default_factory=Thresholds)
    groups: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    rng: Stream = field(default_factory=lambda: numpy_stream(0, "report"))
    records: dict[str, Record | None] = field(default_factory=dict)

    @property
    def schema(self) -> Schema | None:
        """Return the model's schema, or None without a model."""
        return self.model.schema if self.model else None

    @property
    def declared(self) -> Schema:
        """Return the model's schema, for a section that needs a model."""
        assert self.schema is not None
        return self.schema

    @property
    def compared(self) -> Tables:
        """Return the tables as they are compared, for a section that needs real rows."""
        assert self.tables is not None
        return self.tables

    @property
    def synthetic_values(self) -> tuple[pd.DataFrame, frozenset[str]]:
        """Return the values of the synthetic rows, compared with real ones or alone, and the columns of numbers."""
        tables = self.tables
        return values_alone(self.synthetic, self.schema) if tables is None else (tables.synthetic, tables.numbers)

    @property
    def claiming_model(self) -> Model | None:
        """Return the model whose claim covers the synthetic rows: it makes a claim and is proven to draw them."""
        return self.model if self.model and self.model.claims and self.drawn_by_model else None

    @property
    def shareable(self) -> bool:
        """Return whether no section can reach a real row. This property alone separates the two variants."""
        tables = self.real, self.train, self.tables, self.predictions
        ordered = self.sequences.get("real"), self.sequences.get("train")
        figures = self.linked is not None and self.linked.of_real_rows
        return all(rows is None for rows in (*tables, *ordered)) and not figures

    def record(self, kind: type[Kind]) -> Kind | None:
        """Return the record of this kind that an earlier section made, or None."""
        return next((record for record in self.records.values() if isinstance(record, kind)), None)
