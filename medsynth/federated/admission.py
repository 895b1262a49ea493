"""Whether a query is one that a study's method asks under its label. That it is private is the vault's business.

Whatever is asked, the vault scales the planned noise to the sensitivity that the query itself has, so that no query of
a known kind costs more than was planned. What is checked here keeps a server to the study: the kinds of queries that
each label has and, for the first, which follows from the study alone, the very query.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import QueryError
from ..fitting.private_table import ROWS_PER_PATIENT_LABEL
from ..methods import registry
from ..methods.dp_gan.method import QUANTILES
from ..methods.gs_wgan.method import GRADIENTS
from ..methods.shared import labels
from ..privacy.accounting.calibration import Plan
from ..privacy.queries.gradients import GradientSum, NormsBelow, PairGradientSum
from ..privacy.queries.measurements import Measurements, Result
from ..privacy.queries.moments import SecondMoments
from ..privacy.queries.query import PrivateQuery, RowQuery
from ..privacy.queries.tables import Marginals, RowsPerPatient
from ..privacy.queries.wire import Columns, write
from ..privacy.shards import UpstreamSum
from .study import Study

KINDS: dict[str, type[PrivateQuery[Any]]] = {
    ROWS_PER_PATIENT_LABEL: RowsPerPatient,
    labels.ONE_WAY: Marginals,
    labels.CLASSES: Marginals,
    labels.COARSE: Marginals,
    labels.VALUES: Marginals,
    labels.BY_CLASS: Marginals,
    labels.PAIRS: Marginals,
    labels.STRONGEST: Marginals,
    labels.MATRIX: SecondMoments,
    labels.CRITIC_GRADIENTS: GradientSum,
    GRADIENTS: UpstreamSum,
}
OF_PAIRS: dict[str, type[PrivateQuery[Any]]] = {labels.CRITIC_GRADIENTS: PairGradientSum, QUANTILES: NormsBelow}


def check_query(
    study: Study,
    plan: Plan,
    label: str,
    query: PrivateQuery[Any],
    body: bytes,
    *,
    number: int,
    first: tuple[str, bytes],
) -> None:
    """Raises QueryError for a query that the study's method does not ask under this label.

    `first`: label and bytes of what a fit of the study measures first, whichever measurement a site answers first.
    """
    kind = (KINDS | OF_PAIRS if study.method == "dp-gan" else KINDS).get(label)
    if type(query) is not kind:
        raise QueryError(f"{label!r} is a measurement of another kind than the query that came.")
    if isinstance(query, PairGradientSum | NormsBelow) and query.local != study.config().local:
        raise QueryError("The query has other local training than the study.")
    if not study.trust == "server" and not query.adds_up:
        raise QueryError("The query is no sum over rows.")
    if isinstance(query, RowsPerPatient) and query.most != plan.max_rows:
        raise QueryError("Rows of patients are counted up to the most that one has.")
    if (number == 0 or label == first[0]) and (label, body) != first:
        raise QueryError("The first query follows from the study, and is another one than came.")


class _Asked(Exception):
    """A query that was to be measured."""

    def __init__(self, label: str, query: RowQuery[Any]) -> None:
        super().__init__(label)
        self.label, self.query = label, query


class _NoRows(Measurements):
    """Measurements of no rows at all: what is asked first is raised."""

    def __init__(self, max_rows: int | None) -> None:
        self._max_rows = max_rows

    @property
    def max_rows(self) -> int | None:
        return self._max_rows

    def measure(self, label: str, query: RowQuery[Result]) -> NoReturn:
        raise _Asked(label, query)


def first_query(study: Study, plan: Plan) -> tuple[str, bytes]:
    """What a fit of this study measures first, its label and its bytes: no row and no noise has a part in it."""
    asked = _NoRows(plan.max_rows)
    module = registry.module(study.method, study.preset)
    try:
        if plan.max_rows is not None:
            asked.measure_rows_per_patient(ROWS_PER_PATIENT_LABEL)
        module.train(study.config(), study.table_schema.core, asked, plan, 0, "cpu", lambda done, total: None)
    except _Asked as found:
        return found.label, write(found.query, Columns.of(study.table_schema.core))
    raise QueryError("A fit of this study measures nothing.")  # such a plan is refused before
