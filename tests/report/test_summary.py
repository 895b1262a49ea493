"""Page one: the proposal follows from the verdicts by a public rule, and says what to do about each open question."""

import dataclasses
import itertools
import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from medsynth_sample_data import simulate
from pydantic import ValidationError
from scipy.stats import norm

from medsynth.privacy.accounting.events import Gaussian
from medsynth.report.build import build
from medsynth.report.data.context import Context
from medsynth.report.data.proposal import (
    ESTIMATING,
    PASSING_ON,
    JudgedUse,
    Lost,
    answer,
    deciding,
    judged_uses,
    uses_of,
)
from medsynth.report.data.question import FEWER, LARGER, Question
from medsynth.report.data.tables import Tables
from medsynth.report.data.verdict import Estimate, Purpose, Review, Threshold, Thresholds, Verdict, rows_to_settle
from medsynth.report.page.render import page
from medsynth.report.sections.attacks import _verdicts
from medsynth.report.sections.registry import SECTIONS, questions
from medsynth.report.sections.summary import _advised, _meaning, _to_do

OUTCOMES = ("within", "beyond", "cannot tell", "no guarantee", "not judged", "not measured")
QUESTIONS = questions()
PRIVACY = deciding(PASSING_ON, QUESTIONS)
MET = {"within": True, "beyond": False, "no guarantee": False}


def verdict(key: str, outcome: Any) -> Verdict:
    return Verdict(
        key=key, question=f"Is {key} right?", measure="m", estimate=Estimate(value=1.0), limit=1.0, source="s",
        outcome=outcome, met=MET.get(outcome), detail="",
    )  # fmt: skip


@pytest.mark.parametrize("use", uses_of(QUESTIONS))
def test_a_use_is_fit_if_all_its_questions_are_within(use: str) -> None:
    """Every outcome of every question that decides it, next to others within."""
    keys = deciding(use, QUESTIONS)
    for key, outcome in itertools.product(keys, OUTCOMES):
        lines = [verdict(k, outcome if k == key else "within") for k in keys]
        found = next(u for u in judged_uses(lines, QUESTIONS, "class") if u.use == use.format(target="class"))
        wanted = {"within": "fit", "beyond": "not fit", "no guarantee": "not fit"}.get(outcome, "board decides")
        assert found.fitness == wanted and found.because == ([] if wanted == "fit" else [key])


def test_a_use_without_a_question_is_not_mentioned() -> None:
    assert judged_uses([verdict("epsilon", "within")], QUESTIONS, None) == []
    assert judged_uses([verdict("rows_apart", "beyond")], QUESTIONS, None) == []


NOTHING_LOST = Lost(False, ["Lost: nothing that was checked."])
STATED = Purpose(purpose="teaching", recipient="a university")


def said(lines: Any, uses: Any, asked_for: Purpose = STATED, lost: Lost = NOTHING_LOST) -> Any:
    judged = [JudgedUse(use=use, fitness=fitness, because=["two_way_gap"]) for use, fitness in uses]
    return answer(lines, QUESTIONS, judged, asked_for, lost)


@pytest.mark.parametrize("key", PRIVACY)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_whether_rows_may_leave_comes_first(key: str, outcome: str) -> None:
    lines = [verdict(k, outcome if k == key else "within") for k in PRIVACY]
    status, start = {
        "within": ("yes", "The synthetic rows may be shared for teaching."),
        "beyond": ("no", "The synthetic rows may not be shared."),
        "no guarantee": ("no", "The synthetic rows may not be shared, because nothing limits"),
    }.get(outcome, ("undecided", "The board decides whether the synthetic rows may be shared at all."))
    found = said(lines, [("teaching", "fit")])
    assert found.status == status and found.sentences[0].startswith(start)
    named = QUESTIONS[key].topic in " ".join(found.sentences[1 : 1 + found.named])
    assert named is (outcome not in ("within", "no guarantee"))
    assert found.sentences[-1] == "No decision about a patient may rest on synthetic rows."


