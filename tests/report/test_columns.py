"""The report's values are the fit's: every column kind decodes to what is compared; a broken cell is missing."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.io.table import from_frame
from medsynth.report.data import protocol
from medsynth.report.data import tables as inputs
from medsynth.report.data.columns import cells_of, comparable, known_cells, number_columns, words
from medsynth.report.sections.plausibility import plausibility
from medsynth.schema import Schema
from medsynth.schema.codec import csv_cells, encode
from medsynth.schema.columns.registry import KINDS

COLUMNS: dict[str, Any] = {
    "record": {"kind": "identifier", "shape": "MRN-####"},
    "admitted": {"kind": "date", "bounds": ["2015-01-01", "2024-12-31"], "format": "%d.%m.%Y"},
    "discharged": {"kind": "date", "after": "admitted", "bounds": [0, 60], "format": "%d.%m.%Y", "missing": True},
    "seen": {"kind": "date", "bounds": ["2015-01-01", "2024-12-31"], "missing": ["1900-01-01", "9999-12-31"]},
    "visits": {"kind": "count", "bounds": [0, 20], "missing": [-9, -8]},
    "age": {"kind": "count", "bounds": [18, 90]},
    "tsh": {"kind": "continuous", "bounds": [0, 9], "decimals": 1, "missing": [-9, "refused", ""]},
    "crp": {"kind": "continuous", "bounds": [0, 500], "scale": "log", "decimals": 2, "missing": True},
    "smokes": {"kind": "binary", "levels": ["no", "yes"], "missing": ["refused", ""]},
    "icu": {"kind": "binary", "levels": [False, True], "missing": True},
    "score": {"kind": "categorical", "levels": [1, 2, 3], "missing": True},
    "ward": {"kind": "categorical", "levels": ["A", "B", "other"], "unknown": "other"},
    "grade": {"kind": "ordinal", "levels": ["mild", "grave"]},
    "icd": {"kind": "categorical", "hierarchy": "icd10", "levels": ["E11", "J", "other"], "unknown": "other",
            "missing": True},
    "sick": {"kind": "binary", "levels": [0, 1]},
}  # fmt: skip
DATES = ("admitted", "discharged", "seen")


def schema(**columns: Any) -> Schema:
    return Schema.from_dict({"name": "t", "target": "sick", "columns": COLUMNS | columns})


def rows(count: int = 300) -> pd.DataFrame:
    """Cells of text as hands write them: beyond the bounds, too many decimals, 2.0 for 2, True for true."""
    rng = np.random.default_rng(0)

    def some(*cells: Any) -> Any:
        return rng.choice(np.array([str(cell) for cell in cells], dtype=object), count)

    first = pd.Timestamp("2016-03-01") + pd.to_timedelta(rng.integers(0, 3000, count), "D")
    last = (first + pd.to_timedelta(rng.integers(0, 90, count), "D")).strftime("%d.%m.%Y")
    return pd.DataFrame({
        "record": [f"MRN-{k:04}" for k in range(count)],
        "admitted": first.strftime("%d.%m.%Y"),
        "discharged": np.where(rng.random(count) < 0.2, "", last),
        "seen": some("2019-05-06", "2010-01-01", "2024-12-31", "1900-01-01", "9999-12-31"),
        "visits": some(0, 3, "7.0", 99, -9, "-8.0"),
        "age": some(18, 45, "46.0", 120),
        "tsh": some(0.1, 0.349, 4, 12, -9, "refused", "NA"),
        "crp": some(0, 0.01, "1e2", 12.345, "", "nan"),
        "smokes": some("no", "yes", "refused", "NA"),
        "icu": some("True", "false", "FALSE", ""),
        "score": some(1, "2.0", 3, "NA"),
        "ward": some("A", "B", "Z"),
        "grade": some("mild", "grave"),
        "icd": some("E11.9", "E10", "J45", "not a code", ""),
        "sick": some(0, 1),
    })  # fmt: skip


def test_real_rows_are_compared_as_the_fit_encodes_and_decodes_them() -> None:
    """Against the codec's own texts, for every kind of column that there is."""
    declared, cells, notes = schema(), cells_of(rows()), list[str]()
    assert {column.kind for column in declared.columns.values()} == set(KINDS)
    numbers = number_columns(cells, declared)
    found = comparable(cells, declared, numbers, "real", notes)
    core = declared.core
    codes = encode(from_frame(rows()), core)
    texts = csv_cells(codes, core)
    assert not notes and "record" not in found
    for k, (name, column) in enumerate(core.columns.items()):
        known, values = codes[:, k] < column.size, found[name]
        assert (values.notna().to_numpy() == known).all(), name
        if name in DATES:
            assert np.array_equal(values[known] * 365.2425, column.cell_values(texts[name][known])), name
        elif name in numbers:
            assert values.dtype.kind in "if" and values[known].tolist() == texts[name][known].astype(float).tolist()
        else:
            assert words(values[known]).tolist() == texts[name][known].tolist(), name
        if column.gaps > 1:
            labels = np.array([*(word or "empty" for word in column.gap_words), "known"], dtype=object)
            assert (found[f"{name}: missing"] == labels[np.where(known, -1, codes[:, k] - column.size)]).all()


