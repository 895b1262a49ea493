"""Calls on several cores: results in their order, calls no further ahead than said, errors in their turn."""

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from medsynth.cores import in_order


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_results_come_in_order_and_calls_are_taken_when_due(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    taken = list[int]()

    def calls() -> Iterator[Callable[[], int]]:
        for k in range(20):
            taken.append(k)
            yield partial(pow, k, 2)

    for k, found in enumerate(in_order(calls(), 100)):
        assert found == k**2 and len(taken) <= k + 1 + cores
    assert taken == list(range(20))


def test_calls_run_beside_one_another_and_no_more_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that wait for each other end; with at most one at a time, all are made in this thread."""
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    both = threading.Barrier(2, timeout=60)
    assert len(list(in_order([both.wait] * 2, 2))) == 2
    here = {threading.get_ident()}
    assert set(in_order([threading.get_ident] * 3, 1)) == here == set(in_order([threading.get_ident] * 3, 0))
    assert here.isdisjoint(in_order([threading.get_ident] * 3, 2))


@pytest.mark.parametrize("cores", [1, 2])
def test_an_error_comes_in_its_turn_and_ends_what_has_not_begun(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    made = list[int]()

    def call(k: int) -> int:
        made.append(k)
        return 1 // (3 - k)

    found = in_order((partial(call, k) for k in range(50)), 50)
    assert [next(found) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(found)
    assert len(made) <= 4 + cores


def test_a_call_that_is_one_of_several_makes_its_own_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many threads as cores, however calls are nested; and this thread may ask for several again."""
    monkeypatch.setattr("os.cpu_count", lambda: 3)

    def nested() -> bool:
        return set(in_order([threading.get_ident] * 4, 4)) == {threading.get_ident()}

    assert all(in_order([nested] * 4, 4))
    assert not nested()
