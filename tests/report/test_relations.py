"""Strong relations: lost ones are named with both figures and a rule, kept ones are not called lost by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, binomtest

from medsynth.report.build import build
from medsynth.report.data.tables import Tables
from medsynth.report.data.verdict import Thresholds, Verdict
from medsynth.report.page.render import page
from medsynth.report.sections.relations import (
    LEVEL,
    RELATIONS,
    Relations,
    _excess,
    _kept,
    _left_over,
    _rarer,
    _Side,
    relations,
)
from medsynth.schema.rules import parse

RULE = "referral = antenatal implies pregnant = yes"


def clinic(rows: int, rng: np.random.Generator, kept: float = 1.0) -> pd.DataFrame:
    """Rows of a clinic whose three strong relations hold in a share `kept` of the rows; six more columns are noise."""
    holds = rng.random(rows) < kept
    referral = rng.choice(["gp", "antenatal", "emergency"], rows, p=[0.77, 0.03, 0.2])
    pregnant = np.where((referral == "antenatal") & holds, "yes", np.where(rng.random(rows) < 0.005, "yes", "no"))
    ward = rng.choice(["a", "b", "c", "d"], rows)
    unit = np.where(holds, pd.Series(ward).map({"a": "x", "b": "x", "c": "y", "d": "z"}), rng.choice([*"xyz"], rows))
    tsh = rng.normal(0, 1, rows)
    made = {"referral": referral, "pregnant": pregnant, "ward": ward, "unit": unit, "tsh": tsh}
    made["ft4"] = np.where(holds, -tsh, rng.normal(0, 1, rows)) + rng.normal(0, 0.2, rows)
    noise = {f"n{k}": rng.normal(0, 1, rows) for k in range(3)} | {
        f"c{k}": rng.choice([*"pqrs"], rows) for k in range(3)
    }
    return pd.DataFrame(made | noise)


def found(real: pd.DataFrame, synthetic: pd.DataFrame, patients: Any = None) -> Relations:
    numbers = frozenset(str(name) for name in real if real[name].dtype == float)
    made = relations(Tables(real, synthetic, None, None, numbers, patients=patients or {}), np.random.default_rng(0))
    assert made is not None
    return made


def line(made: Relations) -> Verdict:
    assert RELATIONS.verdicts is not None
    (found,) = RELATIONS.verdicts(made, Thresholds())
    return found


def outcome(made: Relations) -> str:
    return line(made).outcome


def named(made: Relations, one: str, other: str) -> Any:
    return next(r for r in made.listed if {r.column, r.partner} == {one, other})


def test_a_lost_relation_is_named_with_both_figures_and_the_rule_that_would_keep_it() -> None:
    real, made = clinic(1500, np.random.default_rng(1)), clinic(3000, np.random.default_rng(2), kept=0.0)
    record = found(real, made)
    assert record.found == 3 and record.lost.low == record.lost.value == record.lost.high == 3
    assert outcome(record) == "beyond"
    lost = named(record, "referral", "pregnant")
    shares = [float((t[t.referral == "antenatal"].pregnant == "yes").mean()) for t in (real, made)]
    assert [lost.real, lost.synthetic] == pytest.approx(shares) and lost.kept == "lost" and lost.rules == [RULE]
    assert lost.elsewhere == pytest.approx((real[real.referral != "antenatal"].pregnant == "yes").mean())
    assert lost.shares_real == [[pytest.approx(x, abs=1e-4) for x in (1 - shares[0], shares[0])]]
    assert set(named(record, "ward", "unit").rules) >= {"ward = a implies unit = x", "ward = c implies unit = y"}
    assert named(record, "tsh", "ft4").rules == []


def test_a_level_without_synthetic_rows_is_lost_and_one_with_few_real_rows_is_not_judged() -> None:
    real, made = clinic(1500, np.random.default_rng(1)), clinic(3000, np.random.default_rng(2))
    assert found(real, made).lost.high == 0 and outcome(found(real, made)) == "within"
    gone = named(found(real, made[made.referral != "antenatal"]), "referral", "pregnant")
    assert gone.kept == "lost" and gone.synthetic is None and "no synthetic row" in gone.sentence
    few = real.drop(index=real.index[real.referral == "antenatal"][9:])
    assert not any({r.column, r.partner} == {"referral", "pregnant"} and r.level for r in found(few, made).listed)


def test_a_relation_of_few_patients_is_named_and_not_counted() -> None:
    """Of 2,000 rows, 12 have a level that determines another one: no board forbids a table for their sake."""
    rng = np.random.default_rng(4)
    for rows, counted in ((12, False), (40, True)):
        sides = [clinic(2000, rng).assign(referral="gp", pregnant="no") for _ in range(2)]
        for side, pregnant in zip(sides, ("yes", "no"), strict=True):
            side.loc[: rows - 1, ["referral", "pregnant"]] = ["antenatal", pregnant]
        record = found(*sides)
        lost = named(record, "referral", "pregnant")
        assert lost.kept == "lost" and lost.few is not counted and record.found == 2 + counted
        assert outcome(record) == ("beyond" if counted else "within")
        plain = line(record).plain
        assert lost.sentence in plain and ("Fewer than 1 in 100 real rows show this" in plain) is not counted


def test_rows_of_the_same_patient_are_not_independent() -> None:
    """Twenty rows each of 75 patients show less than rows of 1,500 patients."""
    real, made = clinic(1500, np.random.default_rng(1)), clinic(3000, np.random.default_rng(2), kept=0.1)
    numbers = {"real": np.arange(1500) // 20, "synthetic": np.arange(3000) // 20}
    assert named(found(real, made), "referral", "pregnant").kept == "lost"
    listed = found(real, made, numbers).listed
    assert all(r.kept != "lost" for r in listed if {r.column, r.partner} == {"referral", "pregnant"})


def side(hits: int, rows: int, elsewhere: float, of: int) -> _Side:
    """A table with `of` rows: `hits` of the `rows` with a level have the partner, and a share `elsewhere` of others."""
    return _Side(np.array([[rows, hits], [hits, hits + elsewhere * (of - rows)]], np.float64), of, 1.0)


@pytest.mark.matrix
@pytest.mark.parametrize(("share", "elsewhere"), [(1.0, 0.0), (0.97, 0.2), (0.92, 0.5)])
@pytest.mark.parametrize(("rows", "made"), [(10, 12), (14, 40), (46, 187), (100, 60)])
@pytest.mark.parametrize("chance", [1e-2, 1e-4, 1e-6])
def test_chance_decides_wrongly_as_rarely_as_stated(
    share: float, elsewhere: float, rows: int, made: int, chance: float
) -> None:
    """Every outcome is enumerated: a relation that keeps just half is rarely called lost, and rarely kept."""
    half = elsewhere + 0.5 * (share - elsewhere)
    real = [_excess(side(k, rows, elsewhere, 3428), 0, 1, chance) for k in range(rows + 1)]
    theirs = [_excess(side(k, made, elsewhere, 10_000), 0, 1, chance) for k in range(made + 1)]
    weights = np.outer(binom.pmf(range(rows + 1), rows, share), binom.pmf(range(made + 1), made, half))
    told = np.array([[_kept(*_left_over(one, other)) for other in theirs] for one in real])
    assert weights[told == "lost"].sum() <= chance and weights[told == "kept"].sum() <= LEVEL


def test_all_of_fourteen_against_none_of_forty_is_more_than_chance() -> None:
    """The demo: of 14 patients of psychiatry all take lithium, and none of 40 synthetic ones; 5,000 pairs are seen."""
    sides = [_excess(one, 0, 1, 0.01 / 5000) for one in (side(14, 14, 0.005, 3428), side(0, 40, 0.01, 10_000))]
    assert _kept(*_left_over(*sides)) == "lost"
    few = [_excess(one, 0, 1, 0.01 / 5000) for one in (side(10, 10, 0.005, 3428), side(0, 12, 0.01, 10_000))]
    assert _kept(*_left_over(*few)) == "cannot tell"


def test_a_level_that_is_rare_by_chance_is_not_lost() -> None:
    """Twenty synthetic rows are expected and nine are there: an exact test, as scipy's."""
    real, made = side(10, 10, 0.0, 1000), side(9, 9, 0.0, 2000)
    assert _rarer((real, made), 0) == pytest.approx(binomtest(10, 19, 1 / 3, alternative="greater").pvalue)
    rng = np.random.default_rng(3)
    table = clinic(1000, rng).assign(referral="gp")
    table.loc[:9, ["referral", "pregnant"]] = ["antenatal", "yes"]
    for count, kept in ((10, "cannot tell"), (400, "lost")):
        rows = pd.concat([table] * (1 if count == 10 else 40), ignore_index=True)
        few = clinic(len(rows) * 2, rng).assign(referral="gp")
        few.loc[:8, ["referral", "pregnant"]] = ["antenatal", "yes"]
        assert named(found(rows, few), "referral", "pregnant").kept == kept