def test_a_frame_and_its_file_are_compared_alike(tmp_path: Path) -> None:
    """A number that pandas reads as a float is the number that the file has, also a date and a boolean."""
    frame = rows().replace("", None)
    frame["admitted"] = pd.to_datetime(frame["admitted"], format="%d.%m.%Y")
    frame["visits"], frame["sick"] = frame["visits"].astype(float), frame["sick"].astype(int)
    frame["icu"] = frame["icu"].str.lower().map({"true": True, "false": False})
    rows().to_csv(tmp_path / "t.csv", index=False)
    read = inputs.read(tmp_path / "t.csv")
    one, other = (comparable(cells_of(t), schema(), frozenset(), "real", []) for t in (frame, read))
    pd.testing.assert_frame_equal(one, other)


def test_numbers_with_codes_of_missing_values_stay_numbers_for_classifiers() -> None:
    cells = cells_of(rows())
    tables = inputs.gather(cells, cells, None, "sick", schema(), np.random.default_rng(0))
    assert {"visits", "tsh"} <= tables.numbers and "visits: missing" not in tables.numbers
    x, _ = protocol.features(tables.real[["visits", "sick"]], tables.real[["visits", "sick"]], "sick")
    assert x.shape[1] == 1 and x.min() >= 0
    assert list(tables.classes()) == ["0", "1"]


@pytest.mark.parametrize(
    ("name", "cell", "what"),
    [
        ("admitted", "31.02.2020", "not a date"),
        ("age", "45y", "not a number"),
        ("age", "", "a missing value"),
        ("crp", "inf", "not a number"),
        ("visits", "-7", "outside"),
        ("grade", "severe", "a declared level"),
        ("sick", "2", "a declared level"),
        ("icu", "maybe", "a declared level"),
    ],
)
def test_a_broken_cell_of_a_foreign_table_is_missing_with_a_note(name: str, cell: str, what: str) -> None:
    strict = schema(visits={**COLUMNS["visits"], "out_of_range": "error"})
    good = rows().assign(visits="3", crp="1", icu="true")
    foreign = good.copy()
    foreign.loc[6, name] = cell
    tables = inputs.gather(cells_of(good), cells_of(foreign), None, "sick", strict, np.random.default_rng(0))
    lost = name == "sick"  # a row without a target takes no part, as another note says
    assert len(tables.notes) == 1 + lost and tables.notes[0].startswith(
        f"{name}: cells of the synthetic table count as missing"
    )
    assert what in tables.notes[0] and (not cell or cell not in tables.notes[0])
    assert len(tables.synthetic) == len(foreign) - lost and not tables.real[name].isna()[6]
    assert lost or tables.synthetic[name].isna()[6]
    if f"{name}: missing" in tables.synthetic:
        assert tables.synthetic[f"{name}: missing"].isna()[6]
    plausibility(strict, cells_of(good), cells_of(foreign))


def test_a_date_whose_other_date_is_not_there_is_left_out_with_a_note() -> None:
    cells = cells_of(rows())
    tables = inputs.gather(
        cells, cells.drop(columns="admitted"), None, "sick", schema(), np.random.default_rng(0)
    )  # fmt: skip
    assert not {"admitted", "discharged"} & set(tables.names)
    assert any("admitted, discharged" in note for note in tables.notes)


def test_levels_written_otherwise_are_declared_levels() -> None:
    cells = cells_of(rows())
    assert set(known_cells(cells, schema())["icd"].dropna()) == {"E11", "J", "other"}
    broken = {(rule.column, rule.rule): rule.synthetic for rule in plausibility(schema(), None, cells).rules}
    for name in ("score", "icu", "smokes", "grade", "icd", "sick"):
        assert broken[(name, "a declared level")] == 0, name
    assert broken[("ward", "a declared level")] > 0


def test_without_a_schema_columns_are_numbers_or_words() -> None:
    frame = pd.DataFrame(
        {"x": ["1", "2.5", "NA"] * 3, "flag": ["True", "false", ""] * 3, "code": ["007", "8", "9"] * 3}
    )
    numbers, notes = number_columns(frame, None), list[str]()
    found = comparable(frame, None, numbers, "real", notes)
    assert numbers == {"x"} and found["x"].tolist()[:2] == [1.0, 2.5] and found["x"].isna()[2]
    assert found["flag"].dropna().unique().tolist() == ["true", "false"] and found["code"][0] == "007"
    foreign = comparable(frame.assign(x=["high", "1", "2"] * 3), None, numbers, "synthetic", notes)
    assert foreign["x"].isna().sum() == 3 and notes == [
        "x: cells of the synthetic table count as missing: not a number."
    ]