@pytest.mark.parametrize(
    ("uses", "status", "start"),
    [
        (
            [("apples", "fit"), ("bears", "not fit"), ("cows", "board decides")],
            "yes, with limits",
            "The synthetic rows may be shared only for apples.",
        ),
        (
            [("apples", "not fit"), ("bears", "board decides")],
            "undecided",
            "The board decides whether the synthetic rows may be shared for bears.",
        ),
        ([("apples", "not fit"), (ESTIMATING, "not fit")], "no", "The synthetic rows are fit for no use"),
        ([(ESTIMATING, "not fit")], "undecided", "The board decides whether the synthetic rows may be shared, because"),
    ],
)
def test_the_answer_is_one_sentence_and_each_use_has_one_more(uses: Any, status: str, start: str) -> None:
    lines = [*(verdict(key, "within") for key in PRIVACY), verdict("two_way_gap", "cannot tell")]
    found = said(lines, uses)
    assert found.status == status and found.sentences[0].startswith(start)
    limits = [found.sentences[0], *found.sentences[1 + found.named :]]
    for use, _ in uses:
        assert sum(use in sentence for sentence in limits) == 1
    assert "teaching" in limits[-2]
    assert any(s.startswith("To estimate") for s in limits) is (uses[-1][0] == ESTIMATING and status != "no")


def test_what_failed_is_named_before_what_is_open() -> None:
    """An undecided page named only what was open, and two checks had failed."""
    lines = [verdict("epsilon", "within"), verdict("attack_advantage", "not measured"),
             verdict("two_way_gap", "beyond"), verdict("relations_lost", "beyond")]  # fmt: skip
    found = said(lines, [("testing", "fit"), ("teaching", "not fit")], lost=Lost(True, ["Lost: the columns a and b."]))
    assert found.status == "undecided" and found.sentences[1 : 1 + found.named] == [
        "Failed: pairs of columns and strong relations.",
        "Open: attacks that guess who was in the real table.",
        "Lost: the columns a and b.",
    ]


@pytest.mark.parametrize(
    ("fitness", "privacy", "status", "start"),
    [
        ({"apples": "fit", "bears": "not fit"}, "within", "yes", "The synthetic rows may be shared for apples."),
        ({"apples": "not fit", "bears": "fit"}, "not measured", "no", "The synthetic rows are not fit for what was"),
        ({"apples": "board decides", "bears": "fit"}, "within", "undecided", "The board decides whether the synthetic"),
        ({"bears": "fit"}, "within", "undecided", "The board decides whether the synthetic rows may be shared for app"),
        ({"apples": "fit"}, "beyond", "no", "The synthetic rows may not be shared."),
    ],
)
def test_only_the_uses_that_were_asked_for_matter(fitness: Any, privacy: str, status: str, start: str) -> None:
    """A report whose rows were unfit for the stated use was undecided, since another use was open."""
    uses = [JudgedUse(use=use, fitness=own, because=["two_way_gap"]) for use, own in fitness.items()]
    lines = [verdict(key, privacy) for key in PRIVACY]
    found = answer(lines, QUESTIONS, uses, Purpose(recipient="us"), NOTHING_LOST, ["apples"])
    assert found.status == status and found.sentences[0].startswith(start)
    assert not any("bears" in one or "Nobody has stated" in one for one in found.sentences)
    assert any(one == "Nothing on this page judges apples." for one in found.sentences) is ("apples" not in fitness)


@pytest.mark.parametrize("missing", [("purpose",), ("recipient",), ("purpose", "recipient")])
def test_nothing_is_shared_for_a_purpose_that_nobody_has_stated(missing: tuple[str, ...]) -> None:
    asked = STATED.model_copy(update=dict.fromkeys(missing))
    unstated = f"Nobody has stated the {' or the '.join(missing)}."
    found = said([verdict(key, "within") for key in PRIVACY], [("teaching", "fit")], asked)
    assert found.status == "yes, with limits" and found.sentences[0].startswith(f"{unstated} Once ")
    for outcome in ("beyond", "cannot tell", "no guarantee"):
        lines = [verdict(key, outcome) for key in PRIVACY]
        assert unstated in said(lines, [("teaching", "fit")], asked).sentences


def test_a_plain_yes_has_lost_nothing() -> None:
    lines = [verdict(key, "within") for key in PRIVACY]
    assert said(lines, [("teaching", "fit")]).status == "yes"
    assert said(lines, [("teaching", "fit")], lost=Lost(True, ["Lost: a."])).status == "yes, with limits"
    assert said([*lines, verdict("two_way_gap", "beyond")], [("x", "fit")]).status == "yes, with limits"


def test_a_use_that_nothing_judges_limits_a_yes() -> None:
    uses = [JudgedUse(use="apples", fitness="fit", because=[])]
    lines = [verdict(key, "within") for key in PRIVACY]
    for asked, status in ((["apples"], "yes"), (["apples", "cows"], "yes, with limits")):
        assert answer(lines, QUESTIONS, uses, STATED, NOTHING_LOST, asked).status == status


def test_a_review_names_one_use_or_several() -> None:
    assert Review.model_validate({"uses": "testing software"}).uses == ["testing software"]
    assert Review.model_validate({"uses": None}).uses == [] and Review().uses == []
    with pytest.raises(ValidationError, match="teaching and training people"):
        Review.model_validate({"uses": ["teaching"]})


