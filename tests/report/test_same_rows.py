"""Members, controls and synthetic rows are the same kind of rows: those with a target, in every table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from medsynth.report.data.columns import cells_of
from medsynth.report.data.over_time import sequences
from medsynth.report.data.tables import Tables, gather
from medsynth.report.sections.attacks import attacks, whole_patients
from medsynth.report.sections.fidelity import fidelity
from medsynth.schema import Schema

SHARE = 0.4  # of the rows that have no target


def people(rows: int, seed: int) -> pd.DataFrame:
    """Rows of one population; in two of five, the target is not known."""
    rng = np.random.default_rng(seed)
    sick = rng.choice(["yes", "no"], rows).astype(object)
    sick[rng.random(rows) < SHARE] = ""
    return pd.DataFrame({"a": rng.normal(size=rows).round(3), "b": rng.normal(size=rows).round(3), "sick": sick})


def gathered(real: pd.DataFrame, synthetic: pd.DataFrame, train: pd.DataFrame, **more: Any) -> Tables:
    own: dict[str, Any] = {"target": "sick", "schema": None, "rng": np.random.default_rng(0), **more}
    return gather(cells_of(real), cells_of(synthetic), cells_of(train), disjoint=True, **own)


def test_rows_without_a_target_are_left_out_of_every_table() -> None:
    """Nobody is copied, so no attack finds anybody: 40 % missing targets on one side alone would be found.

    The seed is fixed: it cannot fail by chance.
    """
    tables = gathered(people(400, 1), people(500, 2), people(450, 3))
    frames = [tables.real, tables.synthetic, tables.train, *tables.baseline]
    assert all(frame is not None and frame["sick"].isin(["yes", "no"]).all() for frame in frames)
    assert any("Rows without the target 'sick' are left out" in note for note in tables.notes)
    found = attacks(tables, ["sick"], np.random.default_rng(0))
    assert found is not None and found.fair
    assert all(m.advantage.low is not None and m.advantage.low <= 0 for m in found.membership)
    column = next(c for c in fidelity(tables, np.random.default_rng(0)).columns if c.name == "sick")
    assert column.similarity > 0.9 and column.missing_real == column.missing_synthetic == 0


def test_classes_have_one_text_whether_or_not_another_row_lacks_its_target() -> None:
    """A whole number is read as 1 in a table without a gap, and as 1.0 next to one."""
    rng = np.random.default_rng(0)

    def rows(gap: bool) -> pd.DataFrame:
        sick = [str(k) for k in rng.integers(0, 2, 50)]
        return pd.DataFrame({"a": rng.normal(size=50).round(2), "sick": ["", *sick[1:]] if gap else sick})

    for gaps in ((False, True, False), (True, False, False), (False, False, True), (True, True, True)):
        tables = gathered(*(rows(gap) for gap in gaps))
        found = [frame["sick"] for frame in (tables.real, tables.synthetic, tables.train) if frame is not None]
        assert set(pd.concat(found, ignore_index=False).astype(str)) in ({"0", "1"}, {"0.0", "1.0"})
        assert len({frame.dtype for frame in found}) == 1


def test_patients_of_both_tables_leave_the_training_rows_though_they_have_no_target_there() -> None:
    """Else a member has no rows in order, and gets another patient's score."""
    content: dict[str, Any] = {
        "name": "t", "target": "sick", "unit": "pid", "order": "day", "max_rows": 3,
        "columns": {
            "pid": {"kind": "identifier"}, "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
            "a": {"kind": "continuous", "bounds": [-5, 5], "decimals": 3},
            "sick": {"kind": "binary", "levels": ["no", "yes"], "missing": True},
        },
    }  # fmt: skip
    schema = Schema.from_dict(content)

    def visits(first: int, seed: int) -> pd.DataFrame:
        rows = people(90, seed).drop(columns="b")
        day = [f"2020-01-{k % 28 + 1:02}" for k in range(90)]
        return rows.assign(pid=[f"P{first + k // 3}" for k in range(90)], day=day)

    real, train, synthetic = visits(0, 1), visits(25, 2), visits(900, 3)
    real.loc[real["pid"] == "P27", "sick"] = ""  # held out without a target, and among the training rows
    tables = gathered(real, synthetic, train, schema=schema)
    found = sequences(cells_of(real), cells_of(synthetic), cells_of(train), schema)
    members, controls = (np.unique(tables.patients[part]) for part in ("train", "real"))
    assert set(members) <= set(found["train"].patient) and not set(members) & set(controls)
    scored = whole_patients(found, tables.patients["train"], controls, controls, np.random.default_rng(0))
    assert len(scored[0][1]) == len(tables.patients["train"]) + len(controls)


def test_columns_that_the_model_has_lost_are_compared_by_nothing() -> None:
    """A level "other" in every row of both tables, and values read as missing in both, would look perfect."""
    schema = Schema.from_dict({"name": "t", "target": "sick", "columns": {
        "weight": {"kind": "categorical", "levels": ["other"], "unknown": "other"},
        "ward": {"kind": "categorical", "levels": ["A", "other"], "unknown": "other"},
        "dose": {"kind": "continuous", "bounds": [0, 9], "unknown": "missing", "missing": True},
        "a": {"kind": "continuous", "bounds": [-9, 9], "unknown": "missing", "missing": True},
        "sick": {"kind": "binary", "levels": ["no", "yes"], "missing": True},
    }})  # fmt: skip

    def rows(seed: int, weight: str) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        frame = people(300, seed)[["a", "sick"]].assign(
            weight=weight,
            ward=rng.choice(["A", "B"], 300, p=[0.3, 0.7]),
            dose=rng.choice(["1.5", "5 mg"], 300, p=[0.8, 0.2]),
        )
        return frame.assign(weight=[f"{k} kg" for k in range(300)]) if weight == "kg" else frame

    tables = gathered(rows(1, "kg"), rows(2, "other"), rows(3, "kg"), schema=schema, learned=True)
    lost, told = (next(n for n in tables.notes if n.startswith(start)) for start in ("LOST", "Of all real cells"))
    assert "weight" in lost and all(f"{name} " in told for name in ("ward", "dose")) and "weight" not in told
    found = fidelity(tables, np.random.default_rng(0))
    similar = {column.name: column.similarity for column in found.columns}
    assert sorted(similar) == ["a", "dose", "sick", "ward", "weight"] and found.lost == ["weight"]
    assert similar["weight"] == 0 and similar["ward"] <= 0.4 and similar["dose"] <= 0.9  # what is lost is different
    assert found.one_way < found.one_way_ceiling - 0.3 and found.two_way_gap.low > 0.4
    assert "weight" not in found.names and "weight" in tables.names
    assert "weight" in tables.baseline[0]  # the loss of utility counts what the real column predicts
    own = gathered(rows(1, "kg"), rows(2, "other"), rows(3, "kg"), schema=schema)
    assert own.lost == {} and not any("LOST" in note for note in own.notes)  # a person declared "other"
