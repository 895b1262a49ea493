"""What models say of patients over time: the next row's target, slopes of a mixed model, attacks on whole patients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.report.data import protocol
from medsynth.report.data.columns import cells_of
from medsynth.report.data.over_time import Sequences
from medsynth.report.data.tables import gather
from medsynth.report.sections import over_time_models as module
from medsynth.report.sections.attacks import as_points, attacks, whole_patients
from medsynth.report.sections.over_time_models import AIM, Unit, compared_aurocs, examples, next_row, slope, slopes
from medsynth.schema import Schema

pytestmark = pytest.mark.statistical  # each seed is fixed: none can fail by chance


def made(patients: list[int], time: list[float] | None, **columns: Any) -> Sequences:
    """Sequences of columns by name: texts are levels, others numbers."""
    rows = pd.DataFrame({name: pd.Series(values) for name, values in columns.items()})
    numbers = frozenset(str(name) for name in rows if rows[name].dtype != object)
    when = None if time is None else np.array(time)
    return Sequences(rows, np.array(patients), when, numbers, tuple(n for n in rows.columns if n != "sex"))


FOUR = made([0, 0, 0, 1], [0.0, 5.0, 6.0, 2.0], x=[1.0, 2.0, 3.0, 9.0], sick=["no", "yes", None, "no"],
            sex=["F", "F", "F", "M"])  # fmt: skip


def test_a_line_has_this_row_and_the_last_and_the_next_rows_target() -> None:
    lines, patients = examples(FOUR, "sick", ahead=1)
    assert patients.tolist() == [0]  # the second row's next one lacks its target
    wanted = {"row number": 0.0, "x": 1.0, "x, last row": np.nan, "sick": "no", "sick, last row": "none", "sex": "F",
              "time since the last row": np.nan, AIM: "yes"}  # fmt: skip
    pd.testing.assert_frame_equal(lines, pd.DataFrame([wanted]), check_dtype=False)


def test_a_line_without_a_look_ahead_hides_its_own_target() -> None:
    lines, patients = examples(FOUR, "sick", ahead=0)
    assert patients.tolist() == [0, 0, 1] and "sick" not in lines
    assert lines["sick, last row"].tolist() == ["none", "no", "none"] and lines[AIM].tolist() == ["no", "yes", "no"]
    assert lines["x, last row"].tolist()[1] == 1.0 and lines["time since the last row"].tolist()[1] == 5.0
    keys = made([0, 0], None, x=[1.0, 2.0], sick=["no", None])
    assert "time since the last row" not in examples(keys, "sick", ahead=1)[0]


def test_what_comes_next_is_learned_where_it_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that is the last row's: certain after real patients, a coin after synthetic ones without memory."""
    monkeypatch.setattr(protocol, "MOST_LEARNED", 150)
    rng = np.random.default_rng(0)

    def table(memory: bool) -> Sequences:
        first = rng.choice(["no", "yes"], 100)
        rows = np.repeat(first, 3) if memory else rng.choice(["no", "yes"], 300)
        return made(np.repeat(np.arange(100), 3).tolist(), None, x=rng.normal(size=300), sick=rows.tolist())

    found = next_row(table(True), table(False), table(True), "sick", rng)
    assert found is not None and found.rows == 200 and found.real.value == 1.0
    assert found.synthetic.value is not None and 0.2 < found.synthetic.value < 0.8
    assert found.loss.value == pytest.approx(1 - found.synthetic.value)
    assert next_row(FOUR, FOUR, FOUR, "sick", rng) is None and next_row(FOUR, FOUR, FOUR, "x", rng) is None
    assert next_row(FOUR, FOUR, FOUR, "no column", rng) is None


def test_patients_are_resampled_and_not_rows() -> None:
    """Ten patients of thirty equal rows say as much as ten rows: the interval is as wide."""
    rng = np.random.default_rng(0)
    x, patients = np.tile(rng.normal(size=10), 30), np.tile(np.arange(10), 30)
    aim = np.where(np.tile(rng.normal(size=10), 30) + x > 0, "yes", "no")
    lines = pd.DataFrame({"x": x, AIM: aim})
    wide, narrow = (
        compared_aurocs(lines, lines, lines.assign(x=-x), numbers, np.random.default_rng(1))["real"]
        for numbers in (patients, np.arange(300))
    )
    assert None not in (wide.low, wide.high, narrow.low, narrow.high)
    assert (wide.high or 0) - (wide.low or 0) > 2 * ((narrow.high or 0) - (narrow.low or 0))


def test_the_slope_of_a_balanced_table_is_the_mean_of_its_patients_slopes() -> None:
    """Patients with the same times: the fixed slope is the mean of their least-squares slopes, its error theirs."""
    rng = np.random.default_rng(0)
    years, patients = np.array([0.0, 1.0, 2.0, 4.0]), np.repeat(np.arange(60), 4)
    own = 0.7 + 0.8 * rng.normal(size=60)
    values = 3.0 * rng.normal(size=60)[patients] + own[patients] * np.tile(years, 60) + 0.5 * rng.normal(size=240)
    found = slope(made(patients.tolist(), (np.tile(years, 60) * 365.25 + 50.0).tolist(), x=values), "x", 365.25)
    each = np.polyfit(years, values.reshape(60, 4).T, 1)[0]
    assert found.value == pytest.approx(each.mean(), abs=1e-4)
    assert found.low is not None and found.high is not None
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * each.std(ddof=1) / np.sqrt(60), rel=0.01)


