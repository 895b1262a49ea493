"""The report's count of rules across a patient's rows, in tables written by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.report.build import build
from medsynth.report.data.verdict import Purpose, Thresholds
from medsynth.report.document import Report
from medsynth.report.page.render import page
from medsynth.report.sections.plausibility import IMPOSSIBLE, PLAUSIBILITY, Plausibility, impossible, plausibility
from medsynth.report.sections.registry import SECTIONS
from medsynth.report.sections.summary import Verdicts
from medsynth.sampling.rejection import complete
from medsynth.schema import Schema
from medsynth.schema.codec import decode

COLUMNS: dict[str, Any] = {
    "patient": {"kind": "identifier", "drop": False},
    "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "format": "%d.%m.%Y"},
    "dose": {"kind": "continuous", "bounds": [0, 100], "decimals": 0, "missing": True},
    "total": {"kind": "continuous", "bounds": [0, 1000], "decimals": 0},
    "change": {"kind": "continuous", "bounds": [-100, 100], "decimals": 0, "missing": True},
    "died": {"kind": "binary", "levels": ["no", "yes"]},
}
RULES = [
    "day > previous(day)",
    "died = yes implies last row",
    "total = cumulative(dose)",
    "change = dose - previous(dose)",
    "dose < 90",
]
SCHEMA = Schema.from_dict({
    "name": "t", "target": "died", "unit": "patient", "max_rows": 4, "order": "day", "columns": COLUMNS, "rules": RULES,
})  # fmt: skip
# Patient a's rows stand apart and not in order, patient b has the day of the first twice; patient c has one row.
REAL = pd.DataFrame(
    [
        ["a", "03.01.2020", "30", "60", "10", "yes"],
        ["b", "01.01.2020", "5", "5", "", "no"],
        ["a", "01.01.2020", "10", "10", "", "no"],
        ["c", "31.12.2020", "", "0", "", "yes"],
        ["a", "02.01.2020", "20", "30", "10", "no"],
        ["b", "01.01.2020", "5", "10", "0", "no"],
    ],
    columns=list(COLUMNS),
)


def across(real: pd.DataFrame | None, synthetic: pd.DataFrame) -> dict[str, tuple[float | None, float]]:
    found = plausibility(SCHEMA, real, synthetic)
    assert found.unchecked is None
    return {rule.rule: (rule.real, rule.synthetic) for rule in found.rules if rule.column == "across rows"}


def test_rules_across_rows_are_counted_in_both_tables() -> None:
    made = REAL.assign(total="10", died=["no", "no", "yes", "no", "no", "yes"], patient=["x", "y", "x", "y", "x", "y"])
    assert across(REAL, made) == {
        "day > previous(day)": (pytest.approx(1 / 6), pytest.approx(1 / 6)),
        "died = yes implies last row": (0, pytest.approx(2 / 6)),
        "total = cumulative(dose)": (0, pytest.approx(3 / 6)),
        "change = dose - previous(dose)": (0, 0),
    }
    alone, share = across(None, REAL)["day > previous(day)"]
    assert alone is None and share == pytest.approx(1 / 6)


def test_rules_of_single_rows_are_counted_beside_them() -> None:
    found = plausibility(SCHEMA, None, REAL.assign(dose="95"))
    assert [(rule.rule, rule.synthetic) for rule in found.rules if rule.column == "between columns"] == [
        ("dose < 90", 1)
    ]


@pytest.mark.parametrize(("name", "which"), [("patient", "real"), ("day", "real"), ("patient", "synthetic")])
def test_a_table_that_does_not_say_how_its_rows_follow_is_told_in_a_sentence(name: str, which: str) -> None:
    tables = {"real": REAL, "synthetic": REAL, which: REAL.drop(columns=name)}
    found = plausibility(SCHEMA, tables["real"], tables["synthetic"])
    assert found.unchecked is not None
    assert f"the {which} table has no column '{name}'" in found.unchecked
    assert {rule.rule for rule in found.rules if rule.column in ("across rows", "between columns")} == {"dose < 90"}


def test_a_schema_without_such_rules_says_nothing_of_them() -> None:
    plain = Schema.from_dict({**SCHEMA.to_dict(), "rules": ["dose < 90"]})
    assert plausibility(plain, None, REAL.drop(columns="day")).unchecked is None


def test_the_page_says_why_rules_were_not_checked() -> None:
    summary = Verdicts(lines=[], uses=[], status="no", proposal=[], named=0, to_do=[])
    purpose = Purpose()
    for synthetic in (REAL, REAL.drop(columns="day")):
        found = plausibility(SCHEMA, None, synthetic)
        sections = {**dict.fromkeys(SECTIONS), "plausibility": found, "verdicts": summary, "purpose": purpose}
        report = Report(title="t", created="2020-01-01", shareable=True, banner="", notes=[], sections=sections)
        assert ("Rules across rows were not checked" in page(report)) is (found.unchecked is not None)


@pytest.mark.nightly
def test_a_learned_schema_judges_nothing(halves: Any) -> None:
    """Its synthetic rows obey it by design, so the question has no answer. A declared one is judged."""
    table = halves[0][["age_years", "sex_at_birth"]]
    declared = {
        "age_years": {"kind": "count", "bounds": [18, 110]},
        "sex_at_birth": {"kind": "binary", "levels": ["F", "M"]},
    }
    for schema, outcome in ((None, "not judged"), ({"name": "t", "columns": declared}, "within")):
        model = medsynth.fit(table, epsilon=8.0, rows=len(table), schema=schema, notice=lambda line: None)
        drawn = medsynth.sample(model, 200, seed=1)
        made = build(model=model, drawn_by_model=True, synthetic=drawn, real=None, target="none")
        (line,) = (line for line in made.verdicts if line.key == "rules_broken")
        assert line.outcome == outcome
        assert ("No schema was declared: not judged" in page(made)) is (schema is None)


@pytest.mark.parametrize("missing", ["true", "false"])
def test_a_quotient_by_zero_breaks_no_definition(missing: str) -> None:
    """The model's own rows obey its schema, where the formula has no result, too. A wrong quotient is still found."""
    schema = Schema.from_yaml(
        "name: t\ncolumns:\n"
        "  dose: {kind: count, bounds: [0, 3]}\n  weight: {kind: count, bounds: [0, 3]}\n"
        f"  ratio: {{kind: continuous, bounds: [0, 9], decimals: 1, missing: {missing}}}\n"
        "rules: [ratio = dose / weight]\n"
    )
    core = np.array([[dose, weight] for dose in range(4) for weight in range(4)], np.int32)
    rows = decode(complete(core, schema), schema)
    assert plausibility(schema, None, rows).broken == 0
    rows.loc[5, "ratio"] = 9.0  # 1 / 1
    assert [rule.synthetic for rule in plausibility(schema, None, rows).rules if rule.synthetic] == [1 / len(rows)]


