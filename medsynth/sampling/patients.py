"""Sampled rows as those of patients: fresh keys, rows a patient, and columns that stay the same over them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..rng import Stream, numpy_stream
from ..schema import Schema
from .rejection import REJECTION_ROUNDS, Codes, Sampler, broken, complete, sample_again

Floats = NDArray[np.float64]
ROWS_PER_PATIENT = "patients.sizes"  # the tensor that holds the shares of patients with one, two, ... rows


def rows_of_a_patient(tensors: Mapping[str, NDArray[np.float32]]) -> float:
    """How many rows a patient has in the mean, by a model's tensors."""
    shares = tensors[ROWS_PER_PATIENT].astype(np.float64)
    return float(shares @ np.arange(1, len(shares) + 1) / shares.sum())


def fresh_columns(schema: Schema, first: int, count: int) -> dict[str, Codes]:
    """Codes, (count,), of each column that no model learns. Raises UsageError where one has too few values."""
    found = {}
    for name, column in schema.columns.items():
        if not column.modelled:
            try:
                found[name] = column.fresh(first, count)
            except UsageError as error:
                raise UsageError(f"{name!r}: {error}") from None
    return found


def patients_of_rows(shares: Floats, count: int, rng: Stream) -> Codes:
    """The patient of each of `count` rows, (rows,), numbered from one; `shares` of patients by their rows."""
    sizes = 1 + rng.choice(len(shares), count, p=shares / shares.sum())
    return np.repeat(np.arange(1, count + 1), sizes)[:count].astype(np.int32)


def resample_given_constants(codes: Codes, patients: Codes, sampler: Sampler, schema: Schema, stream: Stream) -> None:
    """Sample every patient's later rows anew, given the first one's values of the constant columns; in place.

    Rows that break a constraint are sampled again; those that still do become copies of their patient's first.
    """
    starts = np.unique(patients, return_index=True)[1]
    left = np.setdiff1d(np.arange(len(codes)), starts)
    rest = [k for k, column in enumerate(schema.columns.values()) if column.modelled]
    firsts = codes[starts[patients - 1]]
    codes[left[:, None], rest] = firsts[left][:, rest]

    def again(places: NDArray[np.int64]) -> Codes:
        fixed = {name: firsts[places, schema.names.index(name)] for name in schema.constant}
        rows = complete(sampler(len(places), int(stream.integers(2**62)), fixed), schema)
        found = codes[places]
        found[:, rest] = rows[:, rest]
        return found

    sample_again(codes, left, again, lambda rows, _: broken(rows, schema), REJECTION_ROUNDS)


def assign_patients(
    codes: Codes, sampler: Sampler, schema: Schema, seed: int | None, shares: Floats, first: int
) -> None:
    """Give rows to patients by the `shares` of patients with one, two, ... rows, keys after the `first`; in place."""
    assert schema.unit is not None
    patients = patients_of_rows(shares, len(codes), numpy_stream(seed, "patients"))
    if schema.constant:
        resample_given_constants(codes, patients, sampler, schema, numpy_stream(seed, "constant columns"))
    codes[:, schema.names.index(schema.unit)] = first + patients
