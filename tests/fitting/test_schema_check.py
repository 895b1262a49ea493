"""A table held against its schema: everything at once, what a fit would pass over counted, and marked private."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

from medsynth.errors import SchemaError
from medsynth.fitting.schema_check import check_schema
from medsynth.schema import Schema
from medsynth.schema.drafts import draft

TEXT = """
name: t
target: sick
columns:
  nr: {kind: count, bounds: [0, 100000]}
  age: {kind: count, bounds: [0, 80]}
  dose: {kind: continuous, bounds: [0, 9], decimals: 1}
  sex: {kind: binary, levels: [F, M]}
  sick: {kind: binary, levels: ["no", "yes"]}
rules: [age > 20]
"""


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    draw, n = np.random.default_rng(0), 200
    (tmp_path / "t.schema.yaml").write_text(TEXT)
    return pd.DataFrame({
        "nr": range(n), "age": [-9, *range(41, 80), *[50] * 160],
        "dose": np.round(draw.uniform(1, 8, n), 1).astype(str),
        "sex": draw.choice(["F", "M"], n), "sick": draw.choice(["no", "yes"], n),
    })  # fmt: skip


def test_all_problems_are_listed_at_once(table: pd.DataFrame, tmp_path: Path) -> None:
    table.loc[3, "dose"], table.loc[5, "sex"], table.loc[7, "sex"] = "x", "?", "?"
    table.to_csv(tmp_path / "t.csv", index=False)
    found = check_schema(tmp_path / "t.csv", None)
    assert len(found.problems) == 2
    assert "column 'dose', row 4: not a number" in found.problems[0] and "column 'sex', row 6" in found.problems[1]
    assert any("'sex': 2 cells contain '?', a usual code of missing values" in text for text in found.remarks)
    done = CliRunner().invoke(app, ["schema", "check", str(tmp_path / "t.csv")])
    assert done.exit_code == 4 and "dose" in done.stderr and "sex" in done.stderr
    assert done.stdout.startswith("PRIVATE") and " 2 cells" not in done.stderr


def test_what_a_fit_passes_over_is_counted_and_private(table: pd.DataFrame, tmp_path: Path) -> None:
    table.loc[1:15, "age"] = 99
    table.loc[20, "age"] = 5
    table.to_csv(tmp_path / "t.csv", index=False)
    found = check_schema(tmp_path / "t.csv", None)
    remarks = "\n".join(found.remarks)
    assert not found.problems
    for text in ("'age': 16 cells are outside", "'nr': its cells use 0.2% of", "'nr': nearly all of its cells differ",
                 "'-9', a usual code", "rule 'age > 20': 2 rows break it"):  # fmt: skip
        assert text in remarks, remarks
    done = CliRunner().invoke(app, ["schema", "check", str(tmp_path / "t.csv")])
    assert done.exit_code == 0 and "meets the schema" in done.stdout and "PRIVATE" in done.stdout


DATED = """
name: t
target: sick
columns:
  born: {kind: date, bounds: [1920-01-01, 2024-12-31], format: "%d.%m.%Y"}
  admitted: {kind: date, bounds: [2015-01-01, 2024-12-31], resolution: minute, format: "%Y-%m-%d %H:%M"}
  operated: {kind: date, bounds: [2015-01-01, 2024-12-31], missing: true}
  discharged: {kind: date, bounds: [2015-01-01, 2024-12-31]}
  moved: {kind: date, bounds: [2015-01-01, 2024-12-31]}
  sick: {kind: binary, levels: ["no", "yes"]}
