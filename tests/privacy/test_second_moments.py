"""Matrices of second moments: exact sums of rows clipped to norm one, and a sensitivity that the worst row attains."""

import math
from typing import Any

import numpy as np
import pytest

from medsynth.errors import BudgetError
from medsynth.privacy.accounting.events import Gaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.queries import moments as module
from medsynth.privacy.queries.moments import STEPS, UNIT, clipped_rows, second_moments, symmetric
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import NoNoise
from medsynth.schema.columns.grid import Grid

GIVEN: Any = ("y", Grid(np.arange(4), 0))
WIDTH = 7
SCALES = np.linspace(0.05, 0.4, WIDTH)


def features(codes: Any) -> Any:
    """Some rows are longer than one, and the worst of all, of code 9, is far longer."""
    return (codes[:, :1] + np.arange(WIDTH) - 3.0) * SCALES * np.where(codes[:, :1] == 9, 50, 1)


def vault(codes: Any, units: PrivacyUnits | None = None) -> tuple[Vault, Ledger]:
    entropy = NoNoise()
    ledger = Ledger(
        delta=1e-5, accountant="prv", random_source=entropy.source, allowance={"m": (Gaussian(multiplier=1.0), 1)},
        max_rows=units.max_rows if units else None,
    )  # fmt: skip
    return Vault(codes, ("x", "y"), Releases(ledger, entropy), units), ledger


def rows(count: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, 6, count), rng.integers(0, 3, count)], 1).astype(np.int32)


def test_rows_are_clipped_to_norm_one_exactly() -> None:
    """In whole numbers of any size, so that the statement needs no rounding; shorter rows are rounded alone."""
    rng = np.random.default_rng(1)
    for scale in (1e-6, 0.1, 1.0, 40.0, 1e200):
        whole = clipped_rows(rng.standard_normal((300, 50)) * scale)
        assert max(sum(int(v) ** 2 for v in row) for row in whole) <= STEPS**2
    short = rng.standard_normal((300, 50)) * 0.05
    assert np.abs(clipped_rows(short) / STEPS - short).max() <= 0.5 / STEPS
    long = clipped_rows(rng.standard_normal((300, 50)))
    assert np.linalg.norm(long, axis=1).min() > STEPS - 10  # and no shorter than rounding towards zero makes them
    assert not clipped_rows(np.array([[np.nan, np.inf], [-np.inf, np.nan]])).any()


@pytest.mark.parametrize("chunk", [1 << 22, 20 * WIDTH])
def test_sums_are_those_of_every_row_by_itself(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_NUMBERS", chunk)
    codes = rows(200)
    expected = np.zeros((3, WIDTH, WIDTH), dtype=object)
    for row, label in zip(clipped_rows(features(codes)), codes[:, 1], strict=True):
        whole = [int(v) for v in row]
        expected[label] += np.array([[a * b for a in whole] for b in whole], dtype=object)
    found = vault(codes)[0].measure_second_moments("m", features, GIVEN, WIDTH)
    assert np.array_equal(found, expected.astype(np.float64) * UNIT)
    alone = second_moments(codes, features, codes[:, 1], 3, WIDTH)
    assert np.array_equal(UNIT * symmetric(*(part.astype(np.float64) for part in alone)), found)


def moved(one: Any, other: Any) -> float:
    """By how much what is noised changed: the diagonal, and what stands above it times sqrt(2)."""
    gap, places = one - other, np.triu_indices(WIDTH, 1)
    return math.sqrt(float(np.square(np.diagonal(gap, axis1=1, axis2=2)).sum() + 2 * np.square(gap[:, *places]).sum()))


def test_one_row_moves_the_release_by_what_is_charged_and_no_more() -> None:
    """With the worst row, whose vector is clipped: one nearly. With a patient of four such rows, four times that."""
    for copies in (1, 4):
        codes = np.concatenate([rows(60), np.full((copies, 2), (9, 1), np.int32)])
        owner = np.concatenate([np.arange(60), np.full(copies, 60)])
        found = []
        for count in (len(codes), 60):
            room, ledger = vault(codes[:count], PrivacyUnits(owner[:count], copies) if copies > 1 else None)
            found.append(room.measure_second_moments("m", features, GIVEN, WIDTH))
        assert ledger.entries[0].sensitivity == copies
        assert 0.99 * copies < moved(*found) <= copies
        assert not np.abs(found[0] - found[1])[[0, 2]].any()  # the other classes are as they were
    for k in range(60):
        gone = vault(np.delete(rows(60), k, axis=0))[0].measure_second_moments("m", features, GIVEN, WIDTH)
        assert moved(gone, vault(rows(60))[0].measure_second_moments("m", features, GIVEN, WIDTH)) <= 1


def test_what_the_plan_lacks_is_refused() -> None:
    room, ledger = vault(rows(20))
    for label, entries in (("other", 0), ("m", 1), ("m", 1)):
        if label == "m" and not ledger.entries:
            room.measure_second_moments(label, features, GIVEN, WIDTH)
        else:
            with pytest.raises(BudgetError):
                room.measure_second_moments(label, features, GIVEN, WIDTH)
        assert len(ledger.entries) == entries


def test_vectors_of_another_width_are_refused() -> None:
    with pytest.raises(BudgetError, match="width"):
        vault(rows(20))[0].measure_second_moments("m", features, GIVEN, WIDTH + 1)