def test_an_untried_attack_is_named() -> None:
    """Page one said that attacks were tried, and then that none was."""
    lines = [verdict("epsilon", "within"), verdict("attack_certainty", "not measured")]
    text = "Attacks that name single rows of the real table could not be judged, so nobody has tested the guarantee by "
    assert any(one.startswith(text) for one in said(lines, [("teaching", "fit")]).sentences)


@pytest.mark.parametrize(
    ("value", "allowed", "status", "why"),
    [
        (0.05, 0.4, "yes, with limits", "The guarantee limits every attack, so this alone does not prevent sharing."),
        (0.1, 0.4, "undecided", "So the guarantee is not enough for a yes."),
        (0.05, None, "undecided", "So the guarantee is not enough for a yes."),
        (None, None, "undecided", "were not tried, so nobody has tested the guarantee by them."),
    ],
)
def test_an_open_attack_says_why_it_decides(value: float, allowed: float | None, status: str, why: str) -> None:
    """An attack can show a leak, and protects nobody. Whether the claim does is another line."""
    asked = Question(key="attack_advantage", words="Do attacks fail?", measure="m", limit=0.09)
    figure = Estimate(value=None) if value is None else Estimate(value=value, low=0.0, high=0.2)
    attack = asked.judge(figure, Thresholds(), "", allowed=allowed)
    found = said([verdict("epsilon", "within"), attack], [("teaching", "fit")])
    assert found.status == status and sum(why in sentence for sentence in found.sentences) == 1
    shareable = said([verdict("epsilon", "within")], [("teaching", "fit")])
    assert any("no attack was tried for it" in sentence for sentence in shareable.sentences)


def test_a_yes_is_good_news_in_every_question() -> None:
    """ "Did attacks fail?" needs a second reading, and "Are there impossible rows?" passes with a no."""
    for question in QUESTIONS.values():
        assert not re.search(r"\b(not|no|fail|without|impossible|lost|never)\b", question.words), question.words


@pytest.mark.parametrize(("train", "more"), [(4000, 300), (600, None)])
def test_advice_fits_the_table(train: int, more: int | None) -> None:
    """ "Hold out 4,900 more rows" of a table of 2,000 cannot be done."""
    asked = Question(key="two_way_gap", words="?", measure="m", limit=0.055)
    line = asked.judge(Estimate(value=0.03, low=-0.02, high=0.08), Thresholds(), "")
    frames = [pd.DataFrame({"x": np.zeros(n)}) for n in (100, train)]
    tables = Tables(frames[0], frames[0], frames[1], None, frozenset({"x"}))
    found = _advised(line, Context(title="t", target=None, synthetic=frames[0], tables=tables))
    assert (found.more_rows is None) is (more is None)
    assert found.advice.startswith("Compare with about 3" if more else "This table has too few rows")


def test_advice_is_what_is_left_to_do(model: Any) -> None:
    """A schema that is declared need not be declared; an epsilon at its limit does not grow."""
    asked = Question(key="k", words="?", measure="m", limit=0.5, cure=f"Stop. {FEWER}")
    line = asked.judge(Estimate(value=1.0), Thresholds(), "")
    base = Context(title="t", target=None, synthetic=pd.DataFrame({"x": [1]}))
    limits = Thresholds({"epsilon": Threshold(limit=1.0, source="s")})
    for context, advice in (
        (base, f"Stop. {FEWER}"),
        (dataclasses.replace(base, model=model), f"Stop. Leave out columns that nobody needs or {LARGER}."),
        (dataclasses.replace(base, model=model, thresholds=limits), "Stop. Leave out columns that nobody needs."),
    ):
        assert _advised(line, context).advice == advice
    assert "protects patients less" in LARGER


@pytest.mark.parametrize(
    ("given", "start"),
    [("fitted", "Compare with real rows"), ("real", "Give the report the rows"), ("both", "There are too few rows")],
)
def test_advice_on_attacks_is_what_the_given_rows_allow(given: str, start: str) -> None:
    """ "Hold rows out when you fit" was the advice for a table with held-out rows."""
    rows = pd.DataFrame({"x": np.zeros(9)})
    tables = Tables(rows, rows, rows if given == "both" else None, None, frozenset({"x"}))
    context = Context(title="t", target=None, synthetic=rows, tables=tables, fitted_rows=given == "fitted")
    assert _advised(_verdicts(None, Thresholds())[0], context).advice.startswith(start)


