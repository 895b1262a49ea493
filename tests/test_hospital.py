"""The simulated hospital extract: the facts of its README, and the whole way from it to a report."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from medsynth_cli.main import app
from medsynth_sample_data import hospital
from typer.testing import CliRunner

import medsynth
from medsynth.io.table import from_frame
from medsynth.report.data.columns import cells_of
from medsynth.report.data.tables import read
from medsynth.report.sections.plausibility import plausibility
from medsynth.schema import Schema
from medsynth.schema.codec import encode
from tests.benchmarks import hospital as benchmark

CODES = {"lactate_mmol_l": "-9", "smoker": "refused"}


@pytest.fixture(scope="module")
def extract() -> pd.DataFrame:
    made: pd.DataFrame = hospital.extract(8000, 20_000, 0)
    return made


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.load(hospital.SCHEMA)


@pytest.mark.statistical
def test_its_size_and_what_is_missing(extract: pd.DataFrame, schema: Schema) -> None:
    """The seed is fixed: it cannot fail by chance."""
    assert extract.shape == (20_000, 40) and sorted(extract.columns) == sorted(schema.names)
    assert extract["patient_id"].nunique() == 8000 and extract["visit_id"].is_unique
    gone = extract.isna() | extract.isin(["-9", "refused"])
    assert 0.14 < gone.mean().mean() < 0.17
    # Not at random: CRP is measured where a patient looks ill.
    measured = ~gone["crp_mg_l"]
    assert (
        measured[extract["intensive_care"] == "true"].mean()
        > measured[extract["intensive_care"] == "false"].mean() + 0.1
    )
    kinds = {column.kind for column in schema.columns.values()}
    assert kinds == {"identifier", "date", "count", "continuous", "binary", "categorical", "ordinal"}
    assert sum(getattr(column, "hierarchy", None) is not None for column in schema.columns.values()) == 4
    assert extract.equals(hospital.extract(8000, 20_000, 0))


@pytest.mark.nightly
def test_it_meets_its_schema_and_keeps_its_rules(schema: Schema, tmp_path: Path) -> None:
    extract = hospital.extract(1200, 3000, 0)
    strict = {n: c.model_copy(update={"out_of_range": "error"}) if hasattr(c, "out_of_range") else c
              for n, c in schema.columns.items() if c.kind != "identifier"}  # fmt: skip
    encode(from_frame(extract), schema.model_copy(update={"columns": strict}))
    extract.to_csv(tmp_path / "h.csv", index=False)
    found = plausibility(schema, None, read(tmp_path / "h.csv").cells).rules
    between = [rule for rule in found if rule.column == "between columns"]
    assert len(between) == 8 and all(rule.synthetic == 0 for rule in between)


@pytest.mark.nightly
@pytest.mark.statistical
def test_from_the_extract_to_a_report(
    quick: None, extract: pd.DataFrame, schema: Schema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each code has 250 rows or more, under noise of at most 60 a count: false-alarm rate of losing one below 1e-4."""
    monkeypatch.chdir(tmp_path)
    hospital.main(["--patients", "1600", "--output", "hospital.csv"])
    run = CliRunner().invoke
    for words in (["fit", "hospital.csv", "--epsilon", "3.7", "--holdout", "0.3", "--delta", "1e-6"],
                  ["sample", "-n", "1200"], ["report"]):  # fmt: skip
        result = run(app, words)
        assert result.exit_code == 0, result.stderr
    model = medsynth.load("hospital.medsynth")
    assert model.claims and model.epsilon is not None and model.epsilon <= 3.7 and model.ledger.max_rows == 3
    twin = json.loads((tmp_path / "hospital.report.json").read_text())["sections"]
    assert twin["plausibility"]["broken"] == 0 and "patient with up to 3 rows" in twin["claim"]["protects"]
    page = (tmp_path / "hospital.report.html").read_text()
    assert "<dt>Privacy unit</dt><dd>one patient with up to 3 rows</dd>" in page
    assert "all rows of any one patient" in page and "missing values: -9, haemolysed" in page
    made, real = pd.read_csv("hospital.synthetic.csv", dtype=str), pd.read_csv("hospital.csv", dtype=str)
    assert list(made) == list(real) and set(made["area_code"]) <= set(hospital.AREAS)
    assert not set(made["patient_id"]) - {f"P-{k:06}" for k in range(10**6)} and made["patient_id"].nunique() < 1200
    assert set(made["intensive_care"]) <= {"true", "false"}
    for name, code in CODES.items():
        assert (made[name] == code).any()


@pytest.mark.nightly
def test_a_frame_comes_back_in_its_dtypes(quick: None, extract: pd.DataFrame, schema: Schema) -> None:
    triage = pd.CategoricalDtype(["minor", "standard", "urgent", "resuscitation"], ordered=True)
    some: dict[str, Any] = {"area_code": "category", "ward": "string[pyarrow]", "height_cm": "Int16"}
    some |= {"admitted": "datetime64[s]", "triage": triage}
    frame = extract.iloc[:600].astype(some).assign(intensive_care=extract["intensive_care"].iloc[:600] == "true")
    model = medsynth.fit(frame, epsilon=3.7, schema=schema.with_dtypes(frame), rows=600, method="independent")
    drawn = medsynth.sample(model, 300)
    kept = [name for name in frame if name not in ("lactate_mmol_l", "smoker")]
    assert drawn[kept].dtypes.astype(str).to_dict() == frame[kept].dtypes.astype(str).to_dict()
    assert (drawn["stay_days"] >= 0).all() and pd.api.types.is_datetime64_dtype(drawn["admitted"].dtype)


def test_figures_of_the_benchmark(extract: pd.DataFrame, schema: Schema) -> None:
    """Real rows compared with themselves, and with rows whose heights are missing in other places."""
    cells = cells_of(extract.iloc[:4000])
    assert benchmark.adults(cells)[0] == 0 and benchmark.adults(cells)[1] > 100
    gone = benchmark.missing(cells, schema)
    assert gone["lactate_mmol_l"].mean() > 0.5 and gone["bmi"].equals(extract["bmi"].iloc[:4000].isna())
    assert [gap for gap, _ in benchmark.together(gone, gone).values()] == [0.0, 0.0]
    other = gone.assign(height_cm=gone["height_cm"].to_numpy()[::-1])
    found = benchmark.together(gone, other)
    assert found["one_alone"][0] > 30 and found["both"][0] > 10 and "height_cm" in found["both"][1]
