"""Exact answers add up over parts of the rows, and a vault in parts releases what a vault of the same rows does."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from critic_queries import POOL, features, pair_loss, soft
from hypothesis import given, settings
from hypothesis import strategies as st

from medsynth.errors import BudgetError
from medsynth.io.table import from_frame
from medsynth.privacy.accounting.events import Gaussian, SubsampledGaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.clipping import Groups
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.networks import Mlp
from medsynth.privacy.queries import gradients, parts, tables
from medsynth.privacy.queries import vectors as vector_sums
from medsynth.privacy.queries.gradients import GradientSum, NormsBelow, PairGradientSum
from medsynth.privacy.queries.measurements import queries
from medsynth.privacy.queries.moments import SecondMoments
from medsynth.privacy.queries.parts import RowsInMemory
from medsynth.privacy.queries.query import added
from medsynth.privacy.queries.rows import CodedRows, Lot
from medsynth.privacy.queries.stored_rows import StoredCodes
from medsynth.privacy.queries.tables import Distances, Marginals, RowsPerPatient
from medsynth.privacy.queries.vectors import VectorSum
from medsynth.privacy.raw_rows import RawRows
from medsynth.privacy.release import Releases
from medsynth.privacy.shards import CriticConfig
from medsynth.privacy.vault import Vault
from medsynth.rng import SeededEntropy
from medsynth.schema.cells import CellKinds
from medsynth.schema.columns.grid import Grid

NAMES = ("a", "b")
LEVELS, CAP, PATIENTS = Grid(np.arange(4), 0), 6, 7
AXES: Any = {"a": [("a", LEVELS)], "ab": [("a", LEVELS), ("b", LEVELS)]}
CRITIC = Mlp([2, 3, 1], "tanh", torch.Generator().manual_seed(0))
GROUPS = Groups(torch.arange(13) % 2, (0.3, 2.0))


def vectors(codes: Any) -> Any:
    return (codes - 1.0) / 1.1


CASES: dict[str, Any] = {
    "marginals": Marginals(AXES, {"a": 2.0, "ab": 0.5}),
    "centred marginals": Marginals(AXES, {"a": 2.0, "ab": 0.5}, centred=("ab",)),
    "distances": Distances(AXES, {"a": np.ones(3), "ab": np.full((3, 3), 1.5)}),
    "gradient sum": GradientSum(CRITIC, soft, features, 0.4),
    "microbatches": GradientSum(CRITIC, soft, features, 0.4, 4),
    "pair gradients": PairGradientSum(CRITIC, pair_loss, features, POOL, GROUPS),
    "norms below a bound": NormsBelow(CRITIC, pair_loss, features, POOL, GROUPS),
    "second moments": SecondMoments(vectors, ("b", LEVELS), 2),
    "vector sum": VectorSum(features, 2),
    "rows per patient": RowsPerPatient(CAP),
}


def test_every_kind_of_query_has_a_case() -> None:
    assert {type(query) for query in CASES.values()} == set(queries())


def rows_of(count: int, query: Any, seed: int) -> CodedRows:
    """Random rows, each with draws and a patient of its own choice."""
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, 2**64, (count, query.draws), dtype=np.uint64)
    units = PrivacyUnits(rng.integers(0, PATIENTS, count), CAP, PATIENTS)
    return CodedRows(rng.integers(0, 3, (count, 2)).astype(np.int32), NAMES, draws, units)


def some(rows: CodedRows, which: Any) -> CodedRows:
    assert rows.units is not None
    return CodedRows(rows.codes[which], rows.names, rows.draws[which], rows.units.of_rows(which))


@pytest.mark.nightly_for("norms below a bound", "pair gradients")
@pytest.mark.parametrize("name", CASES)
@settings(deadline=None, max_examples=25)
@given(st.integers(0, 40), st.integers(1, 4), st.integers(0, 2**30))
def test_exact_answers_add_up_over_any_parts(name: str, count: int, parts: int, seed: int) -> None:
    """To the last bit, in whichever parts the rows lie and in whatever order."""
    query = CASES[name]
    rows = rows_of(count, query, seed)
    part = np.random.default_rng(seed + 1).integers(0, parts, count)
    whole, total = query.exact(rows), added(query.exact(some(rows, part == k)) for k in range(parts))
    assert all(array.dtype == np.int64 for array in whole + total)
    for one, other in zip(query.finished(whole), query.finished(total), strict=True):
        assert np.array_equal(one, other)
    if name not in ("gradient sum", "vector sum"):  # two words a number, which may carry differently
        assert all(map(np.array_equal, whole, total))


def vault(codes: Any, cuts: Any, units: Any, rate: float) -> Vault:
    event = Gaussian(multiplier=1.3) if rate == 1 else SubsampledGaussian(multiplier=1.3, rate=rate)
    entropy = SeededEntropy(5)
    ledger = Ledger(
        delta=1e-5, accountant="rdp", random_source=entropy.source, allowance={"m": (event, 3)},
        max_rows=units.max_rows if units else None,
    )  # fmt: skip
    rows: Any = codes if cuts is None else [RowsInMemory(part, NAMES) for part in np.split(codes, cuts)]
    return Vault(rows, NAMES, Releases(ledger, entropy), units)


def flat(found: Any) -> Any:
    values = found.values() if isinstance(found, dict) else found if isinstance(found, tuple) else [found]
    return np.concatenate([np.ravel(np.asarray(value)) for value in values])


UNITS = [(name, patients) for name in CASES for patients in (False, True) if patients or name != "rows per patient"]


@pytest.mark.matrix
@pytest.mark.parametrize("rate", [1.0, 0.4])
@pytest.mark.parametrize("name, patients", UNITS)
def test_a_vault_in_parts_releases_what_one_of_the_same_rows_does(name: str, patients: bool, rate: float) -> None:
    """Number by number, under the same entropy; patients have rows in several parts, and one part has no row."""
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 3, (60, 2)).astype(np.int32)
    units = PrivacyUnits(rng.permutation(np.arange(60) % 15), CAP) if patients else None
    released = []
    for cuts in (None, [17, 17, 41]):
        room = vault(codes, cuts, units, rate)
        released.append(np.concatenate([flat(room.measure("m", CASES[name])) for _ in range(3)]))
    assert np.array_equal(released[0], released[1]) and len(np.unique(released[0])) > 3


def test_sums_over_sites_are_refused_for_distances_and_means_alone() -> None:
    assert [name for name, query in CASES.items() if not query.adds_up] == ["distances", "microbatches"]


@pytest.mark.parametrize("name", ["gradient sum", "microbatches", "pair gradients"])
def test_patients_join_a_lot_with_their_rows_of_every_part(name: str) -> None:
    """One coin a patient, in whichever parts the rows lie: each lot holds all rows of a patient or none."""
    owner = np.random.default_rng(4).permutation(np.repeat(np.arange(20), 3))
    codes, lots = np.stack([owner, owner], 1).astype(np.int32), list[Any]()

    def watching(some: Any) -> torch.Tensor:
        lots.append(some[:, 0])
        return torch.zeros(len(some), 2)

    query: Any = {
        "gradient sum": GradientSum(CRITIC, soft, watching, 0.4),
        "microbatches": GradientSum(CRITIC, soft, watching, 0.4, 4),
        "pair gradients": PairGradientSum(CRITIC, pair_loss, watching, POOL, GROUPS),
    }[name]
    room = vault(codes, [11, 30], PrivacyUnits(owner, 3), 0.5)
    for _ in range(3):
        lots.clear()
        room.measure("m", query)
        joined = np.bincount(np.concatenate(lots), minlength=20)
        assert set(joined) == {0, 3} and len(lots) == 3


def test_a_cell_that_a_map_does_not_have_is_its_nearest_one() -> None:
    """A row would count in another table's cell, and an error would depend on the row."""
    rows = RowsInMemory(np.array([[2, 2], [1, 0]], np.int32), NAMES)

    class Beyond:
        cells = 2

        def cell_of(self, codes: Any) -> Any:
            return np.array([0, -5, 9])[codes]

    query = Marginals({"a": [("a", Beyond()), ("b", LEVELS)]})
    (found,) = rows.exact(query, Lot(None, np.empty((2, 0), np.uint64)))
    assert found.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_tables_of_many_rows_are_counted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(100, CASES["marginals"], 11)
    whole = Marginals(AXES).exact(rows)
    monkeypatch.setattr(tables, "BLOCK_ROWS", 7)
    assert all(np.array_equal(a, b) for a, b in zip(whole, Marginals(AXES).exact(rows), strict=True))
    assert np.array_equal(whole[1], [[((rows.codes == [a, b]).all(1)).sum() for b in range(3)] for a in range(3)])