def test_each_advice_is_given_once() -> None:
    lines = [
        verdict(key, "beyond").model_copy(update={"advice": advice})
        for key, advice in [
            ("two_way_gap", f"Stop. {FEWER}"),
            ("propensity_auroc", f"Stop. {FEWER}"),
            ("rules_broken", "Go."),
        ]
    ]
    lines += [verdict(key, "cannot tell").model_copy(update={"advice": f"About {more} more.", "more_rows": more})
              for key, more in (("attack_advantage", 20), ("attack_certainty", 30))]  # fmt: skip
    found = _to_do(lines, QUESTIONS, FEWER)
    assert [one.partition(": ")[2] for one in found] == ["Stop.", "Go.", "About 30 more.", FEWER]
    assert found[0].startswith("Pairs of columns and whole rows: ")


def test_every_question_has_a_cure_and_a_place_in_the_rule() -> None:
    for key, question in QUESTIONS.items():
        assert question.cure, key
        assert question.topic and question.topic[0].islower() | question.topic.startswith("OMOP"), key
        assert question.uses or question.further_uses or key in ("propensity_auroc", "cdm_checks"), key


@pytest.mark.parametrize(
    ("figure", "limit", "more"),
    [
        ((0.03, -0.02, 0.08), 0.055, 300),  # reach .05, distance .025: four times the rows
        ((0.10, 0.02, 0.18), 0.06, 300),  # from the other side
        ((0.05, 0.00, 0.10), 0.05, None),  # at the limit
        ((0.05, -0.5, 0.6), 0.06, None),  # too far
        ((0.05, 0.0, 0.1001), 0.1, 1),
        ((0.05, None, None), 0.1, None),
        ((None, None, None), 0.1, None),
    ],
)
def test_how_many_more_rows_would_settle_it(figure: Any, limit: float, more: int | None) -> None:
    found = rows_to_settle(Estimate(value=figure[0], low=figure[1], high=figure[2]), limit, 100)
    assert found == more or (more == 300 and found is not None and 300 <= found <= 310)


