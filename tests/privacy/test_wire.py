"""What is read of a query comes from whoever wrote it: it is what its kind declares, or one clear error."""

import contextlib
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from medsynth.errors import BudgetError, QueryError
from medsynth.privacy.networks import Mlp
from medsynth.privacy.pair_clipping import Groups, LocalTraining
from medsynth.privacy.queries import wire
from medsynth.privacy.queries.cells import ALL_CODES, EveryCode, Regrouped
from medsynth.privacy.queries.gradients import GradientSum, NormsBelow, PairGradientSum, minus_output
from medsynth.privacy.queries.kinds import KINDS, kind
from medsynth.privacy.queries.moments import SecondMoments
from medsynth.privacy.queries.query import Scale
from medsynth.privacy.queries.tables import Distances, Marginals, RowsPerPatient
from medsynth.privacy.queries.wire import Columns, public_rows, read, read_features, write
from medsynth.transforms.grid import Grid

COLUMNS = Columns({"a": 5, "b": 3})
FIVE, THREE = Grid(np.array([0, 2, 4]), 1), Regrouped(Grid(np.arange(4), 0), np.array([0, 1, 0]), 2)
TABLES: dict[str, Any] = {"ab": [("a", FIVE), ("b", THREE)], "every": [("a", EveryCode(5))], "n": [("", ALL_CODES)]}
MARGINALS = Marginals(TABLES, {"ab": 2.0, "every": 1.0, "n": 0.5}, centred=("every",))


def tree(query: Any) -> tuple[Any, dict[str, Any]]:
    """A query's JSON and arrays as they are written."""
    content = write(query, COLUMNS)
    size = int.from_bytes(content[:8], "little")
    return json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["content"]), load(content)


def packed(plain: Any, arrays: Any) -> bytes:
    return save(arrays, {"content": json.dumps(plain)})


def refused(content: bytes) -> str:
    with pytest.raises(QueryError) as caught:
        read(content, COLUMNS)
    assert caught.value.__cause__ is None and "\n" not in str(caught.value)
    return str(caught.value)


def test_a_query_comes_back() -> None:
    again = read(write(MARGINALS, COLUMNS), COLUMNS)
    assert isinstance(again, Marginals) and again.weights == MARGINALS.weights
    assert again.centred == MARGINALS.centred
    assert read(packed(*tree(MARGINALS)), COLUMNS).sensitivity(None) == MARGINALS.sensitivity(None)


def test_public_rows_hold_every_code() -> None:
    rows = public_rows(COLUMNS)
    assert set(rows[:, 0]) == set(range(5)) and set(rows[:, 1]) == set(range(3))
    long = public_rows(Columns({"a": 10**6}))[:, 0]
    assert len(long) == wire.TRIED_CODES and long[0] == 0 and long[-1] == 10**6 - 1
    assert public_rows(Columns({})).shape == (1, 0)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_bytes_that_were_changed_are_a_query_or_an_error(data: Any) -> None:
    content = bytearray(write(MARGINALS, COLUMNS))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    with contextlib.suppress(QueryError):
        assert isinstance(read(bytes(content[:cut]) if cut % 2 else bytes(content), COLUMNS), Marginals | Distances)


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"[]", pickle.dumps(MARGINALS.weights), b"\xff" * 64])
def test_foreign_bytes_are_refused(content: bytes) -> None:
    refused(content)


def at(plain: Any, path: Any) -> Any:
    for step in path:
        plain = plain[step]
    return plain


