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
from scipy.stats import norm

from medsynth.privacy.accounting.events import Gaussian
from medsynth.report.build import _Background, build
from medsynth.report.data.context import Context
from medsynth.report.data.proposal import ESTIMATING, PASSING_ON, JudgedUse, deciding, judged_uses, sentences, uses_of
from medsynth.report.data.question import FEWER, Question
from medsynth.report.data.tables import Tables
from medsynth.report.data.verdict import Estimate, Review, Threshold, Thresholds, Verdict, rows_to_settle
from medsynth.report.page.render import page
from medsynth.report.sections.registry import SECTIONS, questions
from medsynth.report.sections.summary import _advised, _meaning

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


@pytest.mark.parametrize("key", PRIVACY)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_whether_rows_may_leave_comes_first(key: str, outcome: str) -> None:
    lines = [verdict(k, outcome if k == key else "within") for k in PRIVACY]
    start = {
        "within": "Share for teaching: yes, with these limits.", "beyond": "Share these rows: no, because the answer",
        "no guarantee": "Share these rows: no, because nothing limits",
    }.get(outcome, "Share these rows: the board decides, because")  # fmt: skip
    said = sentences(lines, QUESTIONS, [JudgedUse(use="teaching", fitness="fit", because=[])], None)
    assert said[0].startswith(start)
    assert (f"Is {key} right?" in said[0]) is (outcome not in ("within", "no guarantee"))
    assert said[-1] == "No decision about a patient may rest on these rows."


@pytest.mark.parametrize(
    ("uses", "start"),
    [
        (
            [("apples", "fit"), ("bears", "not fit"), ("cows", "board decides")],
            "Share for apples: yes, with these",
        ),
        (
            [("apples", "not fit"), ("bears", "board decides")],
            "Share for bears: the board decides, because this is open: Is two_way",
        ),
        ([("apples", "not fit"), (ESTIMATING, "not fit")], "Share these rows: no, because they are fit for no use"),
        ([(ESTIMATING, "not fit")], "Share these rows: the board decides, because this page judges no use."),
    ],
)
def test_the_answer_is_one_sentence_and_each_use_has_one_more(uses: Any, start: str) -> None:
    lines = [*(verdict(key, "within") for key in PRIVACY), verdict("two_way_gap", "cannot tell")]
    judged = [JudgedUse(use=use, fitness=fitness, because=["two_way_gap"]) for use, fitness in uses]
    answer, *others = sentences(lines, QUESTIONS, judged, "teaching")
    assert answer.startswith(start)
    for use, _ in uses:
        assert sum(use in sentence for sentence in (answer, *others)) == 1
    assert "teaching" in others[-2] and any(s.startswith("To estimate") for s in others) is (uses[-1][0] == ESTIMATING)


@pytest.mark.parametrize(("value", "allowed", "yes"), [(0.05, 0.4, True), (0.1, 0.4, False), (0.05, None, False)])
def test_an_open_attack_is_a_limit_if_a_claim_limits_it(value: float, allowed: float | None, yes: bool) -> None:
    """An attack can show a leak, and protects nobody. Whether the claim does is another line."""
    asked = Question(key="attack_advantage", words="Do attacks fail?", measure="m", limit=0.09)
    attack = asked.judge(Estimate(value=value, low=0.0, high=0.2), Thresholds(), "", allowed=allowed)
    lines = [verdict("epsilon", "within"), attack]
    answer, *others = sentences(lines, QUESTIONS, [JudgedUse(use="teaching", fitness="fit", because=[])], None)
    assert answer.startswith("Share for teaching: yes" if yes else "Share these rows: the board decides")
    assert ("This is open, but the guarantee limits it: Do attacks fail?" in others) is yes


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
    assert found.advice.startswith("Hold out about 3" if more else "This table is too small")


def test_advice_is_what_is_left_to_do(model: Any) -> None:
    """A schema that is declared need not be declared; an epsilon at its limit does not grow."""
    asked = Question(key="k", words="?", measure="m", limit=0.5, cure=f"Stop. {FEWER}")
    line = asked.judge(Estimate(value=1.0), Thresholds(), "")
    base = Context(title="t", target=None, synthetic=pd.DataFrame({"x": [1]}))
    limits = Thresholds({"epsilon": Threshold(limit=1.0, source="s")})
    for context, advice in (
        (base, f"Stop. {FEWER}"),
        (
            dataclasses.replace(base, model=model),
            "Stop. Leave out columns that nobody needs or fit with a larger epsilon.",
        ),
        (dataclasses.replace(base, model=model, thresholds=limits), "Stop. Leave out columns that nobody needs."),
    ):
        assert _advised(line, context).advice == advice


