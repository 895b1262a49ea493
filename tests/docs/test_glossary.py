"""The glossary has every word that plans, ledgers and verdicts print."""

from pathlib import Path
from typing import Any, get_args

import pytest
from medsynth_sample_data import hospital, simulate

from medsynth.fitting.planning import plan_fit
from medsynth.fitting.settings import FitSettings
from medsynth.methods import registry
from medsynth.privacy.accounting import events
from medsynth.report.sections.registry import questions
from medsynth.schema import Schema

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text()


def labels(table: Any, **settings: Any) -> Any:
    """The labels of what a fit would measure."""
    plan, *_ = plan_fit(table, FitSettings(epsilon=3.7, **settings))
    return set(plan.events)


@pytest.mark.nightly_for("dp-gan")
@pytest.mark.parametrize("method", registry.CLAIMING)
def test_it_has_every_measurement_of_a_method(method: Any) -> None:
    for rows in (400, 60_000) if method == registry.DEFAULT else (3_000,):
        for label in labels(rows, method=method):
            assert f"`{label}`" in GLOSSARY, label


def test_it_has_every_measurement_that_learns_a_schema(tmp_path: Path) -> None:
    table = tmp_path / "patients.csv"
    simulate.cohort(300, 1).to_csv(table, index=False)
    found = labels(table, method="independent")
    assert any(label.startswith("schema") for label in found)
    for label in found:
        assert f"`{label}`" in GLOSSARY, label


def test_it_has_every_measurement_of_patients_and_codes() -> None:
    frame = hospital.extract(400, 1000, seed=1)
    found = labels(frame, schema=Schema.load(ROOT / "sample_data" / "hospital.schema.yaml"), method="independent")
    first = {label for label in found if not label[-1].isdigit() or label.endswith("1")}
    assert len(first) > 3
    for label in first:
        assert f"`{label}`" in GLOSSARY, label


def test_it_has_every_mechanism() -> None:
    for mechanism in get_args(events.Event):
        assert f"**{mechanism.__name__}**" in GLOSSARY, mechanism


def test_it_has_every_measure_of_a_verdict() -> None:
    for question in questions().values():
        assert f"`{question.measure}`" in GLOSSARY, question.measure


def test_the_reviewers_page_has_every_question_of_a_verdict() -> None:
    page = (ROOT / "docs" / "tutorials" / "reviewer.md").read_text()
    for question in questions().values():
        assert f"| {question.words} |" in page, question.words


def test_every_entry_says_something() -> None:
    for line in (line for line in GLOSSARY.splitlines() if line.startswith("### ")):
        entry = GLOSSARY.split(f"{line}\n", 1)[1].split("\n#", 1)[0]
        assert len(entry.split()) >= 12, line
