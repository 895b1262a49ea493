"""What successive rows say, against tables worked out by hand, and against the simulator's exact laws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data import visits

from medsynth.report.data import over_time as successive
from medsynth.report.data.columns import cells_of
from medsynth.report.data.over_time import Sequences, sequences
from medsynth.schema import Schema


def made(patients: list[int], x: list[float], state: list[str | None], time: list[float] | None = None) -> Sequences:
    rows = pd.DataFrame({"x": x, "state": pd.Series(state, dtype=object)})
    when = None if time is None else np.array(time)
    return Sequences(rows, np.array(patients), when, frozenset(["x"]), ("x", "state"))


BY_HAND = made([0, 0, 0, 1, 2, 2], [1.0, 2.0, 2.0, 9.0, 4.0, np.nan], ["a", "b", "b", "c", "b", None],
               [0.0, 10.0, 15.0, 3.0, 7.0, 9.0])  # fmt: skip
CODES = np.array([0, 1, 1, 2, 1, 3])


def test_transitions_are_counted_within_patients() -> None:
    counts = successive.transitions(BY_HAND, CODES, 4)
    wanted = np.zeros((4, 4))
    wanted[0, 1] = wanted[1, 1] = wanted[1, 3] = 1
    assert (counts == wanted).all()


def test_the_distance_of_transitions_weighs_rows_by_how_often_they_are_left() -> None:
    one = np.array([[6.0, 2.0], [1.0, 1.0]])
    other = np.array([[1.0, 1.0], [0.0, 4.0]])
    assert successive.transition_distance(one, other) == pytest.approx(0.8 * 0.25 + 0.2 * 0.5)
    # A level that the other table never leaves from is wholly different.
    assert successive.transition_distance(one, np.array([[3.0, 1.0], [0.0, 0.0]])) == pytest.approx(0.2)
    assert successive.transition_distance(one, one * 7) == 0
    assert successive.transition_distance(np.zeros((2, 2)), one) is None


def test_unchanged_counts_pairs_in_which_both_are_known() -> None:
    assert successive.unchanged(BY_HAND, "x") == 0.5  # 1 to 2, 2 to 2; the third pair lacks a value
    assert successive.unchanged(BY_HAND, "state") == 0.5
    assert successive.unchanged(made([0, 1], [1.0, 2.0], ["a", "b"]), "x") is None


def test_autocorrelation_is_pearsons_over_known_pairs() -> None:
    rng = np.random.default_rng(0)
    last, now = rng.normal(size=30), rng.normal(size=30)
    both = np.stack([last, now], 1).ravel().tolist()
    table = made(np.repeat(np.arange(31), 2).tolist(), [*both, 1.0, np.nan], ["a"] * 62)
    assert successive.autocorrelation(table, "x") == pytest.approx(np.corrcoef(last, now)[0, 1])
    assert successive.autocorrelation(BY_HAND, "x") is None  # too few
    assert successive.autocorrelation(made([0] * 20, [1.0] * 20, ["a"] * 20), "x") is None


def test_rows_gaps_and_waiting() -> None:
    assert successive.rows_counts(BY_HAND, 3).tolist() == [1, 1, 1]
    assert successive.rows_counts(BY_HAND, 2).tolist() == [1, 2]
    gaps = successive.gaps(BY_HAND)
    assert gaps is not None and gaps.tolist() == [10, 5, 2]
    assert successive.gap_counts(BY_HAND, np.array([3.0, 6.0, 8.0])).tolist() == [2, 1]
    # Of six rows one is followed within 2 days, two within 5, three at all.
    assert successive.waiting(BY_HAND, np.array([0.0, 2.0, 5.0, 99.0])) == pytest.approx([1, 5 / 6, 4 / 6, 0.5])
    keys = made([0, 0], [1.0, 2.0], ["a", "b"])
    assert successive.gaps(keys) is None and np.isnan(successive.waiting(keys, np.array([1.0]))).all()
    assert successive.gap_counts(keys, np.array([0.0, 1.0])).tolist() == [0]


def test_total_variation() -> None:
    assert successive.total_variation(np.array([1.0, 1.0]), np.array([3.0, 1.0])) == pytest.approx(0.25)
    assert successive.total_variation(np.zeros(2), np.ones(2)) is None


def test_lagged_tables_are_of_the_last_row_by_this_one() -> None:
    """All patients go from (0, 1) to (1, 0): the first column follows the second one's value, beside always (0, 0)."""
    patients = np.repeat(np.arange(40), 2)
    one = np.tile([0, 1], 40)
    codes = np.stack([one, 1 - one], 1)
    still = np.stack([one * 0, one * 0], 1)
    table = made(patients.tolist(), [0.0] * 80, ["a"] * 80)
    own, across = successive.lagged(table, table, (codes, codes), [2, 2])
    assert own.tolist() == [1, 1] and across == 1
    own, across = successive.lagged(table, table, (codes, still), [2, 2])
    assert own.tolist() == [0, 0] and across == 0.5  # first by second: 0 and 0 in both; second by first: 1 and 1
    alone = made([0, 1], [0.0, 0.0], ["a", "a"])
    assert successive.lagged(table, alone, (codes[:, :1], codes[:2, :1]), [2])[1] == 0


