"""Rules across a patient's rows: what is one, what it says of rows written by hand, and names like words."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medsynth.errors import SchemaError
from medsynth.schema import Schema
from medsynth.schema.rules import Comparison, End, Number, Operation, Position, Rule, Word, parse

NUMBERS = {"dose": True, "total": True, "day": True, "chronic": False, "previous": True, "last": True, "row": True}
COLUMNS: dict[str, Any] = {
    "patient": {"kind": "identifier"},
    "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]},
    "dose": {"kind": "continuous", "bounds": [0, 10], "decimals": 1, "missing": True},
    "total": {"kind": "continuous", "bounds": [0, 50], "decimals": 1},
    "change": {"kind": "continuous", "bounds": [-10, 10], "decimals": 1, "missing": True},
    "chronic": {"kind": "binary", "levels": ["no", "yes"]},
    "died": {"kind": "binary", "levels": ["no", "yes"]},
}
RULES = [
    "day > previous(day)",
    "previous(chronic) = yes implies chronic = yes",
    "died = yes implies last row",
    "total = cumulative(dose)",
    "change = dose - previous(dose)",
]


def schema(rules: list[str] = RULES, order: str | None = "day", **columns: Any) -> Schema:
    head = {"name": "t", "target": "died", "unit": "patient", "max_rows": 5, "order": order}
    return Schema.from_dict({**head, "columns": COLUMNS | columns, "rules": rules})


def position(before: dict[str, Any], first: list[bool], last: list[bool]) -> Position:
    return Position(before, np.array(first), np.array(last))


def test_a_schema_with_rules_across_rows_comes_back_from_yaml() -> None:
    assert Schema.from_yaml(schema().to_yaml()) == schema() and schema().has_rules_across_rows
    assert [rule.across for rule in schema().parsed_rules] == [True] * 5


def test_models_learn_what_no_rule_computes_and_single_rows_are_held_to_rules_of_single_rows() -> None:
    core = schema(["day > previous(day)", "total = cumulative(dose)", "rest = 10 - total", "dose < 9"],
                  rest=COLUMNS["change"]).core  # fmt: skip
    assert set(core.columns) == {"day", "dose", "change", "chronic", "died"}
    assert not core.definitions and [one.rule.text for one in core.constraints] == ["dose < 9"]
    assert not schema(["dose < 9"]).has_rules_across_rows


@pytest.mark.parametrize("rule", [RULES[0], RULES[2], RULES[3], RULES[4], "first row implies dose = 0"])
def test_rules_across_rows_need_an_order(rule: str) -> None:
    with pytest.raises(SchemaError, match="reads more than one row of a patient. Set the key `order`"):
        schema([rule], order=None)
    assert schema([rule]).parsed_rules[0].text == rule


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("day > previous(who)", "'who' is not one"),
        ("day > previous(dose + 1)", "takes one column"),
        ("day > previous(day", "too early"),
        ("day > previous()", "takes a column"),
        ('chronic = previous("chronic")', "takes a column"),
        ("previous(chronic) > yes", "compare levels"),
        ("previous(sex) + 1 = 2", "not a column of numbers"),
        ("dose > cumulative(dose)", "write cumulative"),
        ("total = cumulative(dose) + 1", "write cumulative"),
        ("died = yes implies total = cumulative(dose)", "write cumulative"),
        ("total = cumulative(chronic)", "not a column of numbers"),
        ("dose = previous(dose)", "cannot be on both sides"),
        ("total = previous(total) + dose", "cannot be on both sides"),
        ("total = cumulative(total)", "cannot be on both sides"),
        ("total = dose - previous(dose)", "needs `missing: true`"),
        ("died = yes implies last", "too early"),
        ("died = yes implies next row", "comparison"),
        ("last row = 1", "end"),
        ("total = cumulative(day)", "a sum needs numbers"),
        ("total = cumulative(fine)", "at least as many decimals"),
        ("rough = cumulative(dose)", "no `whole_from`"),
    ],
)
def test_what_is_no_rule_across_rows_is_refused_with_a_reason(rule: str, message: str) -> None:
    fine = {"kind": "continuous", "bounds": [0, 1], "decimals": 3}
    rough = {"kind": "continuous", "bounds": [0, 50], "decimals": 1, "whole_from": 2}
    sex = {"kind": "binary", "levels": ["F", "M"]}
    with pytest.raises(SchemaError, match=message):
        schema([rule], fine=fine, rough=rough, sex=sex)


def test_columns_may_have_the_names_of_functions() -> None:
    assert not parse("previous > 3 and last < row", NUMBERS).across
    rule = parse("previous(previous) < previous and last row implies last > 3", NUMBERS)
    assert rule.across and rule.columns == {"previous", "last"} and rule.before == {"previous"}
    assert parse("`last` = row / 2", NUMBERS).defines == "last"
    assert (
        parse("chronic = last", NUMBERS | {"last": False})
        .broken({"chronic": np.array(["a"], object), "last": np.array(["b"], object)})
        .all()
    )


def test_what_is_before_a_first_row_is_missing_and_breaks_no_rule() -> None:
    own = {"day": np.array([5.0, 5, 6, np.nan, 7]), "chronic": np.array(["yes", "no", "no", "no", None], object)}
    before = {
        "day": np.array([np.nan, 5, 5, 1, np.nan]),
        "chronic": np.array([None, "yes", "no", "yes", "yes"], object),
    }
    place = position(before, [True, False, False, False, False], [False] * 5)
    found = parse("day > previous(day)", NUMBERS).broken(own, place)
    assert found.tolist() == [False, True, False, False, False]
    found = parse("previous(chronic) = yes implies chronic = yes", NUMBERS).broken(own, place)
    assert found.tolist() == [False, True, False, True, False]
    found = parse("chronic = previous(chronic)", NUMBERS).broken(own, place)
    assert found.tolist() == [False, True, False, True, False]


def test_a_row_may_be_first_and_last_at_once() -> None:
    place = position({}, [True, False, False, True], [False, False, True, True])
    own = {"chronic": np.array(["yes"] * 4, object)}
    for text, truth in [
        ("chronic = yes implies last row", [1, 1, 0, 0]),
        ("chronic = yes implies first row", [0, 1, 1, 0]),
        ("last row implies first row", [0, 0, 1, 0]),
        ("first row and last row implies chronic = no", [0, 0, 0, 1]),
        ("3 > 2 and last row implies chronic = no", [0, 0, 1, 1]),
    ]:
        assert parse(text, NUMBERS).broken(own, place).tolist() == [bool(one) for one in truth], text


def test_a_rule_across_rows_is_not_evaluated_on_rows_by_themselves() -> None:
    for text in ("day > previous(day)", "chronic = yes implies last row"):
        with pytest.raises(ValueError, match="position"):
            parse(text, NUMBERS).broken({"day": np.zeros(1), "chronic": np.array(["yes"], object)})


def test_a_constant_condition_stands_beside_conditions_of_rows() -> None:
    """On the old code a traceback: the truths of both had different lengths."""
    rule = parse("3 > 2 and dose > 1 implies dose > 3 and 2 > 1", {"dose": True})
    assert rule.broken({"dose": np.array([0.0, 2, 4])}).tolist() == [False, True, False]


# Any rule that is printed is read as it was.

OF_NUMBERS = [Word(name, True) for name, number in NUMBERS.items() if number]
NUMBER_WORDS = st.sampled_from([*OF_NUMBERS, *(replace(word, function="previous") for word in OF_NUMBERS)])
LEAVES = st.one_of(NUMBER_WORDS, st.integers(0, 999).map(lambda value: Number(value / 10)))
SUMS = st.recursive(LEAVES, lambda inner: st.builds(Operation, st.sampled_from("+-*/"), inner, inner), max_leaves=6)
SIGNS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
LEVELS = st.builds(
    Comparison, st.sampled_from(["=", "!="]),
    st.sampled_from([Word("chronic", True), Word("chronic", True, "previous")]),
    st.sampled_from(["yes", "in part", "row"]).map(lambda text: Word(text, False)),
)  # fmt: skip
CONDITIONS = st.one_of(
    st.builds(Comparison, SIGNS, SUMS, SUMS), LEVELS, st.sampled_from([End("first"), End("last")])
)  # fmt: skip
MANY = st.lists(CONDITIONS, min_size=1, max_size=3).map(tuple)


def printed(part: Any) -> str:
    match part:
        case Number(value):
            return f"{value:.1f}"
        case Word(name, True, function):
            return f"{function}(`{name}`)" if function else f"`{name}`"
        case Word(name):
            return f'"{name}"'
        case Operation(sign, left, right):
            return f"({printed(left)} {sign} {printed(right)})"
        case Comparison(sign, left, right):
            return f"{printed(left)} {sign} {printed(right)}"
        case End(which):
            return f"{which} row"
    raise AssertionError(part)


@settings(deadline=None)
@given(MANY, MANY)
def test_a_rule_that_is_printed_is_read_as_it_was(premise: Any, conclusion: Any) -> None:
    text = f"{' and '.join(map(printed, premise))} implies {' and '.join(map(printed, conclusion))}"
    if len(text) <= 500:
        rule = parse(text, NUMBERS)
        assert rule == Rule(text, premise, conclusion)
        unquoted = parse(text.replace("`", ""), NUMBERS)
        assert (unquoted.premise, unquoted.conclusion) == (premise, conclusion)
