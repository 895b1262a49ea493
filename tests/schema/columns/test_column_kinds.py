"""Dates, identifiers and ordinals: coded, modelled and given back in kind; keys are never a patient's."""

import io
import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.errors import SchemaError
from medsynth.io.table import from_frame
from medsynth.methods.bins import Bins
from medsynth.sampling import Draw
from medsynth.sampling import pipeline as sampling
from medsynth.schema import Date, Schema
from medsynth.schema.codec import column_values, csv_cells, decode, encode

COLUMNS: dict[str, dict[str, Any]] = {
    "record": {"kind": "identifier", "shape": "MRN-####"},
    "admitted": {"kind": "date", "bounds": ["2015-01-01", "2024-12-31"], "format": "%d.%m.%Y"},
    "discharged": {"kind": "date", "after": "admitted", "bounds": [0, 60], "format": "%d.%m.%Y", "missing": True},
    "grade": {"kind": "ordinal", "levels": ["mild", "moderate", "severe", "grave"]},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
}


def schema(**columns: Any) -> Schema:
    return Schema.from_dict({"name": "ward", "target": "sick", "columns": COLUMNS | columns})


def ward(rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    first = [date(2015, 1, 1) + timedelta(days=int(d)) for d in rng.integers(0, 3600, rows)]
    stay = rng.integers(0, 40, rows)
    last = [(a + timedelta(days=int(s))).strftime("%d.%m.%Y") if s else None for a, s in zip(first, stay, strict=True)]
    return pd.DataFrame({
        "record": [f"MRN-{9000 + k}" for k in range(rows)],
        "admitted": [d.strftime("%d.%m.%Y") for d in first],
        "discharged": last,
        "grade": rng.choice(COLUMNS["grade"]["levels"], rows),
        "sick": rng.choice(["no", "yes"], rows),
    })  # fmt: skip


def test_schema_comes_back_from_yaml_and_the_core_has_no_identifier() -> None:
    assert Schema.from_yaml(schema().to_yaml()) == schema()
    assert "record" not in schema().core.names


def test_dates_come_back_as_written_and_as_timestamps() -> None:
    frame, declared = ward(), schema().core
    codes = encode(from_frame(frame), declared)
    again = csv_cells(codes, declared)
    assert again["admitted"].tolist() == frame["admitted"].tolist()
    assert again["discharged"].tolist() == frame["discharged"].fillna("").tolist()
    stamps = decode(codes, declared)
    assert stamps["admitted"].dt.strftime("%d.%m.%Y").tolist() == frame["admitted"].tolist()
    assert stamps["discharged"].isna().tolist() == frame["discharged"].isna().tolist()


def test_timestamps_are_read_as_well() -> None:
    frame = ward()
    frame["admitted"] = pd.to_datetime(frame["admitted"], format="%d.%m.%Y")
    frame["discharged"] = pd.to_datetime(frame["discharged"], format="%d.%m.%Y")
    declared = schema().core
    assert (encode(from_frame(frame), declared) == encode(from_frame(ward()), declared)).all()


def test_ordinal_levels_are_neighbours() -> None:
    column = schema().columns["grade"]
    assert Bins.of(column, None, None, 20).ordered == 4
    assert Bins.of(schema().columns["sick"], None, None, 20).ordered == 0


@pytest.mark.parametrize(
    ("cell", "message"), [("31.02.2020", "not a date"), ("soon", "not a date"), ("", "the schema allows none")]
)
def test_what_is_no_date_is_refused_without_its_text(cell: str, message: str) -> None:
    frame = ward()
    frame.loc[6, "admitted"] = cell
    with pytest.raises(SchemaError, match=rf"'admitted', row 7: .*{message}") as error:
        encode(from_frame(frame), schema().core)
    assert not cell or cell not in str(error.value)


@pytest.mark.parametrize(
    "columns",
    [
        {"admitted": {"kind": "date", "bounds": ["2020-01-01", "2019-01-01"]}},
        {"admitted": {"kind": "date", "bounds": [0, 4]}},
        {"admitted": COLUMNS["admitted"] | {"format": "%Y"}},
        {"discharged": {"kind": "date", "after": "grade", "bounds": [0, 3]}},
        {"admitted": COLUMNS["admitted"] | {"missing": True}, "discharged": COLUMNS["discharged"] | {"missing": False}},
        {"record": {"kind": "identifier", "shape": "no digit"}},
        {"sick": {"kind": "identifier"}},
    ],
)
def test_what_cannot_be_declared(columns: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        schema(**columns)


def test_a_date_cannot_count_from_a_date_that_a_rule_computes() -> None:
    content: dict[str, Any] = {**schema().to_dict(), "rules": ["admitted = discharged - 3"]}
    content["columns"]["admitted"]["missing"] = True
    with pytest.raises(SchemaError, match="a rule must define it"):
        Schema.from_dict(content)


@pytest.mark.usefixtures("few_trees")
@pytest.mark.statistical
def test_fit_sample_and_report_on_a_ward(
    quick: None, seeded_entropy: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed is fixed: it cannot fail by chance."""
    monkeypatch.chdir(tmp_path)
    frame = ward()
    frame.to_csv("ward.csv", index=False)
    (tmp_path / "ward.schema.yaml").write_text(schema().to_yaml())
    run = CliRunner().invoke
    for words in (
        ["fit", "ward.csv", "--epsilon", "3", "--holdout", "0.3", "--seed", "0"],
        ["sample", "-n", "300", "--seed", "0"],
        ["report"],
    ):
        done = run(app, words)
        assert done.exit_code == 0, done.stderr
    made = pd.read_csv("ward.synthetic.csv")
    assert list(made) == list(frame) and made["record"].is_unique and made["record"].str.fullmatch(r"MRN-\d{4}").all()
    assert not set(made["record"]) & set(frame["record"])
    first, last = (pd.to_datetime(made[name], format="%d.%m.%Y") for name in ("admitted", "discharged"))
    assert first.between("2015-01-01", "2024-12-31").all() and last.isna().any()
    assert (last - first).dropna().dt.days.between(0, 60).all()
    twin = json.loads((tmp_path / "ward.report.json").read_text())
    assert {v["name"]: v["kind"] for v in twin["sections"]["variables"]["columns"]}["record"] == "identifier"
    assert "MRN-9" not in (tmp_path / "ward.report.html").read_text()


def test_a_condition_on_a_date_and_keys_that_never_run_out(quick: None) -> None:
    model = medsynth.fit(ward(), epsilon=5, schema=schema(), rows=400)
    drawn = medsynth.sample(model, 50, where=["admitted=01.01.2018..31.12.2018"])
    assert (drawn["admitted"].dt.year == 2018).all()
    keys = medsynth.sample(model, 10_010)["record"]  # four digits are not enough: the keys grow
    assert keys.is_unique and keys.iloc[-1] == "MRN-10010" and keys.iloc[6] == "MRN-0007"
    dropped = schema(record={"kind": "identifier", "drop": True})
    assert "record" not in medsynth.sample(medsynth.fit(ward(), epsilon=5, schema=dropped, rows=400), 5)


def test_rules_read_dates(quick: None) -> None:
    declared = Schema.from_dict(
        {**schema().to_dict(), "rules": ["discharged > admitted", "grade = grave implies sick = yes"]}
    )
    model = medsynth.fit(ward(), epsilon=5, schema=declared, rows=400)
    drawn = medsynth.sample(model, 300)
    first, last = (pd.to_datetime(drawn[name], format="%d.%m.%Y") for name in ("admitted", "discharged"))
    assert (last.isna() | (last > first)).all() and (last > first).any()
    assert (drawn.loc[drawn["grade"] == "grave", "sick"] == "yes").all()
    assert drawn["record"].is_unique


@pytest.mark.statistical
def test_many_rows_are_drawn_in_parts_and_no_key_comes_twice(
    quick: None, seeded_entropy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed is fixed: it cannot fail by chance."""
    model = medsynth.fit(ward(), epsilon=5, schema=schema(), rows=400, seed=0)
    whole = sampling.sample_csv(model, Draw(rows=90, seed=3))
    monkeypatch.setattr(sampling, "CHUNK_ROWS", 100)
    assert sampling.sample_csv(model, Draw(rows=90, seed=3)) == whole
    parts = list(sampling.csv_chunks(model, Draw(rows=350, seed=3)))
    made = pd.read_csv(io.StringIO("".join(parts)))
    assert len(parts) == 4 and len(made) == 350 and made["record"].is_unique and list(made) == list(ward())
    assert len(set(made["admitted"][:100]) & set(made["admitted"][100:200])) < 60  # parts are not copies of one another


def test_days_are_absolute() -> None:
    declared = schema().core
    codes = encode(from_frame(ward(3)), declared)
    gap = column_values(codes, declared, "discharged") - column_values(codes, declared, "admitted")
    column = declared.columns["discharged"]
    assert isinstance(column, Date)
    assert np.nanmax(gap) <= column.units[1]


GAPS: dict[str, dict[str, Any]] = {
    "lab": {"kind": "continuous", "bounds": [0, 9], "decimals": 1, "missing": [-9, "refused", ""]},
    "visits": {"kind": "count", "bounds": [0, 20], "missing": [-9, -8]},
    "smokes": {"kind": "binary", "levels": ["no", "yes"], "missing": ["refused", ""]},
    "seen": {"kind": "date", "bounds": ["2015-01-01", "2024-12-31"], "missing": ["1900-01-01", "9999-12-31"]},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
}


def with_gaps(rows: int = 2000) -> pd.DataFrame:
    """Sick patients refuse, the others are not asked; the two codes must not be mixed."""
    rng = np.random.default_rng(1)
    sick = rng.random(rows) < 0.5
    gone = rng.random(rows) < 0.4
    first = [date(2015, 1, 1) + timedelta(days=int(d)) for d in rng.integers(0, 3600, rows)]
    return pd.DataFrame({
        "lab": np.where(gone, np.where(sick, "refused", "-9"), np.round(rng.uniform(0, 9, rows), 1).astype(str)),
        "visits": np.where(gone, np.where(sick, -9, -8), rng.integers(0, 20, rows)),
        "smokes": np.where(gone & sick, "refused", np.where(gone, "", rng.choice(["no", "yes"], rows))),
        "seen": np.where(gone, np.where(sick, "9999-12-31", "1900-01-01"), [d.isoformat() for d in first]),
        "sick": np.where(sick, "yes", "no"),
    })  # fmt: skip


def test_codes_of_missing_values_are_kept_apart_and_restored() -> None:
    declared, frame = Schema.from_dict({"name": "t", "target": "sick", "columns": GAPS}), with_gaps()
    assert Schema.from_yaml(declared.to_yaml()) == declared
    codes = encode(from_frame(frame), declared)
    text = csv_cells(codes, declared)
    trimmed = frame.astype(str).assign(lab=frame["lab"].str.removesuffix(".0"))
    assert text.equals(trimmed.astype(object))
    again = decode(codes, declared)
    assert again["visits"].dtype == np.int64 and again["visits"].tolist() == frame["visits"].tolist()
    assert (again["lab"] == "refused").sum() == (frame["lab"] == "refused").sum()
    assert (encode(from_frame(again), declared) == codes).all()


@pytest.mark.statistical
@pytest.mark.nightly_for("dp-cgan", "mixture")
@pytest.mark.parametrize("method", ["mixture", "dp-cgan"])
def test_codes_of_missing_values_are_modelled(method: str, seeded_entropy: None) -> None:
    """Three codes that the target alone decides come back with it, at a budget whose noise is small.

    The seed is fixed: it cannot fail by chance.
    """
    declared, frame = Schema.from_dict({"name": "t", "target": "sick", "columns": GAPS}), with_gaps()
    model = medsynth.fit(frame, epsilon=100, schema=declared, rows=len(frame), method=method, seed=0)
    drawn = medsynth.sample(model, 2000, seed=0)
    lab = drawn["lab"].astype(str)
    assert abs((lab == "refused").mean() - 0.2) < 0.05 and abs((lab == "-9").mean() - 0.2) < 0.05
    assert drawn["visits"].between(-9, 20).all() and not drawn["visits"].between(-7, -1).any()
    if method == "mixture":
        assert (drawn["sick"][lab == "refused"] == "yes").mean() > 0.95
        assert (drawn["sick"][lab == "-9"] == "no").mean() > 0.95


def test_missing_codes_can_be_asked_for_and_stand_in_the_report() -> None:
    from medsynth.report.data.columns import cells_of, comparable

    told, frame = Schema.from_dict({"name": "t", "target": "sick", "columns": GAPS}), with_gaps()
    model = medsynth.fit(frame, epsilon=20, schema=told, rows=len(frame), method="independent")
    assert (medsynth.sample(model, 30, where=["lab=refused"])["lab"] == "refused").all()
    assert set(medsynth.sample(model, 90, where=["visits="])["visits"]) == {-9, -8}
    cells = cells_of(pd.read_csv(io.StringIO(frame.to_csv(index=False))))
    read = comparable(cells, told, frozenset(), "real", [])
    assert read["visits"].min() >= 0 and set(read["visits: missing"]) == {"-9", "-8", "known"}
    assert set(read["smokes: missing"]) == {"refused", "empty", "known"}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"kind": "count", "bounds": [0, 9], "missing": [3]}, "within the bounds"),
        ({"kind": "continuous", "bounds": [-10, 9], "missing": ["-9.5"]}, "within the bounds"),
        ({"kind": "binary", "levels": [0, 1], "missing": [1]}, "also a code"),
        ({"kind": "count", "bounds": [0, 9], "missing": [-9, "-9"]}, "differ"),
        ({"kind": "count", "bounds": [0, 9], "missing": []}, "list of different codes"),
    ],
)
def test_codes_that_could_be_values_are_refused(column: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict({"name": "t", "columns": {"x": column}})


def test_an_empty_cell_beside_codes_must_be_declared() -> None:
    declared = Schema.from_dict({"name": "t", "columns": {"x": {"kind": "count", "bounds": [0, 9], "missing": [-9]}}})
    with pytest.raises(SchemaError, match='Add ""'):
        encode(from_frame(pd.DataFrame({"x": ["1", "", "-9"]})), declared)


@pytest.mark.parametrize("places", [1, 2, 5])
@pytest.mark.parametrize("zeros", ["none", "one", "all"])
def test_numbers_are_written_at_once_as_one_by_one(places: int, zeros: str) -> None:
    """Negative ones, zero, limits, whole ones by declaration and missing ones among them."""
    own = {"kind": "continuous", "bounds": [-3, 4.2], "decimals": places, "zeros": zeros}
    limits = {"bounds": [0.5, 4.2], "below": ["<0.5"], "above": [">4.2"]}
    more: list[dict[str, Any]] = [{}, limits, {"whole_from": 2}, {"text": "{4.1} mg"}]
    for also in more:
        content = {"name": "t", "columns": {"x": {**own, **also, "missing": [-9, ""]}}}
        column = Schema.from_dict(content).columns["x"]
        codes = np.unique(np.append(np.arange(0, column.size, 97), column.size + 1 - np.arange(30)))
        texts = [column.text(int(code)) for code in codes]
        assert column.texts(codes.astype(np.int32)) == texts, also
        values = column.values(codes[:2], {})
        assert also or [float(text) for text in texts[:2]] == values.tolist()


def test_each_cell_of_levels_has_its_own_value() -> None:
    """Equal cells of other types are other texts: 1, 1.0, True and "1", in either order."""
    column = Schema.from_dict({"name": "t", "columns": {"x": {"kind": "categorical", "levels": ["1", "1.0", "True"]}}})
    cells = [1, True, 1.0, "1", "1.0", np.float64(1.0), None, float("nan"), np.bool_(True), 2.5]
    for some in (cells, cells[::-1]):
        each = [column.columns["x"].cell_values(pd.Series([cell], dtype=object))[0] for cell in some]
        assert column.columns["x"].cell_values(pd.Series(some, dtype=object)).tolist() == each