JARGON = ("AuROC", "AUC", "interval", "Bonferroni", "propensity", "two-way", "p-value", "false positive", "advantage")


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=list(QUESTIONS))
def test_page_one_has_words_for_every_question(question: Question) -> None:
    """Each figure and its ends are in the sentence, on the sentence's scale, and no word of statistics is."""
    limit, wording, none = question.limit, question.plain, Thresholds()
    decimals = question.decimals if wording.decimals is None else wording.decimals
    ends = Estimate(value=limit + 0.02, low=limit + 0.01, high=limit + 0.04)
    for estimate in (ends, Estimate(value=limit + 1)):
        said = question.meaning(question.judge(estimate, none, "detail"))
        assert said and not [word for word in JARGON if word.lower() in said.lower()]
        assert all(len(sentence.split()) <= 30 for sentence in said.split(". "))
        if question.key != "relations_lost":
            figures = [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?", said)]
            assert figures, said
            for number in (estimate.value, limit):
                place = wording.scale * (number or 0) + wording.shift
                assert any(abs(x - place) <= 0.51 * 10.0**-decimals for x in figures), said
        assert ("With other patients" in said) is (estimate.low is not None and "{between}" in wording.text)
    assert question.meaning(question.judge(Estimate(value=limit - 1), none, "detail")) == ""
    unfair = question.meaning(question.judge(ends, none, "detail", instead="not judged"))
    assert not [word for word in JARGON if word.lower() in unfair.lower()]


def test_a_question_of_another_package_shows_its_figure() -> None:
    asked = Question(key="mine", words="Is {it} so?", measure="share of {x}", limit=0.5)
    found = asked.judge(Estimate(value=0.75, low=0.7, high=0.8), Thresholds(), "")
    assert _meaning(found, QUESTIONS) == (
        "Share of {x}: 0.750. With other patients it could be anything from 0.700 to 0.800. The limit is 0.5."
    )


def test_the_page_begins_with_the_summary_and_ends_with_the_signatures(report: Any) -> None:
    html = page(report)
    assert [section.id for section in report.shown][:3] == ["verdicts", "losses", "questions"]
    assert report.shown[-1].id == "signoff" and list(SECTIONS)[-1] == "signoff"
    summary = html[html.index("<h1>") : html.index('id="questions"')]
    assert summary.index(report.proposal[0]) < summary.index("<nav") < summary.index("What was asked for")
    assert f"</span> {report.status.capitalize()}</p>" in summary and "synthetic rows</h1>" in summary
    for words in ("What was asked for", "What is guaranteed", "What was found", "What is lost", "<svg"):
        assert words in summary
    for line in report.verdicts:
        assert line.question in summary and f'id="q-{line.key}"' in html and str(escape(line.plain)) in summary
    for sentence in report.proposal:
        assert all(str(escape(part)) in summary for part in sentence.split(": ", 1))
    for advice in report.summary.to_do:
        assert advice in summary
    claim: Any = report.sections["claim"]
    assert f"<strong>{math.ceil(100 * claim.guess_right)} times in 100" in summary


@pytest.mark.nightly
def test_without_a_guarantee_the_page_says_so_above_all(synthetic: Any, halves: Any) -> None:
    made = build(synthetic=synthetic, real=halves[1], train=halves[0], target="diagnosis", disjoint=True)
    html = page(made)
    summary = html[html.index('id="verdicts"') :]
    assert summary.index("No guarantee.") < summary.index("What was asked for")
    assert made.status == "no" and "because nothing limits" in made.proposal[0]


@pytest.mark.nightly
def test_fitted_rows_leave_uses_to_the_board(model: Any, synthetic: Any, halves: Any) -> None:
    made = build(synthetic=synthetic, real=halves[0], fitted_rows=True, model=model, drawn_by_model=True)
    summary: Any = made.sections["verdicts"]
    judged = {use.use: use.fitness for use in summary.uses}
    assert judged["training models that predict diagnosis"] != "fit" != judged["exploring which columns go together"]
    assert all("a new fit" in line.advice for line in made.verdicts if line.outcome == "not judged")


def test_epsilon_and_delta_read_alike_everywhere(model: Any, synthetic: Any) -> None:
    """One epsilon, rounded up, and one delta: in the summary, the verdicts, the claim and the ledger."""
    from medsynth.privacy.accounting.accountant import rounded_up

    made = build(synthetic=synthetic.head(100), real=None, model=model, drawn_by_model=True,
                 review=Review(purpose="teaching"))  # fmt: skip
    html, shown = page(made), rounded_up(model.epsilon)
    for start in ("epsilon <data", "Epsilon: <data", "model behind this table is <strong>(<data", "accountant: <data"):
        place = html.index(start)
        assert f">{shown}</data>" in html[place : place + 120], start
    read = re.sub(r"<[^>]+>", " ", html)
    assert "1e-05" not in read and "0.00001" in read and "teaching" in read


@pytest.mark.parametrize("mu", [0.3, 0.85, 2.0])
def test_what_the_claim_allows_is_the_gaussians(mu: float) -> None:
    """2 AuROC - 1 of a Gaussian mechanism is 2 Phi(mu / root 2) - 1; the bound is above and close."""
    from medsynth.privacy.accounting.ledger import Ledger
    from medsynth.report.sections.claim import privacy

    ledger = Ledger(delta=1e-5, accountant="prv", random_source="operating system",
                    allowance={"one": (Gaussian(multiplier=1 / mu), 1)})  # fmt: skip
    ledger.charge("one", Gaussian(multiplier=1 / mu), 1.0)
    made: Any = SimpleNamespace(ledger=ledger, epsilon=ledger.epsilon(), claims=True, seen=0, rows=100,
                                rows_declared=True, tensors={}, structure_only=False)  # fmt: skip
    found = privacy(made)
    assert found is not None
    exact = 2 * norm.cdf(mu / math.sqrt(2)) - 1
    assert exact <= found.advantage <= exact + 0.06
    assert norm.cdf(norm.ppf(0.01) + mu) <= found.at_one_percent <= 2.5 * norm.cdf(norm.ppf(0.01) + mu)


@pytest.mark.statistical
def test_copies_of_a_tenth_of_the_rows_are_beyond() -> None:
    """Their average advantage is near the limit; near certainty they are not. The seed is fixed."""
    from medsynth.report.data import tables as inputs
    from medsynth.report.data.columns import cells_of
    from medsynth.report.sections.attacks import attacks
    from medsynth.rng import numpy_stream

    train, held, other = (simulate.cohort(n, seed) for n, seed in ((1500, 1), (1200, 2), (3000, 3)))
    copied = train.sample(frac=0.1, random_state=0)
    for rows, outcome in ((pd.concat([other, copied]), "beyond"), (other, "within")):
        real, made, known = (cells_of(frame) for frame in (held, rows, train))
        tables = inputs.gather(real, made, known, "diagnosis", None, numpy_stream(0, "t"), disjoint=True)
        lines = {v.key: v.outcome for v in _verdicts(attacks(tables, [], np.random.default_rng(0)), Thresholds())}
        assert lines["attack_certainty"] == outcome and lines["attack_advantage"] != "beyond"
