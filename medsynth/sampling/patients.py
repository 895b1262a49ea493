"""Sampled rows as patients' rows: whole patients in chunks, rows per patient, and constant columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Codes, Floats, Mask, Whole
from ..errors import UsageError
from ..rng import Stream, numpy_stream, stream_seed
from ..schema import Schema
from .draw import Draw
from .rejection import REJECTION_ROUNDS, Sampler, broken, complete, sample_again
from .tilt import Tilt

ROWS_PER_PATIENT = "patients.sizes"  # the tensor with the shares of patients with one, two, ... rows
MARGIN = 1.02  # extra patients drawn for a number of rows, relative to the mean need; plus SPARE
SPARE = 20
FEWEST = 256  # patients drawn at once to select from
SURE, ONE_IN = 10_000, 1000  # after this number of patients, stop if fewer than one in ONE_IN is kept


@dataclass(frozen=True, eq=False)
class PatientRows:
    """Rows of a table, (rows, columns), patient by patient; `whose`: (rows,) the patient of each, from zero on.

    A patient may have no row. `lacking`: (patients,) how many planned rows of each broke rules; None if none can.
    """

    codes: Codes
    whose: Whole
    lacking: Whole | None = None

    @property
    def count(self) -> int:
        """The number of patients with rows."""
        return int(np.count_nonzero(np.bincount(self.whose)))

    def some(self, stay: Mask) -> PatientRows:
        """Return the rows that `stay`, (rows,), with patients numbered again without gaps."""
        numbers, whose = np.unique(self.whose[stay], return_inverse=True)
        return PatientRows(self.codes[stay], whose, None if self.lacking is None else self.lacking[numbers])

    def within(self, rows: int) -> PatientRows:
        """Return this number of rows, as `rows_within` chooses them."""
        sizes = np.bincount(self.whose)
        place = np.arange(len(self.whose)) - (np.cumsum(sizes) - sizes)[self.whose]
        return self.some(place < rows_within(sizes, rows)[self.whose])


def cut_short(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return a sentence for each table in which rules cut patients short."""
    return [
        f"{name}: {own['rows']:,} of {own['planned']:,} planned rows were drawn. {own['cut'] / own['patients']:.1%} of "
        "patients end early, because no next row met the rules."
        for name, own in counts.items() if own["cut"]
    ]  # fmt: skip


class RowCounts(dict[str, Counter[str]]):
    """For each table in order, by name: `planned` and written `rows`, `patients`, and those who are `cut` short."""

    def add(self, found: Mapping[str, PatientRows]) -> None:
        """Count drawn patients."""
        for name, rows in found.items():
            if rows.lacking is not None:
                sizes = np.bincount(rows.whose, minlength=len(rows.lacking)) + rows.lacking
                self.setdefault(name, Counter()).update(
                    planned=int(sizes.sum()), rows=len(rows.codes), patients=int((sizes > 0).sum()),
                    cut=int((rows.lacking > 0).sum()),
                )  # fmt: skip

    @property
    def sentences(self) -> list[str]:
        """What these counts say to whoever samples."""
        return cut_short(self)


Drawn = Callable[[int, int | None, int | None], PatientRows]  # arguments: patients, a seed, and the most rows


def rows_of_a_patient(tensors: Mapping[str, NDArray[np.float32]]) -> float:
    """Return the mean number of rows per patient, from a model's tensors."""
    shares = tensors[ROWS_PER_PATIENT].astype(np.float64)
    return float(shares @ np.arange(1, len(shares) + 1) / shares.sum())


def rows_within(sizes: Whole, rows: int) -> Whole:
    """Return how many rows of each patient stay, (patients,), for `rows` in all; all rows if there are fewer.

    Patients stay whole: a patient with too many rows is skipped for the next one who fits. If nobody fits, the last
    patient is cut.

    >>> rows_within(np.array([3, 3, 1, 2, 3]), 5), rows_within(np.array([3, 3, 3]), 5)
    (array([3, 0, 0, 2, 0]), array([3, 2, 0]))
    """
    reached = np.cumsum(sizes)
    if not len(sizes) or reached[-1] <= rows:
        return sizes
    past = int(np.searchsorted(reached, rows))  # the patient with whom there are enough
    lacking = rows - (reached[past] - sizes[past])
    fits = past + np.flatnonzero(sizes[past:] == lacking)
    stay = np.where(np.arange(len(sizes)) < past, sizes, 0)
    stay[fits[0] if len(fits) else past] = lacking
    return stay