ODD_NAMES = [
    ("referral", "antenatal clinic", "sex", "F", 'referral = "antenatal clinic" implies sex = F'),
    ("body part", "left", "sex", "F", "`body part` = left implies sex = F"),
    ("first", "and", "sex", "F", '`first` = "and" implies sex = F'),
    ("referral", "sex", "sex", "F", 'referral = "sex" implies sex = F'),
    ("referral", 'the "old" one', "sex", "1.5", "referral = 'the \"old\" one' implies sex = 1.5"),
    ("referral", "1st", "sex", "-1", 'referral = "1st" implies sex = -1'),
    ("réferral", "ärzte", "sex", "F", "réferral = ärzte implies sex = F"),
]


@pytest.mark.parametrize(("column", "level", "partner", "other", "rule"), ODD_NAMES)
def test_a_rule_is_written_in_the_schemas_language(
    column: str, level: str, partner: str, other: str, rule: str
) -> None:
    mine = np.repeat([level, "else"], [60, 240])
    theirs = np.where(mine == level, other, "none")
    real = pd.DataFrame({column: mine, partner: theirs}, dtype=object)
    made = real.assign(**{partner: np.random.default_rng(0).permutation(theirs)})
    assert rule in named(found(real, made), column, partner).rules
    values = {column: real[column].to_numpy(), partner: real[partner].to_numpy()}
    parsed = parse(rule, {column: False, partner: False})
    assert not parsed.broken(values).any() and parsed.broken({**values, partner: made[partner].to_numpy()}).any()