"""


def stays(folder: Path) -> Path:
    """Stays of three weeks at most with an operation, and a date that has nothing to do with them."""
    draw, n = np.random.default_rng(0), 300
    start = pd.Timestamp("2016-01-01") + pd.to_timedelta(draw.integers(0, 2000 * 24 * 60, n), unit="min")
    days = {"operated": draw.integers(0, 5, n), "discharged": draw.integers(5, 21, n)}
    dates = {name: (start + pd.to_timedelta(stay, unit="D")).strftime("%Y-%m-%d") for name, stay in days.items()}
    frame = pd.DataFrame({
        "born": (start - pd.to_timedelta(draw.integers(6000, 30000, n), unit="D")).strftime("%d.%m.%Y"),
        "admitted": start.strftime("%Y-%m-%d %H:%M"),
        "operated": pd.Series(dates["operated"]).mask(draw.random(n) < 0.5, "?"), "discharged": dates["discharged"],
        "moved": draw.permutation(dates["discharged"]), "sick": draw.choice(["no", "yes"], n),
    })  # fmt: skip
    frame.loc[:3, "discharged"] = "2015-02-03"  # written wrong: before the stay
    frame.to_csv(folder / "t.csv", index=False)
    (folder / "t.schema.yaml").write_text(DATED.replace("missing: true", 'missing: ["?"]'))
    return folder / "t.csv"


def test_dates_that_come_after_another_are_suggested(tmp_path: Path) -> None:
    """On the old code two dates each by itself lost the length of stay without a word. No number of days is told."""
    table = stays(tmp_path)
    found = check_schema(table, None)
    told = [text for text in found.remarks if "nearly always some days after" in text]
    assert [text.split(":")[0] for text in told] == ["column 'operated'", "column 'discharged'"]
    assert all("declare `after: admitted`" in text for text in told)
    declared, alone = (
        (tmp_path / "t.schema.yaml").read_text(),
        "discharged: {kind: date, bounds: [2015-01-01, 2024-12-31]}",
    )
    related = declared.replace(alone, "discharged: {kind: date, after: admitted, bounds: [0, 60], out_of_range: clip}")
    (tmp_path / "t.schema.yaml").write_text(related)
    found = check_schema(table, None)
    assert not found.problems
    assert ["operated" in text for text in found.remarks if "nearly always some days after" in text] == [True]
    # A date that others are declared to come after comes after none itself.
    followed = declared.replace("moved: {kind: date, bounds: [2015-01-01, 2024-12-31]}", (
        "moved: {kind: date, after: discharged, bounds: [-5000, 5000]}"
    ))  # fmt: skip
    (tmp_path / "t.schema.yaml").write_text(followed)
    assert not [text for text in check_schema(table, None).remarks if text.startswith("column 'discharged': nearly")]


def test_a_draft_passes_once_it_is_filled_in() -> None:
    text = draft("t", ["patient_id", "visits", "sick", "mrn"])
    assert "# target: sick" in text and text.count("kind: identifier, shape") == 2
    assert {*Schema.from_yaml(text).open} == {"visits", "sick"}
    filled = text.replace("# target:", "target:").replace("visits: TODO", "visits: {kind: count, bounds: [0, 120]}")
    finished = Schema.from_yaml(
        filled.replace("sick: TODO", 'sick: {kind: binary, levels: ["no", "yes"]}  # TODO: ask')
    )
    assert finished.target == "sick" and not finished.open


def test_all_faults_of_a_schema_are_told_with_the_nearest_names() -> None:
    with pytest.raises(SchemaError) as error:
        Schema.from_yaml(TEXT.replace("bounds: [0, 80]", "bound: [0, 80]").replace("kind: binary", "kind: binry"))
    for text in ("Did you mean 'bounds'?", "Did you mean 'binary'?", "columns.sex", "columns.sick"):
        assert text in str(error.value)
    with pytest.raises(SchemaError, match="Did you mean 'sick'"):
        Schema.from_yaml(TEXT.replace("target: sick", "target: sik"))
    with pytest.raises(SchemaError, match="Did you mean 'target'"):
        Schema.from_yaml(TEXT.replace("target: sick", "targt: sick"))


def test_other_encodings(tmp_path: Path) -> None:
    """Drafts and checks read a table in the encoding that is declared."""
    path = tmp_path / "t.csv"
    path.write_bytes("länge,ort\n1,Zürich\n2,Bern\n".encode("cp1252"))
    for words in (["draft", str(path)], ["check", str(path)]):
        assert CliRunner().invoke(app, ["schema", *words]).exit_code != 0
    assert CliRunner().invoke(app, ["schema", "draft", str(path), "--encoding", "cp1252"]).exit_code == 0
    declared = tmp_path / "t.schema.yaml"
    text = declared.read_text("utf-8").replace("länge: TODO", "länge: {kind: count, bounds: [0, 9]}")
    text = text.replace("ort: TODO", "ort: {kind: binary, levels: [Zürich, Bern]}")
    declared.write_text(text, "utf-8")
    done = CliRunner().invoke(app, ["schema", "check", str(path), "--encoding", "cp1252"])
    assert done.exit_code == 0, done.stderr


ORDERED = """
name: t
target: state
unit: patient
max_rows: 3
order: visit
columns:
  patient: {kind: identifier}
  visit: {kind: identifier}
  day: {kind: date, bounds: [2020-01-01, 2020-12-31]}
  chronic: {kind: binary, levels: ["no", "yes"]}
  dead: {kind: binary, levels: ["no", "yes"]}
  state: {kind: categorical, levels: [a, b]}