AXES = ("query", "fields", "tables", "map", 0, 1, "list")
CELLS = (*AXES, 0, "list", 1)
CHANGES: dict[str, tuple[Any, Any, Any, str]] = {
    "another version": ((), "format", 2, "another version"),
    "an unknown kind": (("query",), "kind", "os.system", "KeyError"),
    "a kind that is no query": ((), "query", {"kind": "every code", "fields": {"cells": 3}}, "hold no query"),
    "no fields": (("query",), "fields", {}, "other fields"),
    "a field more": (("query", "fields"), "more", 1, "other fields"),
    "a word for a number": ((*CELLS, "fields"), "gaps", "1", "'gaps'"),
    "a truth for a number": ((*CELLS, "fields"), "gaps", True, "'gaps'"),
    "a number for a map": ((*AXES, 0, "list"), 1, 7, "'tables'"),
    "a query for a map": ((*AXES, 0, "list"), 1, {"kind": "RowsPerPatient", "fields": {"most": 2}}, "'tables'"),
    "an axis of three": ((*AXES, 0, "list"), slice(2, 2), [1], "'tables'"),
    "a column that is not there": ((*AXES, 0, "list"), 0, "c", "ValueError"),
    "negative missing values": ((*CELLS, "fields"), "gaps", -1, "ascend"),
    "a weight of zero": (("query", "fields", "weights", "map", 0), 1, 0.0, "above zero"),
    "a weight that is all noise": (("query", "fields", "weights", "map", 0), 1, 5e-324, "above zero"),
    "a centred table that is not there": (("query", "fields", "centred", "list"), 0, "b", "not among"),
    "a centred table of one cell": (("query", "fields", "centred", "list"), 0, "n", "two cells"),
    "a weight that is missing": (("query", "fields", "weights", "map"), slice(0, 1), [], "for each table"),
    "an array that is not there": ((*CELLS, "fields"), "edges", {"array": "77"}, "KeyError"),
    "an array of another type": ((*CELLS, "fields"), "edges", {"tensor": "0"}, "'edges'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_not_as_declared_is_refused(name: str) -> None:
    path, key, value, says = CHANGES[name]
    plain, arrays = tree(MARGINALS)
    at(plain, path)[key] = value
    assert says in refused(packed(plain, arrays))


def test_arrays_are_of_their_type_and_finite() -> None:
    plain, arrays = tree(Distances({"a": TABLES["every"]}, {"a": np.ones(5)}))
    (guess,) = [key for key, array in arrays.items() if array.dtype == np.float64]
    for wrong, says in (
        (np.full(5, np.nan), "finite"), (np.full(5, np.inf), "finite"), (np.ones(5, np.float32), "'guesses'"),
        (np.ones(4), "shape"), (np.full(5, 2.0**60), "guess"), (np.ones(5, np.uint8), "not written"),
    ):  # fmt: skip
        assert says in refused(packed(plain, {**arrays, guess: wrong}))
    plain, arrays = tree(MARGINALS)
    assert "ascend" in refused(packed(plain, {**arrays, "0": np.array([0, 4, 2])}))
    assert "first is zero" in refused(packed(plain, {**arrays, "0": np.array([1, 2, 4])}))  # code 0 has no cell


def test_a_map_has_a_cell_for_every_code_of_its_column() -> None:
    assert "a code has no cell" in refused(write(Marginals({"a": [("a", EveryCode(4))]}), COLUMNS))


@pytest.mark.parametrize(
    ("part", "wrong", "says"),
    [
        ("sensitivity", math.inf, "not finite"), ("sensitivity", math.nan, "not finite"),
        ("scales", [Scale(0.0)], "no scale"), ("scales", [Scale(math.inf)], "no scale"),
        ("scales", [Scale(1.0, 0.0)], "no scale"),
    ],
)  # fmt: skip
def test_a_class_that_states_no_usable_noise_is_refused(
    part: str, wrong: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No class does: what each holds is checked when it is made. This is the second line."""
    content = write(RowsPerPatient(3), COLUMNS)
    monkeypatch.setattr(RowsPerPatient, part, lambda *_: wrong)
    assert says in refused(content)


def test_pools_and_networks_hold_finite_numbers() -> None:
    """No class checks these when it is made: they are tensors of a training that made them."""
    plain, arrays = tree(NormsBelow(CRITIC, pair_loss, two_columns, torch.zeros(3, 2), GROUPS))
    numbers = [key for key, array in arrays.items() if array.dtype.kind == "f"]
    assert len(numbers) > 2
    for key in numbers:
        assert "finite" in refused(packed(plain, {**arrays, key: np.full_like(arrays[key], np.nan)}))


def test_answers_of_too_many_numbers_are_refused_before_they_are_made() -> None:
    wide: Any = {"a": [("a", EveryCode(2**20)), ("b", EveryCode(2**20))]}
    vectors: Any = two_columns
    for made, says in (
        (lambda: Marginals(wide), "too many numbers"),
        (lambda: Distances(wide, {"a": np.zeros((1, 1))}), "too many numbers"),
        (lambda: SecondMoments(vectors, ("a", FIVE), 2**20), "too many numbers"),
        (lambda: RowsPerPatient(2**40), "rows of a patient"),
    ):
        with pytest.raises(QueryError, match=says):
            made()
    plain, arrays = tree(RowsPerPatient(3))
    plain["query"]["fields"]["most"] = 2**40
    assert "rows of a patient" in refused(packed(plain, arrays))


@kind("test: two columns")
def two_columns(codes: Any) -> torch.Tensor:
    return torch.from_numpy(codes.astype(np.float32))


@kind("test: no numbers")
def no_numbers(codes: Any) -> torch.Tensor:
    return torch.full((len(codes), 2), torch.inf)


@kind("test: pairs")
def pair_loss(critic: Any, real: torch.Tensor, fake: torch.Tensor, mix: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = critic(real) - mix * critic(fake)
    return found


CRITIC = Mlp([2, 3, 1], "tanh")
GROUPS = Groups(torch.arange(13) % 2, (0.3, 2.0))


def test_gradients_must_fit_their_critic() -> None:
    query = GradientSum(CRITIC, minus_output, two_columns, 1.0, 4)
    again = read(write(query, COLUMNS), COLUMNS)
    assert isinstance(again, GradientSum) and again.features is two_columns and again.microbatches == 4
    assert all(map(torch.equal, again.critic.parameters(), CRITIC.parameters()))
    assert "Error" in refused(write(GradientSum(Mlp([3, 1]), minus_output, two_columns, 1.0), COLUMNS))
    plain, arrays = tree(query)
    for name, value in (("bound", 0.0), ("bound", -1.0), ("microbatches", 0), ("microbatches", 2**40)):
        changed = {**plain["query"]["fields"], name: value}
        assert "BudgetError" in refused(packed({**plain, "query": {**plain["query"], "fields": changed}}, arrays))
    wrong: list[Any] = [two_columns, pair_loss]
    for loss in wrong:  # of another shape
        assert "Error" in refused(write(GradientSum(CRITIC, loss, two_columns, 1.0), COLUMNS))
    pairs = PairGradientSum(CRITIC, pair_loss, two_columns, torch.zeros(3, 2), GROUPS)
    assert isinstance(read(write(pairs, COLUMNS), COLUMNS), PairGradientSum)
    local = LocalTraining(3, 0.25)
    many = write(PairGradientSum(CRITIC, pair_loss, two_columns, torch.zeros(3, 2), GROUPS, local), COLUMNS)
    again_with = read(many, COLUMNS)
    assert isinstance(again_with, PairGradientSum) and again_with.local == local
    plain, arrays = tree(again_with)
    odd: list[tuple[str, Any]] = [("steps", 0), ("steps", 10**9), ("rate", 0.0), ("rate", "fast")]
    for name, value in odd:
        spoilt = json.loads(json.dumps(plain))
        spoilt["query"]["fields"]["local"]["fields"][name] = value
        assert ("not of its type" if value == "fast" else "BudgetError") in refused(packed(spoilt, arrays))
    assert "Error" in refused(write(NormsBelow(CRITIC, pair_loss, two_columns, torch.zeros(3, 5), GROUPS), COLUMNS))


def test_pairs_without_a_pool_or_with_other_groups_are_refused() -> None:
    for pool in (torch.zeros(0, 2), torch.zeros(2)):
        with pytest.raises(BudgetError, match="pool"):
            NormsBelow(CRITIC, pair_loss, two_columns, pool, GROUPS)
    with pytest.raises(BudgetError, match="needs a group"):
        NormsBelow(CRITIC, pair_loss, two_columns, torch.zeros(3, 2), Groups(torch.arange(5) % 2, (0.3, 2.0)))


def test_a_network_is_of_linear_layers_and_known_activations() -> None:
    plain, arrays = tree(GradientSum(CRITIC, minus_output, two_columns, 1.0))
    network = plain["query"]["fields"]["critic"]
    assert "known form" in refused(packed(with_critic(plain, {**network, "network": "eval"}), arrays))
    fewer = {**network, "weights": network["weights"]}
    fewer["weights"] = (
        {"list": fewer["weights"]["list"][:-1]} if isinstance(fewer["weights"], dict) else fewer["weights"][:-1]
    )
    assert "known form" in refused(packed(with_critic(plain, fewer), arrays))


def with_critic(plain: Any, network: Any) -> Any:
    fields = {**plain["query"]["fields"], "critic": network}
    return {**plain, "query": {**plain["query"], "fields": fields}}


def test_features_are_tried_too() -> None:
    assert read_features(write(two_columns, COLUMNS), COLUMNS) is two_columns
    foreign: list[Any] = [no_numbers, minus_output, MARGINALS]
    for wrong in foreign:
        with pytest.raises(QueryError):
            read_features(write(wrong, COLUMNS), COLUMNS)


def test_what_no_other_could_read_is_not_written() -> None:
    with pytest.raises(QueryError, match="not registered"):
        write(GradientSum(CRITIC, minus_output, lambda codes: torch.zeros(len(codes), 2), 1.0), COLUMNS)
    with pytest.raises(QueryError, match="not finite"):
        write(NormsBelow(CRITIC, pair_loss, two_columns, torch.full((3, 2), torch.nan), GROUPS), COLUMNS)
    with pytest.raises(QueryError, match="type"):
        write(NormsBelow(CRITIC, pair_loss, two_columns, torch.zeros(3, 2, dtype=torch.complex64), GROUPS), COLUMNS)


def test_a_query_of_patients_needs_no_column() -> None:
    assert isinstance(read(write(RowsPerPatient(3), Columns({})), Columns({})), RowsPerPatient)


def test_all_kinds_are_frozen_or_functions() -> None:
    for name, known in KINDS.items():
        assert not isinstance(known, type) or known.__dataclass_params__.frozen, name  # type: ignore[attr-defined]
        assert isinstance(known, type) or known.__closure__ is None, name