@pytest.mark.parametrize("name, module", [("gradient sum", gradients), ("vector sum", vector_sums)])
def test_gradients_are_summed_in_chunks_on_one_core_and_on_several(
    name: str, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit, as those of all rows at once."""
    query = CASES[name]
    rows = rows_of(100, query, 13)
    found = [query.finished(query.exact(rows))]
    for cores, numbers in ((1, 50), (3, 50), (3, 7)):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        monkeypatch.setattr(module, "CHUNK_NUMBERS", numbers)
        found.append(query.finished(query.exact(rows)))
    for other in found[1:]:
        assert all(map(np.array_equal, found[0], other))


def test_answers_of_parts_come_in_their_order_on_one_core_and_on_several(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(50, CASES["marginals"], 12)
    lots = [(RowsInMemory(rows.codes[k : k + 5], NAMES), Lot(None, rows.draws[:0])) for k in range(0, 50, 5)]
    found = []
    for cores in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        found.append(list(parts.answers(Marginals(AXES), lots, [part for part, _ in lots])))
    for one, other in zip(*found, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_codes_on_disk_are_shown_and_copied_nowhere(tmp_path: Path) -> None:
    stored = StoredCodes([3, 3], tmp_path)
    stored.append(np.zeros((2, 2), np.int32))
    raw = RawRows(from_frame(pd.DataFrame({"a": [1, 2]})), CellKinds())
    (part,) = stored.parts(NAMES)
    assert torch.equal(part.encoded(features), features(np.zeros((2, 2), np.int32)))
    assert [repr(held) for held in (stored, part, raw)] == [
        "StoredCodes(private rows)", "StoredRows(private rows)", "RawRows(private rows)"
    ]  # fmt: skip
    attempts: list[Any] = [pickle.dumps, len, iter]
    for held in (stored, part, raw):
        assert not hasattr(held, "__dict__")
        for attempt in attempts:
            with pytest.raises(TypeError):
                attempt(held)


def test_shards_of_a_vault_in_parts_are_those_of_the_same_rows() -> None:
    codes = np.random.default_rng(6).integers(0, 3, (40, 2)).astype(np.int32)
    found = []
    for cuts in (None, [9, 30]):
        shards = vault(codes, cuts, None, 1.0).split_into_shards(4, one_hot, 3, CriticConfig(width=4))
        found.append(shards._Shards__rows)  # type: ignore[attr-defined]
    assert torch.equal(*found)


def one_hot(codes: Any) -> torch.Tensor:
    return torch.eye(3)[torch.from_numpy(codes.astype(np.int64))].flatten(1)


def test_parts_show_nothing() -> None:
    part = RowsInMemory(np.full((3, 2), 77, np.int32), NAMES)
    assert repr(part) == "RowsInMemory(private rows)" and not hasattr(part, "__dict__")
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(part)
    rows = rows_of(3, CASES["marginals"], 0)
    assert "array" not in repr(rows)


class Many:
    """A part of very many rows, whose sums fit in 64 bits by themselves."""

    count = 3 << 27


def test_parts_of_more_rows_than_exact_sums_hold_are_refused() -> None:
    """Each part's sum fits in 64 bits, and theirs together would not: an overflow would be silent."""
    ledger = Ledger(delta=1e-5, accountant="rdp", random_source="t", allowance={})
    parts: Any = [Many(), Many()]
    with pytest.raises(BudgetError, match="64 bits"):
        Vault(parts, NAMES, Releases(ledger, SeededEntropy(0)))


def test_rows_of_parts_must_be_those_of_the_patients() -> None:
    units = PrivacyUnits(np.arange(5), CAP)
    with pytest.raises(BudgetError, match="patients' rows"):
        vault(np.zeros((6, 2), np.int32), [2], units, 1.0)


def test_more_rows_of_a_patient_than_are_asked_for_are_in_the_last_cell() -> None:
    """A query of fewer rows than the cap: its answer has the size that it states, whatever the rows."""
    units = PrivacyUnits(np.array([0, 0, 0, 1, 2, 2, 2, 2, 2]), CAP)
    room = vault(np.zeros((9, 2), np.int32), None, units, 1.0)
    assert room.measure("m", RowsPerPatient(2)).shape == (2,)
    rows = CodedRows(np.zeros((9, 2), np.int32), NAMES, np.empty((9, 0), np.uint64), units)
    query = RowsPerPatient(2)
    assert query.finished(query.exact(rows))[0].tolist() == [1, 2]