rules: [day > previous(day), previous(chronic) = yes implies chronic = yes, dead = yes implies last row]
"""


def test_rules_across_rows_are_counted_by_patient_and_order(tmp_path: Path) -> None:
    (tmp_path / "t.schema.yaml").write_text(ORDERED)
    pd.DataFrame({
        "patient": ["p", "q", "p", "q", "p"], "visit": [10, 2, 9, 1, 8],
        "day": ["2020-05-01", "2020-03-01", "2020-04-01", "2020-03-01", "2020-03-01"],
        "chronic": ["no", "yes", "yes", "no", "yes"], "dead": ["yes", "yes", "no", "yes", "no"], "state": list("ababa"),
    }).to_csv(tmp_path / "t.csv", index=False)  # fmt: skip
    found = check_schema(tmp_path / "t.csv", None)
    assert not found.problems
    told = [text for text in found.remarks if text.startswith("rule")]
    assert told == [
        "rule 'day > previous(day)': 1 rows break it; sampled rows never do",
        "rule 'previous(chronic) = yes implies chronic = yes': 1 rows break it; sampled rows never do",
        "rule 'dead = yes implies last row': 1 rows break it; sampled rows never do",
    ]


COMPUTED = """
name: t
target: state
columns:
  tt4: {kind: continuous, bounds: [0, 300], decimals: 1}
  uptake: {kind: continuous, bounds: [0.5, 2], decimals: 2}
  index: {kind: continuous, bounds: [0, 600], decimals: DECIMALS}
  total: {kind: continuous, bounds: [0, 300], decimals: 1}
  state: {kind: categorical, levels: [a, b]}
rules: [index = tt4 / uptake, total = tt4 + uptake]
"""


@pytest.mark.parametrize(("decimals", "whole", "told"), [(3, 1.0, 1), (3, 0.7, 0), (0, 1.0, 0)])
def test_a_column_computed_more_finely_than_it_is_recorded_is_named(
    tmp_path: Path, decimals: int, whole: float, told: int
) -> None:
    rng, rows = np.random.default_rng(0), 400
    tt4, uptake = rng.integers(50, 150, rows).astype(float), rng.integers(60, 140, rows) / 100
    index = np.where(np.arange(rows) < whole * rows, (tt4 / uptake).round(), (tt4 / uptake).round(decimals))
    (tmp_path / "t.schema.yaml").write_text(COMPUTED.replace("DECIMALS", str(decimals)))
    frame = pd.DataFrame({"tt4": tt4, "uptake": uptake, "index": index, "total": (tt4 + uptake).round(1)})
    frame.assign(state=rng.choice(["a", "b"], rows)).to_csv(tmp_path / "t.csv", index=False)
    found = check_schema(tmp_path / "t.csv", None)
    assert not found.problems
    finer = [text for text in found.remarks if "decimals" in text]
    assert len(finer) == told
    assert all(text.startswith("column 'index': 100% of its cells") and "`decimals: 0`" in text for text in finer)


IN_PIECES = """
name: t
target: sick
columns:
  nr: {kind: count, bounds: [0, 100000]}
  age: {kind: count, bounds: [0, 80], out_of_range: clip}
  admitted: {kind: date, bounds: [2010-01-01, 2024-12-31]}
  left: {kind: date, bounds: [2010-01-01, 2024-12-31]}
  ward: {kind: categorical, levels: [heart, lung], unknown: lung}
  half: {kind: continuous, bounds: [0, 60], decimals: 2, out_of_range: clip}
  sick: {kind: binary, levels: ["no", "yes"]}
