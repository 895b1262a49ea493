"""The Python API as a person uses it: names, plain data for schemas and conditions, what objects show of themselves."""

import inspect
import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import small_clinic
import yaml
from quick_methods import offer_quick

import medsynth
from medsynth import rng
from medsynth.errors import MedsynthError, SchemaError, UsageError

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(scope="module")
def model(cohort: pd.DataFrame) -> medsynth.Model:
    declared = yaml.safe_load(small_clinic.schema().to_yaml())
    with pytest.MonkeyPatch.context() as patch:
        offer_quick(patch)
        return medsynth.fit(cohort, epsilon=3.7, schema=declared, rows=300, method="independent", seed=1)


def test_dir_shows_the_api() -> None:
    assert dir(medsynth) == sorted([*medsynth.__all__, "__version__"])


def test_a_schema_as_plain_data(cohort: pd.DataFrame, model: medsynth.Model) -> None:
    assert list(model.sample(5).columns) == list(cohort.columns)
    with pytest.raises(SchemaError, match="`schema`"):
        medsynth.fit(cohort, epsilon=1, schema={"name": "x"})
    assert medsynth.plan(cohort, epsilon=1, schema=simulate_schema(), rows=300).epsilon <= 1


def simulate_schema() -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load(small_clinic.schema().to_yaml())
    return found


@pytest.mark.parametrize("where", [
    "sex_at_birth=F", ["sex_at_birth=F"], {"sex_at_birth": "F"}, {"sex_at_birth": ["F"]}, ("sex_at_birth=F",),
])  # fmt: skip
def test_conditions_as_text_list_or_mapping(model: medsynth.Model, where: Any) -> None:
    drawn = model.sample(40, seed=1, where=where)
    assert set(drawn["sex_at_birth"]) == {"F"}
    pd.testing.assert_frame_equal(drawn, medsynth.sample(model, 40, seed=1, where=["sex_at_birth=F"]))


def test_several_values_and_open_ends(model: medsynth.Model) -> None:
    labels = list(model.schema.columns["diagnosis"].levels)
    some = {str(labels[0]), str(labels[-1])}
    drawn = model.sample(60, seed=1, where={"diagnosis": list(some), "age_years": (60, None)})
    assert set(map(str, drawn["diagnosis"])) <= some and (drawn["age_years"] >= 60).all()
    with pytest.raises(UsageError, match="`where`"):
        model.sample(5, where=[("sex_at_birth", "F")])  # type: ignore[list-item]


def test_what_a_model_shows_of_itself(model: medsynth.Model) -> None:
    assert "differential privacy" in repr(model) and len(repr(model)) < 400
    assert "<table>" in model._repr_html_() and "independent" in model._repr_html_()


def test_a_plan_shows_its_measurements() -> None:
    found = medsynth.plan(3772, epsilon=3.7)
    assert "one-way marginals" in str(found) and "<table" in found._repr_html_()
    assert found.measurements["share"].sum() == pytest.approx(1)


def test_verify(model: medsynth.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    found = medsynth.verify(model)
    assert found["claimed"] == model.epsilon and found["pld"] <= found["claimed"] * 1.01
    from medsynth.privacy.accounting import accountant

    monkeypatch.setattr(accountant, "cross_check", lambda events, delta: 9.0)
    with pytest.raises(MedsynthError, match="The claim is wrong"):
        medsynth.verify(model)


def test_notices_go_to_the_log(cohort: pd.DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "medsynth"):
        medsynth.fit(cohort, epsilon=1, schema=simulate_schema(), rows=300, method="independent")
    assert any("Public by declaration" in record.message for record in caplog.records)


def test_what_nobody_should_miss_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's key, few rows, and keys that no name tells; notices alone where somebody takes them.

    The noise is fixed: in one fit of several hundred other noise shows one of the keys, and nothing is lost.
    """
    monkeypatch.setattr(rng, "system_entropy", lambda: rng.SeededEntropy(1))
    frame = pd.DataFrame({"patient_nbr": range(400), "x": [1, 2] * 200, "y": ["a"] * 360 + ["b"] * 40})
    frame.insert(0, "keys", [f"w{k}" for k in range(400)])
    with pytest.warns(medsynth.MedsynthWarning) as told:
        medsynth.fit(frame, epsilon=3.7, method="independent")
    texts = [str(one.message) for one in told]
    assert any("reads like a patient's key" in text for text in texts) and any("FEW ROWS" in text for text in texts)
    assert any("LOST: keys" in text for text in texts)
    notices: list[str] = []
    medsynth.fit(frame, epsilon=3.7, method="independent", notice=notices.append)  # a warning would be an error here
    assert {text[:8] for text in texts} <= {text[:8] for text in notices}


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": "much"}, {"epsilon": True}, {"delta": "small"}, {"rows": 300.5}, {"rows": "300"}, {"seed": "x"},
     {"rows": 10**12}],
)  # fmt: skip
def test_arguments_of_the_wrong_kind_name_the_parameter(cohort: pd.DataFrame, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"`{next(iter(wrong))}`"):
        medsynth.fit(cohort, **{"epsilon": 1.0, **wrong})
    if "seed" not in wrong:
        with pytest.raises(UsageError, match=f"`{next(iter(wrong))}`"):
            medsynth.plan(cohort, **{"epsilon": 1.0, **wrong})


def test_progress_is_shown_on_standard_error_alone(cohort: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    medsynth.fit(cohort, epsilon=3.7, schema=simulate_schema(), rows=300, method="dp-cgan", progress=True)
    assert capsys.readouterr().out == ""


def test_verbs_say_what_they_take() -> None:
    for verb in (medsynth.fit, medsynth.plan, medsynth.sample, medsynth.verify, medsynth.load):
        assert inspect.getdoc(verb) and "Raises" in str(inspect.getdoc(verb))


@pytest.mark.usefixtures("few_trees")
def test_a_report_from_a_model(tmp_path: Path) -> None:
    columns: dict[str, object] = {
        "age": {"kind": "count", "bounds": [0, 99]},
        "y": {"kind": "binary", "levels": [0, 1]},
    }
    frame = pd.DataFrame({"age": range(80), "y": [0, 1] * 40})
    small = medsynth.fit(frame, epsilon=6, rows=80, schema={"name": "small", "columns": columns}, method="independent")
    frame.to_csv(tmp_path / "real.csv", index=False)
    made = small.report(tmp_path / "real.csv", tmp_path / "a.html")
    assert made.verdicts and (tmp_path / "a.html").exists() and (tmp_path / "a.json").exists()


def test_a_strange_parameter_is_answered_with_the_nearest(cohort: pd.DataFrame) -> None:
    call: Any = medsynth.fit
    with pytest.raises(UsageError, match=r"`metod` is not a parameter of fit. Did you mean 'method'"):
        call(cohort, epsilon=3.7, metod="mixture")
    with pytest.raises(UsageError, match=r"fit\(table, epsilon=3.7\)"):
        call(cohort, 3.7)