def in_chunks(
    drawn: Drawn, draw: Draw, mean: float, chunk_rows: int, meets: Callable[[Codes], Mask] | None
) -> Iterator[PatientRows]:
    """Yield as many whole patients as `draw` asks for, or patients with as many rows, of whom the last one may be cut.

    About `chunk_rows` rows are drawn at once. mean: rows per patient. meets: which rows meet `where_any`. Patients
    without such a row are rejected, so that the others have the model's distribution given the conditions.

    Raises UsageError if hardly any patient is kept.
    """
    most = max(1, int(chunk_rows / mean))
    left = draw.patients or draw.rows or 0
    tried = kept = 0
    while left:
        wanted = left if draw.patients else int(MARGIN * left / mean) + SPARE
        wanted = int(wanted * (tried + 1) / (kept + 1))  # by the share kept so far
        wanted = max(FEWEST, int(MARGIN * wanted)) if meets else wanted
        seed = draw.seed if draw.seed is None or not tried else stream_seed(draw.seed, f"patients from {tried}")
        found = drawn(min(most, wanted), seed, None if draw.patients or meets else left)
        tried += min(most, wanted)
        found = found.some(np.isin(found.whose, found.whose[meets(found.codes)] if meets else found.whose))
        kept += found.count
        found = found.some(found.whose < left) if draw.patients else found.within(left)
        left -= found.count if draw.patients else len(found.codes)
        if found.count:
            yield found
        if left and tried >= SURE and kept * ONE_IN < tried:
            what = "has a row that meets the conditions of `where_any`" if meets else "has rows that meet the rules"
            raise UsageError(f"Fewer than one patient in {ONE_IN} {what}. Leave out a condition or widen a range.")


def sizes_drawn(shares: Floats, count: int, rng: Stream) -> Whole:
    """Draw the number of rows of each of `count` patients, (count,), from the `shares` of patients by their rows."""
    return np.asarray(1 + rng.choice(len(shares), count, p=shares / shares.sum()))


def resample_given_constants(codes: Codes, patients: Whole, sampler: Sampler, schema: Schema, stream: Stream) -> None:
    """Sample every patient's later rows again, given the first row's values of the constant columns; in place.

    Rows that break a constraint are sampled again; rows that still do become copies of their patient's first row. The
    shares of values stay as far as the constraints allow.
    """
    starts = np.unique(patients, return_index=True)[1]
    left = np.setdiff1d(np.arange(len(codes)), starts)
    if not len(left):
        return
    rest = [k for k, column in enumerate(schema.columns.values()) if column.modelled]
    firsts = codes[starts[patients]]
    codes[left[:, None], rest] = firsts[left][:, rest]

    def again(places: Whole) -> Codes:
        fixed = {name: firsts[places, schema.names.index(name)] for name in schema.constant}
        rows = complete(sampler(len(places), int(stream.integers(2**62)), fixed), schema)
        found = codes[places]
        found[:, rest] = rows[:, rest]
        return found

    drawn = again(left)
    good = ~broken(drawn, schema)
    tilt = Tilt.of(drawn, good, schema, schema.constant) if good.any() and not good.all() else None

    def bad(rows: Codes, _: Whole) -> Mask:
        found = broken(rows, schema)
        return found if tilt is None else found | ~tilt.accepted(rows, stream)

    sample_again(codes, left, again, bad, REJECTION_ROUNDS)


def patients_of_rows(
    drawn: Callable[[int, int | None], Codes], sampler: Sampler, schema: Schema, shares: Floats,
    count: int, seed: int | None, most_rows: int | None,
) -> PatientRows:  # fmt: skip
    """Return `count` patients with unordered rows from `drawn(rows, seed)`; fewer patients for `most_rows` rows.

    shares: of patients with one, two, ... rows. Constant columns stay the same over a patient's rows.
    """
    sizes = sizes_drawn(shares, count, numpy_stream(seed, "patients"))
    stay = sizes if most_rows is None else rows_within(sizes, most_rows)
    patients = np.repeat(np.arange(np.count_nonzero(stay)), stay[stay > 0])
    codes = drawn(len(patients), seed)
    if schema.constant:
        resample_given_constants(codes, patients, sampler, schema, numpy_stream(seed, "constant columns"))
    return PatientRows(codes, patients)