rules: [age > 20, half = age / 2]
"""


def dated(rows: int) -> pd.DataFrame:
    draw = np.random.default_rng(1)
    day = pd.Timestamp("2012-01-01") + pd.to_timedelta(draw.integers(0, 3000, rows), "D")
    age = np.where(draw.random(rows) < 0.1, 99, draw.integers(15, 80, rows)).astype(object)
    age[::9] = -9
    return pd.DataFrame({
        "nr": np.arange(rows), "age": age, "admitted": day.strftime("%Y-%m-%d"),
        "left": (day + pd.to_timedelta(draw.integers(1, 9, rows), "D")).strftime("%Y-%m-%d"),
        "ward": draw.choice(["heart", "lung", "hart"], rows), "half": draw.integers(0, 60, rows),
        "sick": draw.choice(["no", "yes"], rows),
    })  # fmt: skip


@pytest.mark.parametrize("spoiled", [None, ("left", 700), ("admitted", 5), ("sick", 301)])
def test_a_table_in_pieces_is_checked_as_a_whole_one(
    spoiled: tuple[str, int] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large table is never whole in memory, and its findings are the same, rows counted from its start."""
    frame = dated(900)
    if spoiled:
        frame.loc[spoiled[1], spoiled[0]] = "?"
    frame.to_csv(path := tmp_path / "t.csv", index=False)
    (tmp_path / "t.schema.yaml").write_text(IN_PIECES)
    whole = check_schema(path, None)
    monkeypatch.setattr("medsynth.io.reader.is_large", lambda path: True)
    monkeypatch.setattr("medsynth.io.reader._rows_of_a_chunk", lambda columns: 128)
    assert check_schema(path, None) == whole
    if spoiled:
        assert len(whole.problems) == 1 and f"row {spoiled[1] + 1}:" in whole.problems[0]
    else:
        found = "\n".join(whole.remarks)
        for text in ("'nr': nearly all", "'age':", "'left': nearly always", "are read as `unknown`", "rows break it",
                     "'half': 100% of its cells have 0 decimals or fewer"):  # fmt: skip
            assert text in found, text


def test_a_large_table_with_an_order_is_a_problem_of_the_check_as_of_the_fit(
    table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.assign(nr=table["nr"] // 2).to_csv(path := tmp_path / "t.csv", index=False)
    keys = "unit: nr\nmax_rows: 2\norder: age\nrules: [age >= previous(age)]\n"
    text = TEXT.replace("{kind: count, bounds: [0, 100000]}", "{kind: identifier}").replace("rules: [age > 20]", keys)
    (tmp_path / "t.schema.yaml").write_text(text)
    monkeypatch.setattr("medsynth.io.reader.is_large", lambda path: True)
    found = check_schema(path, None)
    assert len([text for text in found.problems if "too large to be read at once" in text]) == 1


def test_levels_that_a_fit_probably_loses_are_counted_by_epsilon(tmp_path: Path) -> None:
    """Twelve rows of 400 at epsilon 1 and 100; a level of the target is kept better."""
    wards = ["surgery"] * 388 + ["hospice"] * 12
    frame = pd.DataFrame({"ward": wards, "age": np.arange(400) % 90, "ill": np.tile(["yes", "no"], 200)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    declared = "columns: {ward: TODO, age: {kind: count, bounds: [0, 90]}, ill: TODO}"
    (tmp_path / "t.schema.yaml").write_text(f"name: t\none_row_a_patient: true\n{declared}\n")
    few, many = (check_schema(tmp_path / "t.csv", None, epsilon=one).remarks for one in (1.0, 100.0))
    assert (
        "column 'ward': kind open. A fit learns this from noisy counts, and probably loses 1 of 2 words, in 12 rows"
        in few
    )
    assert "column 'ward': kind open. A fit learns this from noisy counts" in many
    assert "column 'ill': kind open. A fit learns this from noisy counts" in few
