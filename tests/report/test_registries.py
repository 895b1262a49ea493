"""A section and an attack that nobody knows but this module, and what the page says of patients and learned schemas."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from medsynth.errors import UsageError
from medsynth.privacy.accounting.events import Gaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.report.build import build
from medsynth.report.data.question import Question
from medsynth.report.data.verdict import Estimate, Record, Review, Threshold, Thresholds
from medsynth.report.document import Report
from medsynth.report.page.render import page
from medsynth.report.sections import attacks
from medsynth.report.sections.attacks import attacks as run_attacks
from medsynth.report.sections.documentation import LEARNED, schema_learned
from medsynth.report.sections.registry import SECTIONS, Section, register

SMALL = Question(key="toy", words="Is it small?", measure="rows", limit=3.0, cure="Draw fewer.", uses=("playing",))


class Toy(Record):
    rows: int


@pytest.fixture
def toy() -> Iterator[Any]:
    section = register(
        Section(
            id="toy",
            title="A toy",
            compute=lambda context: Toy(rows=len(context.synthetic)),
            record=Toy,
            fragment="<p>There are {{ num(record.rows) }} rows.</p>",
            questions=(SMALL,),
            verdicts=lambda record, thresholds: [SMALL.judge(Estimate(value=record.rows), thresholds, "A toy.")],
        ),
        before="limits",
    )
    yield section
    del SECTIONS["toy"]


def test_a_section_of_its_own_is_everywhere(toy: Any, model: Any, synthetic: Any) -> None:
    steps: list[str] = []
    report = build(synthetic=synthetic, real=None, drawn_by_model=True, model=model, title="clinic", step=steps.append)
    html = page(report)
    number = [section.id for section in report.shown].index("toy") + 1
    assert f'<a href="#toy">{number}&#160; A toy</a>' in html and '<h2 id="toy">' in html
    assert '<p>There are <data value="1500">1,500</data> rows.</p>' in html
    assert html.index('id="plausibility"') < html.index('id="toy"') < html.index('id="limits"')
    assert steps.count("toy") == 1 and steps[-1] == "verdicts"
    assert report.verdicts[-1].question == "Is it small?" and report.verdicts[-1].met is False
    assert '"toy":{"rows":1500}' in report.model_dump_json()
    assert Report.model_validate_json(report.model_dump_json()) == report
    schema = Report.model_json_schema(mode="serialization")["properties"]["sections"]
    assert schema["properties"]["toy"]["title"] == "A toy"
    with pytest.raises(ValueError, match="toy"):
        register(toy)
    with pytest.raises(ValueError, match="question 'toy'"):
        register(dataclasses.replace(toy, id="toys"))


def test_a_question_of_its_own_is_everywhere(toy: Any, model: Any, synthetic: Any) -> None:
    """Its words, figure, default limit and cure, in thresholds, on page one and in the proposal."""

    def made(thresholds: Any = None, review: Any = None) -> Report:
        return build(synthetic=synthetic, real=None, model=model, thresholds=thresholds, review=review)

    report = made()
    line, html = report.verdicts[-1], page(report)
    assert (line.key, line.limit, line.source, line.advice) == ("toy", 3.0, SMALL.source, "Draw fewer.")
    assert line.plain == "Rows: 1,500.000. The limit is 3." and line.plain in html and 'id="q-toy"' in html
    assert "The synthetic rows are not fit for playing and estimating effects." in report.proposal
    limits = {"toy": {"limit": 2000.0, "source": "board"}}
    for changed in (
        made(Thresholds.model_validate(limits)),
        made(review=Review.model_validate({"thresholds": limits})),
    ):
        assert (changed.verdicts[-1].limit, changed.verdicts[-1].source) == (2000.0, "board")
        assert changed.verdicts[-1].outcome == "within"
    with pytest.raises(UsageError, match="threshold is for 'toi', but no question has this key. Use epsilon, .*toy"):
        made(Thresholds({"toi": Threshold(limit=1.0, source="board")}))


def test_each_answer_belongs_to_a_question_of_its_section(report: Any) -> None:
    """A registered section answers only what it declares: else no threshold and no words are known for it."""
    for section in SECTIONS.values():
        record = report.sections.get(section.id)
        if section.verdicts and section.appears(False, record):
            keys = {line.key for line in section.verdicts(record, Thresholds())}
            assert keys <= {question.key for question in section.questions}, section.id


def test_a_section_leaves_the_others_as_they_are(toy: Any, model: Any, synthetic: Any) -> None:
    with_toy = build(synthetic=synthetic, real=None, drawn_by_model=True, model=model, title="clinic").sections
    section = SECTIONS.pop("toy")
    without = build(synthetic=synthetic, real=None, drawn_by_model=True, model=model, title="clinic").sections
    SECTIONS["toy"] = section
    assert {k: v for k, v in with_toy.items() if k not in ("toy", "verdicts")} == {
        k: v for k, v in without.items() if k != "verdicts"
    }


def test_an_attack_of_its_own_is_run(halves: Any, synthetic: Any) -> None:
    from medsynth.report.data import tables as inputs
    from medsynth.report.data.columns import cells_of
    from medsynth.rng import numpy_stream

    attack = attacks.MembershipAttack(
        name="toy", how="says the same of all", score=lambda candidates, *_: candidates[:, 0] * 0
    )
    attacks.register(attack)
    try:
        rng = numpy_stream(0, "test")
        frames = [cells_of(frame) for frame in (halves[1].head(200), synthetic, halves[0].head(200))]
        tables = inputs.gather(frames[0], frames[1], frames[2], "diagnosis", None, rng)
        result = run_attacks(tables, [], rng)
        assert result is not None
        found = result.membership[-1]
        with pytest.raises(ValueError, match="toy"):
            attacks.register(attack)
    finally:
        del attacks.ATTACKS["toy"]
    assert found.name == "toy" and found.how == "says the same of all" and found.auroc.value == 0.5


def test_the_privacy_unit_is_the_ledgers(model: Any, synthetic: Any) -> None:
    patients = dataclasses.replace(model, ledger=dataclasses.replace(model.ledger, max_rows=3))
    report = build(synthetic=synthetic, real=None, drawn_by_model=True, model=patients, title="clinic")
    source: Any = report.sections["source"]
    assert source.privacy_unit == patients.ledger.protects != model.ledger.protects
    html = page(report)
    assert f"<dd>{patients.ledger.protects}</dd>" in html and "all rows of any one patient" in html
    assert f"<dd>{model.ledger.protects}</dd>" not in html


def test_a_learned_schema_is_known_from_the_ledger(model: Any, synthetic: Any) -> None:
    from medsynth.privacy.partition_selection import LEVELS

    event = Gaussian(multiplier=1.0)
    learned = Ledger(delta=1e-5, accountant="prv", random_source="operating system", allowance={LEVELS: (event, 1)})
    assert not schema_learned(model.ledger) and not schema_learned(learned)
    learned.charge(LEVELS, event, 1.0)
    assert schema_learned(learned)
    report = build(
        synthetic=synthetic,
        real=None,
        drawn_by_model=True,
        model=dataclasses.replace(model, ledger=learned),
        title="clinic",
    )
    variables: Any = report.sections["variables"]
    assert {column.origin for column in variables.columns} == {LEARNED}


def test_two_pages_of_one_report_are_equal(report: Any) -> None:
    assert page(report) == page(report)
