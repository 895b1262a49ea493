"""A row on which a query fails adds nothing, and all others add what they add without it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from medsynth.arrays import Codes
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.networks import Mlp
from medsynth.privacy.queries.cells import EveryCode
from medsynth.privacy.queries.gradients import GradientSum, minus_output
from medsynth.privacy.queries.parts import RowsInMemory
from medsynth.privacy.queries.rows import CodedRows, Lot
from medsynth.privacy.queries.stored_rows import StoredCodes
from medsynth.privacy.queries.tables import Marginals

NAMES = ("a", "b")
SIZES = (7, 5)


@dataclass(frozen=True, eq=False)
class FailsOn:
    """A map of both columns that fails, in some way, on rows of some codes of the first."""

    bad: tuple[int, ...]
    how: str
    cells: int = 5

    def cell_of(self, codes: Codes) -> Any:
        """The code of the second column."""
        hit = np.isin(codes[:, 0], self.bad)
        if not hit.any():
            return codes[:, 1].astype(np.int64)
        raise {"error": ValueError, "memory": MemoryError}[self.how](f"private {codes[0]}")


def features(bad: tuple[int, ...]) -> Any:
    """The same for a critic's input: both codes."""

    def of(codes: Codes) -> torch.Tensor:
        found = torch.from_numpy(codes.astype(np.float32))
        if np.isin(codes[:, 0], bad).any():
            raise ValueError(f"private {codes[0]}")
        return found

    return of


def codes_of(seed: int, rows: int) -> Codes:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, size, rows) for size in SIZES]).astype(np.int32)


def network() -> Mlp:
    made = Mlp([2, 1], bias=False)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.ones_like(parameter))
    return made


def test_the_answer_is_that_over_the_rows_that_do_not_fail(tmp_path: Path) -> None:
    """For every way to fail, on no row to all rows but public ones, in whole tables and lots, in memory and on disk."""
    for seed, rows in ((0, 1), (2, 37)):
        codes = codes_of(seed, rows)
        stored = StoredCodes(SIZES, tmp_path)
        stored.append(codes)
        (on_disk,) = stored.parts(NAMES)
        lots = [None, np.random.default_rng(seed).random(rows) < 0.5, np.zeros(rows, np.bool_)]
        for bad in ((), (1, 5), tuple(range(1, 7))):
            fine = ~np.isin(codes[:, 0], bad)
            asked: list[tuple[Any, Any]] = [
                (Marginals({"x": [(NAMES, FailsOn(bad, how)), ("a", EveryCode(7))]}),
                 Marginals({"x": [("b", EveryCode(5)), ("a", EveryCode(7))]}))
                for how in ("error", "memory")
            ]  # fmt: skip
            sums = [GradientSum(network(), minus_output, features(some), 1.0, None) for some in (bad, ())]
            asked.append((sums[0], sums[1]))
            for query, plain in asked:
                for joined in lots:
                    some = fine if joined is None else fine & joined
                    none = np.zeros((rows if joined is None else int(joined.sum()), 0), np.uint64)
                    expected = plain.finished(plain.exact(CodedRows(codes[some], NAMES, none[:0])))
                    for part in (RowsInMemory(codes, NAMES), on_disk):
                        found = query.finished(part.exact(query, Lot(joined, none)))
                        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_of_patients_the_whole_patient_adds_nothing() -> None:
    """Where a query averages a patient's rows: a part of them would count as another average."""
    codes = codes_of(4, 60)
    units = PrivacyUnits(np.arange(60) // 3, 3)
    fails = np.isin(codes[:, 0], 3)
    fine = ~np.isin(units.of_row, units.of_row[fails])
    query = Marginals({"x": [(NAMES, FailsOn((3,), "error"))]}, averaged=True)
    plain = Marginals({"x": [("b", EveryCode(5))]}, averaged=True)
    draws = np.zeros((60, 0), np.uint64)
    (found,) = RowsInMemory(codes, NAMES).exact(query, Lot(None, draws, units))
    (expected,) = plain.exact(CodedRows(codes[fine], NAMES, draws[:0], units.of_rows(fine)))
    assert np.array_equal(found, expected) and found.sum() > 0


def test_a_rows_own_draws_stay_with_it() -> None:
    """Microbatches are joined by a row's draw, whichever rows are left out."""
    codes = codes_of(5, 40)
    fine = ~np.isin(codes[:, 0], 3)
    draws = np.arange(40, dtype=np.uint64)[:, None] * np.uint64(2**57)
    query, plain = (GradientSum(network(), minus_output, features(bad), 1.0, 4) for bad in ((3,), ()))
    found = query.finished(RowsInMemory(codes, NAMES).exact(query, Lot(None, draws)))
    expected = plain.finished(plain.exact(CodedRows(codes[fine], NAMES, draws[fine])))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_rows_without_features_have_zeros() -> None:
    codes = codes_of(6, 50)
    fails = np.isin(codes[:, 0], (2, 3))
    found = RowsInMemory(codes, NAMES).encoded(features((2, 3))).numpy()
    assert np.array_equal(found, np.where(fails[:, None], 0, codes))