STAYS: dict[str, Any] = {
    "Aufnahmedatum": {"kind": "date", "bounds": ["2020-01-01", "2022-12-31"], "missing": True},
    "start": {"kind": "date", "bounds": ["2020-01-01", "2022-12-31"], "missing": True},
    "end": {"kind": "date", "bounds": ["2020-01-01", "2022-12-31"], "missing": True},
    "systolic_mmHg": {"kind": "count", "bounds": [50, 250]},
    "diastolic_mmHg": {"kind": "count", "bounds": [30, 200]},
    "sex": {"kind": "binary", "levels": ["F", "M"]},
    "weeks": {"kind": "count", "bounds": [1, 42], "missing": True},
}


def stays(rules: list[str]) -> tuple[Schema, pd.DataFrame, pd.DataFrame]:
    """A schema; 200 real rows that obey; and the same rows with faults of three kinds, in 40, 20 and 10 of them."""
    schema = Schema.from_dict({"name": "t", "target": "sex", "columns": STAYS, "rules": rules})
    real = pd.DataFrame({
        "Aufnahmedatum": "2020-05-05", "start": ["2020-02-01", ""] * 100, "end": "2020-03-01", "systolic_mmHg": "120",
        "diastolic_mmHg": "80", "sex": ["F", "F", "M", "M"] * 50, "weeks": ["12", "", "", ""] * 50,
    })  # fmt: skip
    made = real.copy()
    made.loc[:79:2, "end"] = "2020-01-01"
    made.loc[100:119, "diastolic_mmHg"] = "130"
    made.loc[(made.index >= 160) & (made["sex"] == "M"), "weeks"] = [*["30"] * 10, *[""] * 10]
    return schema, real, made


def test_impossible_rows_are_counted_by_what_the_schema_the_headers_and_real_rows_say() -> None:
    schema, real, made = stays([])
    found, share = impossible(schema, None, made)
    assert {one.rule for one in found} == {"systolic_mmHg > diastolic_mmHg"} and share == 0.1
    found, share = impossible(schema, real, made)
    broken = {one.rule: one.synthetic for one in found if one.synthetic}
    assert broken["start <= end"] == 0.2 and broken['weeks is present implies sex != "M"'] == 0.05
    assert share == 0.35 and all(one.real == 0 for one in found)
    assert impossible(schema, real, real)[1] == 0
    declared, _, _ = stays(["weeks is present implies sex = F"])
    assert impossible(declared, None, made)[1] == pytest.approx(0.15)
    bad = real.assign(diastolic_mmHg="130")  # real rows contradict what the headers imply
    assert "systolic_mmHg > diastolic_mmHg" not in {one.rule for one in impossible(schema, bad, made)[0]}


def test_a_verdict_counts_impossible_rows_also_of_a_learned_schema() -> None:
    _, real, made = stays([])
    relations, share = impossible(stays([])[0], real, made)
    for judged in (True, False):
        record = Plausibility(rules=[], broken=0, unchecked=None, judged=judged, relations=relations, impossible=share)
        assert PLAUSIBILITY.verdicts is not None
        lines = {line.key: line for line in PLAUSIBILITY.verdicts(record, Thresholds())}
        assert lines["impossible_rows"].outcome == "beyond" and "35.0 are impossible" in IMPOSSIBLE.meaning(
            lines["impossible_rows"]
        )
    none = Plausibility(rules=[], broken=0, unchecked=None)
    assert [line.key for line in PLAUSIBILITY.verdicts(none, Thresholds())] == ["rules_broken"]
