"""Keys of sampled rows: fresh ones of patients and rows, and those of the latest rows of other tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..arrays import Whole
from ..artifact import Model
from ..errors import UsageError
from ..schema import Schema
from ..schema.codec import column_values
from .patients import PatientRows

PATIENTS = "\0patients"  # among the numbers of earlier rows by table, that of patients; no table has such a name


def give_keys(found: Mapping[str, PatientRows], model: Model, before: Counter[str]) -> None:
    """Write keys into all columns of keys; in place. The first table has all patients.

    before: the numbers of earlier patients and of earlier rows by table, after whose keys new ones follow; in place.
    Raises UsageError if a column has too few values.
    """
    views, written = model.views, model.written
    patients = next(iter(found.values())).count
    for name, rows in found.items():
        schema = views[name]
        links = model.links(name)
        for k, (key, column) in enumerate(schema.columns.items()):
            if column.modelled:
                continue
            try:
                if key == written[name].unit:
                    rows.codes[:, k] = column.fresh(before[PATIENTS], patients)[rows.whose]
                elif key in links:
                    there, theirs = links[key]
                    keys = found[there].codes[:, views[there].names.index(theirs)]
                    last = latest(rows, schema, found[there], views[there])
                    rows.codes[:, k] = np.append(keys, column.size)[last]  # the last code is for no row
                else:
                    rows.codes[:, k] = column.fresh(before[name], len(rows.codes))
            except UsageError as error:
                raise UsageError(f"{key!r}: {error}") from None
    before.update({PATIENTS: patients} | {name: len(rows.codes) for name, rows in found.items()})


def latest(rows: PatientRows, schema: Schema, other: PatientRows, of_other: Schema) -> Whole:
    """Return the index of the patient's last row in another table that is not after each row, (rows,); -1 for none."""
    mine, theirs = (
        pd.DataFrame({
            "at": np.asarray(column_values(one.codes, own, own.order or ""), np.float64),
            "whose": np.asarray(one.whose, np.int64), "place": np.arange(len(one.whose)),
        }).sort_values("at", kind="stable")
        for one, own in ((rows, schema), (other, of_other))
    )  # fmt: skip
    found = pd.merge_asof(mine, theirs, on="at", by="whose", suffixes=("", "_there")).sort_values("place")
    return np.asarray(found["place_there"].fillna(-1), np.int64)