def chains(patients: int, rng: np.random.Generator, apart: float = 0.0) -> tuple[Sequences, np.ndarray]:
    """Patients of one to five rows and two columns, which keep their last value but in a share of the rows; the share
    is larger by `apart` and differs between patients, so that rows of a patient are alike.
    """
    sizes = rng.integers(1, 6, patients)
    own = np.repeat(np.arange(patients), sizes)
    codes = np.stack([rng.integers(0, 3, patients)[own], rng.integers(0, 4, patients)[own]], 1)
    moves = rng.random((len(own), 2)) < (rng.random(patients) * (0.5 + apart))[own][:, None]
    codes = np.where(moves, rng.integers(0, [3, 4], codes.shape), codes)
    return made(own.tolist(), [0.0] * len(own), ["a"] * len(own)), codes


def some(whole: tuple[Sequences, np.ndarray], patients: int, rng: np.random.Generator) -> tuple[Sequences, np.ndarray]:
    kept = np.isin(whole[0].patient, rng.choice(whole[0].patient.max() + 1, patients, replace=False))
    return whole[0].of(kept), whole[1][kept]


def test_the_gap_is_the_difference_of_both_similarities() -> None:
    rng = np.random.default_rng(0)
    real, twin, other = chains(80, rng), chains(70, rng), chains(60, rng, 0.5)
    (own, _), (ceiling, _) = (successive.lagged(real[0], t, (real[1], codes), [3, 4]) for t, codes in (other, twin))
    gap = successive.lagged_gap([real, other, twin], [3, 4])
    assert gap.value == pytest.approx(ceiling.mean() - own.mean()) and gap.low < gap.value < gap.high  # type: ignore[operator]
    firsts = other[0].of(other[0].place == 0), other[1][other[0].place == 0]
    gap = successive.lagged_gap([real, firsts, twin], [3, 4])
    assert gap.value == pytest.approx(ceiling.mean()), "no row follows another: nothing is alike"


def test_patients_and_not_their_rows_are_independent() -> None:
    """The same pairs of rows, each of a patient of its own, have the same gap and a narrower interval."""
    rng = np.random.default_rng(1)
    tables, apart = [chains(80, rng), chains(70, rng, 0.5), chains(60, rng)], []
    for one, codes in tables:
        rows = np.stack([one.last, one.now], 1).ravel()
        own = np.repeat(np.arange(len(one.now)), 2)
        apart.append((made(own.tolist(), [0.0] * len(rows), ["a"] * len(rows)), codes[rows]))
    whole, single = (successive.lagged_gap(samples, [3, 4]) for samples in (tables, apart))
    assert single.value == pytest.approx(whole.value)
    widths = [(one.high or 0) - (one.low or 0) for one in (whole, single)]
    assert widths[0] > 1.1 * widths[1]


@pytest.mark.statistical
def test_the_interval_of_the_gap_contains_it() -> None:
    """At least 95 % of 200 tables of each kind, whose gap is the mean of all; seeds are fixed."""
    for apart in (0.0, 0.5):
        rng = np.random.default_rng([3, round(10 * apart)])
        whole = [chains(20_000, rng), chains(20_000, rng, apart), chains(20_000, rng)]
        drawn = [[some(one, 150, rng) for one in whole] for _ in range(200)]
        found = [successive.lagged_gap(samples, [3, 4]) for samples in drawn]
        middle = np.mean([one.value or 0.0 for one in found])
        assert np.mean([(one.low or 0) <= middle <= (one.high or 0) for one in found]) >= 0.95
        assert bool(middle > 0.02) is (apart > 0)


@pytest.mark.statistical
def test_the_simulators_truth_is_found() -> None:
    """The seed is fixed: it cannot fail by chance."""
    frame = visits.simulate(20_000, 5)
    found = sequences(None, cells_of(frame), None, Schema.load(visits.SCHEMA))["synthetic"]
    kept = successive.autocorrelation(found, "haemoglobin_g_l")
    assert kept == pytest.approx(visits.haemoglobin_autocorrelation(), abs=0.01)
    for name, matrix in visits.TRANSITIONS.items():
        codes = found.rows[name].map(visits.LEVELS[name].index).to_numpy(np.int64)
        truth = matrix * np.bincount(codes[found.last], minlength=len(matrix))[:, None]
        distance = successive.transition_distance(truth, successive.transitions(found, codes, len(matrix)))
        assert distance is not None and distance < 0.01
    rows = successive.rows_counts(found, visits.MOST_VISITS)
    assert (successive.total_variation(visits.rows_law(), rows) or 0) < 0.01
    edges = np.array([1.0, 8.0, 31.0, 91.0, 181.0, 366.0, 731.0])
    assert (successive.total_variation(visits.gaps_law(edges), successive.gap_counts(found, edges)) or 0) < 0.01