def test_two_rows_a_patient_give_a_slope_with_intercepts_alone() -> None:
    """Where slopes of their own have no maximum: least squares on differences, which is exact for two rows each."""

    def intercepts(values: Any, design: Any, patient: Any, random: Any) -> Any:
        return np.full(3, np.nan) if random is not None else module._wald(values, design, patient, random)

    rng = np.random.default_rng(0)
    patients = np.repeat(np.arange(50), 2)
    values = 3.0 * rng.normal(size=50)[patients] + 0.7 * np.tile([0.0, 1.0], 50) + rng.normal(size=100)
    sequences = made(patients.tolist(), np.tile([0.0, 1.0], 50).tolist(), x=values)
    found = slope(sequences, "x", 1.0, intercepts)
    steps = np.diff(values.reshape(50, 2), axis=1)[:, 0]
    assert found.value == pytest.approx(steps.mean(), abs=1e-4) and found.high is not None and found.low is not None
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * steps.std(ddof=1) / np.sqrt(50), rel=0.01)
    assert slope(sequences, "x", 1.0, lambda *_: np.full(3, np.nan)).value is None


def test_a_likelihood_without_a_maximum_is_no_slope() -> None:
    assert np.isnan(module._wald(np.ones(40), np.ones((40, 2)), np.zeros(40, np.int64), None)).all()


def test_a_slope_that_cannot_be_estimated_is_none() -> None:
    few = made([0, 0, 1], [0.0, 1.0, 0.0], x=[1.0, 2.0, 3.0])
    still = made([0] * 40, [5.0] * 40, x=np.arange(40.0))
    flat = made([0] * 40, list(range(40)), x=np.ones(40))
    keys = made([0] * 40, None, x=np.arange(40.0))
    assert all(slope(one, "x", 1.0).value is None for one in (few, still, flat, keys))
    rng = np.random.default_rng(0)
    assert slopes(keys, keys, Unit(1.0, "year"), frozenset(), rng) is None
    words = made([0, 0], [0.0, 1.0], sick=["no", "yes"])
    assert slopes(words, words, Unit(1.0, "year"), frozenset(), rng) is None


def test_slopes_of_both_tables_stand_beside_each_other() -> None:
    rng = np.random.default_rng(0)

    def table(rise: float) -> Sequences:
        patients, time = np.repeat(np.arange(40), 3), np.tile([0.0, 1.0, 2.0], 40)
        values = rng.normal(size=40)[patients] + rise * time + 0.3 * rng.normal(size=120)
        return made([*patients.tolist(), 99], [*time.tolist(), 0.0], x=[*values.tolist(), 0.0])

    found = slopes(table(1.0), table(-1.0), Unit(1.0, "year"), frozenset({"x"}), rng)
    assert found is not None and found.patients == 40 and found.columns[0].logarithm and found.per == "year"
    one, other = found.columns[0].real.value, found.columns[0].synthetic.value
    assert one == pytest.approx(1.0, abs=0.15) and other == pytest.approx(-1.0, abs=0.15)
    assert found.columns[0].overlap is not None and found.columns[0].overlap < 0


def test_a_patient_as_a_point_is_its_mean_first_and_last_row_and_their_number() -> None:
    table = made([0, 0, 1], None, x=[1.0, 2.0, 3.0])
    points = as_points([table, table.of(np.array([True, True, False]))])
    rank = np.array([1.5, 3.5, 5.0]) / 5  # of 1, 2, 3, 1, 2 together
    assert points[0] == pytest.approx(np.array([[rank[:2].mean(), rank[0], rank[1], 1.0], [rank[2]] * 3 + [0.5]]))
    assert len(points[1]) == 1


def test_an_attack_on_whole_patients_finds_copies(found: Any, parts: Any, schema: Schema) -> None:
    """Training patients as synthetic ones are found; other patients tell nothing."""
    train = parts[0].assign(patient_id="t" + parts[0]["patient_id"])
    for synthetic, leaks in ((train, True), (parts[2], False)):
        rng = np.random.default_rng(0)
        real, drawn, fitted = (cells_of(frame) for frame in (parts[1], synthetic, train))
        tables = gather(real, drawn, fitted, "flare", schema, rng, disjoint=True)
        made = attacks(tables, [], rng, found(synthetic), known={})
        assert made is not None
        named = {m.name: m.auroc.value or 0.0 for m in made.membership}
        for name in ("nearest patient", "nearest patient against reference"):
            assert named[name] > 0.95 if leaks else abs(named[name] - 0.5) < 0.12
        assert len(named) == 2


def test_every_candidate_row_has_the_score_of_its_patient() -> None:
    """Members are the synthetic patients themselves: each of their rows is nearer than each of the controls'."""
    rng = np.random.default_rng(0)
    train = made(np.repeat(np.arange(50, 80), 2).tolist(), None, x=np.arange(60.0))
    real = made(np.repeat(np.arange(30), 2).tolist(), None, x=np.arange(60.0) + 0.5)
    sequences = {"train": train, "real": real, "synthetic": train}
    members, controls = np.array([70, 51, 51, 79]), np.array([3, 0, 3])
    (_, score), _ = whole_patients(sequences, members, controls, np.arange(10, 30), rng)
    assert len(score) == 7 and (score[:4] == 0).all() and (score[4:] < 0).all() and score[4] == score[6] != score[5]