@pytest.mark.statistical
def test_chance_loses_no_relation_and_a_loss_is_told() -> None:
    """The chance of a false "beyond" is at most 1 % a table by the limits; 40 tables of each kind, of fixed seeds."""
    for rows, drawn in ((30, 200), (250, 1000)):
        told = dict[str, list[str]]()
        for k in range(40):
            rng = np.random.default_rng([rows, k])
            real, made = clinic(rows, rng), clinic(drawn, rng)
            told.setdefault("same", []).append(outcome(found(real, made)))
            apart = [t.apply(lambda c, rng=rng: rng.permutation(c.to_numpy())) for t in (real, made)]
            told.setdefault("unrelated", []).append(outcome(found(*apart)))
            told.setdefault("lost", []).append(outcome(found(real, clinic(drawn, rng, kept=0.0))))
        assert "beyond" not in told["same"] + told["unrelated"]
        assert told["same"].count("within") >= 36 and told["lost"].count("beyond") >= 36


def test_the_page_shows_the_pairs_and_says_what_acting_on_them_is() -> None:
    real, made = clinic(900, np.random.default_rng(1)), clinic(900, np.random.default_rng(2), kept=0.0)
    text = page(build(synthetic=made, real=real, target="none"))
    assert f"<code>{RULE}</code>" in text and "no ledger records" in text
    assert "pregnant = yes in rows with referral = antenatal" in text
    shareable = build(synthetic=made, real=None, target="none")
    assert "relations" not in {section.id for section in shareable.shown} and RULE not in page(shareable)
