"""Do synthetic patients teach what comes next? The next row's target, predicted from this row and the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....rng import Stream
from ...data.over_time.sequences import Sequences
from ...data.protocol import LABELS, predict
from ...data.records import Estimate, Record
from ...data.statistics import Areas, Floats, compared, resampled

CLASSIFIERS = ("lr", "hgb")  # a linear model and boosted trees
MOST_LEARNED = 25_000  # rows that classifiers learn from
FEWEST = 30  # rows tested
AIM = "target of the row"  # the column that is predicted


class NextRow(Record):
    """AuROC on real rows of predicting the target of the next row, after training on real and on synthetic rows.

    Means over `classifiers` and over the classes that occur in the rows tested. `unit` of resampling: the patient.
    """

    target: str
    rows: int
    classifiers: list[str]
    real: Estimate
    synthetic: Estimate
    loss: Estimate


def next_row(train: Sequences, synthetic: Sequences, test: Sequences, target: str, rng: Stream) -> NextRow | None:
    """Classifiers fitted to `train` and to `synthetic`, tried on `test`; None where there is too little to test.

    A row is tested where its patient has a next one, whose target is known.
    """
    if any(target not in made.rows or target in made.numbers for made in (train, synthetic, test)):
        return None
    sides = [examples(made, target, ahead=1) for made in (train, synthetic, test)]
    if min(len(rows) for rows, _ in sides) < FEWEST or sides[2][0][AIM].nunique() < 2:
        return None
    (real, _), (made, _), (tested, patients) = sides
    found = compared_aurocs(_some(real, rng), _some(made, rng), tested, patients, rng)
    return NextRow(target=target, rows=len(tested), classifiers=[LABELS[name] for name in CLASSIFIERS], **found)


def examples(made: Sequences, target: str, ahead: int) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """This row and the last as one line, with the target of this row (`ahead` 0) or of the next one (1) to predict.

    Returns the lines, with the column AIM, and the patient of each. Of the last row there are the columns that change;
    where there is none they are missing, or "none" where they are levels. With `ahead` 0 this row's target is left out.
    """
    aim = np.arange(len(made.patient)) + ahead
    lines = np.flatnonzero((aim < len(aim)) & (made.patient[np.minimum(aim, len(aim) - 1)] == made.patient))
    lines = lines[made.rows[target].notna().to_numpy()[lines + ahead]]
    before = np.where(made.place[lines] > 0, lines - 1, -1)
    columns: dict[str, Any] = {"row number": made.place[lines].astype(np.float64)}
    for name, column in made.rows.items():
        number = name in made.numbers
        values = (column if number else column.fillna("missing")).to_numpy()
        if name != target or ahead:
            columns[str(name)] = values[lines]
        if name in made.changing:
            columns[f"{name}, last row"] = np.where(before >= 0, values[before], np.nan if number else "none")
    if made.time is not None:
        columns["time since the last row"] = np.where(before >= 0, made.time[lines] - made.time[before], np.nan)
    columns[AIM] = made.rows[target].to_numpy()[lines + ahead]
    return pd.DataFrame(columns), made.patient[lines]


def compared_aurocs(
    real: pd.DataFrame, synthetic: pd.DataFrame, tested: pd.DataFrame, patients: NDArray[np.int64], rng: Stream
) -> dict[str, Estimate]:
    """AuROC on `tested` after training on `real` and on `synthetic`: `real`, `synthetic` and `loss`, with intervals."""
    truth = tested[AIM].astype(str).to_numpy()
    classes = np.unique(truth)
    scores: list[Floats] = []
    for rows in (real, synthetic):
        made = predict(rows, tested, AIM, CLASSIFIERS)
        scores += [made[name].probabilities[:, k] for name in CLASSIFIERS for k in range(len(classes))]
    hits: Sequence[NDArray[np.bool_]] = [truth == c for _ in range(2) for _ in CLASSIFIERS for c in classes]
    areas = Areas(np.stack(hits), np.stack(scores))
    draws = resampled(len(truth), rng, areas, patients)
    known = np.ma.masked_invalid(draws.reshape(len(draws), 2, -1))  # a class may be missing from a resample
    return compared(areas.value.reshape(2, -1).mean(1), np.asarray(known.mean(2).filled(np.nan)))


def _some(rows: pd.DataFrame, rng: Stream) -> pd.DataFrame:
    """At most MOST_LEARNED rows, drawn uniformly."""
    if len(rows) <= MOST_LEARNED:
        return rows
    return rows.iloc[np.sort(rng.choice(len(rows), MOST_LEARNED, replace=False))].reset_index(drop=True)