def test_every_question_has_a_cure_and_a_place_in_the_rule() -> None:
    for key, question in QUESTIONS.items():
        assert question.cure, key
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
        assert ("perhaps" in said) is (estimate.low is not None and "{between}" in wording.text)
    assert question.meaning(question.judge(Estimate(value=limit - 1), none, "detail")) == ""
    unfair = question.meaning(question.judge(ends, none, "detail", instead="not judged"))
    assert not [word for word in JARGON if word.lower() in unfair.lower()]


def test_a_question_of_another_package_shows_its_figure() -> None:
    asked = Question(key="mine", words="Is {it} so?", measure="share of {x}", limit=0.5)
    found = asked.judge(Estimate(value=0.75, low=0.7, high=0.8), Thresholds(), "")
    assert _meaning(found, QUESTIONS) == "Share of {x}: 0.750, perhaps 0.700 to 0.800. The limit is 0.5."


def test_the_page_begins_with_the_summary_and_ends_with_the_signatures(report: Any) -> None:
    html = page(report)
    assert [section.id for section in report.shown][:3] == ["verdicts", "losses", "questions"]
    assert report.shown[-1].id == "signoff" and list(SECTIONS)[-1] == "signoff"
    summary = html[html.index("<h1>") : html.index('id="questions"')]
    assert summary.index(report.proposal[0]) < summary.index("<nav") < summary.index("What was asked for")
    for words in ("What was asked for", "What is guaranteed", "What was found", "What is lost", "<svg"):
        assert words in summary
    for line in report.verdicts:
        assert line.question in summary and f'id="q-{line.key}"' in html and str(escape(line.plain)) in summary
    for sentence in report.proposal:
        assert sentence in summary
    claim: Any = report.sections["claim"]
    assert f"<strong>{math.ceil(100 * claim.guess_right)} times in 100" in summary


def test_without_a_guarantee_the_page_says_so_above_all(synthetic: Any, halves: Any) -> None:
    made = build(synthetic=synthetic, real=halves[1], train=halves[0], target="diagnosis", disjoint=True)
    html = page(made)
    summary = html[html.index('id="verdicts"') :]
    assert summary.index("No guarantee.") < summary.index("What was asked for")
    assert made.proposal[0].startswith("Share these rows: no, because nothing limits")


@pytest.mark.nightly
def test_fitted_rows_leave_uses_to_the_board(model: Any, synthetic: Any, halves: Any) -> None:
    made = build(synthetic=synthetic, real=halves[0], fitted_rows=True, model=model, drawn_by_model=True)
    summary: Any = made.sections["verdicts"]
    judged = {use.use: use.fitness for use in summary.uses}
    assert judged["training models that predict diagnosis"] != "fit" != judged["exploring which columns go together"]
    assert all("Hold rows out" in line.advice for line in made.verdicts if line.outcome == "not judged")


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
    from medsynth.report.sections.attacks import _verdicts, attacks
    from medsynth.rng import numpy_stream

    train, held, other = (simulate.cohort(n, seed) for n, seed in ((1500, 1), (1200, 2), (3000, 3)))
    copied = train.sample(frac=0.1, random_state=0)
    for rows, outcome in ((pd.concat([other, copied]), "beyond"), (other, "within")):
        real, made, known = (cells_of(frame) for frame in (held, rows, train))
        tables = inputs.gather(real, made, known, "diagnosis", None, numpy_stream(0, "t"), disjoint=True)
        lines = {v.key: v.outcome for v in _verdicts(attacks(tables, [], np.random.default_rng(0)), Thresholds())}
        assert lines["attack_certainty"] == outcome and lines["attack_advantage"] != "beyond"


def test_work_beside_does_not_keep_the_process() -> None:
    pool = _Background()
    assert pool.submit(lambda one, two: one + two, 1, two=2).result() == 3
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 / 0).result()
    import threading

    waiting = threading.Event()
    started = pool.submit(waiting.wait)
    assert all(thread.daemon for thread in threading.enumerate() if "_run" in thread.name)
    waiting.set()
    started.result()
