"""Open columns: their syntax, what is asked of them, and how declarations and measurements are joined."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from medsynth.errors import SchemaError
from medsynth.privacy import partition_selection as selection
from medsynth.schema import Binary, Categorical, Column, Continuous, Count, Date, Identifier, Schema, bundled
from medsynth.schema.columns.open import Open, OpenDates, OpenLevels, OpenNumbers
from medsynth.schema.learned import ColumnKind, LearnedColumn
from medsynth.schema.settling import settled_column

OPEN = """
name: ward
target: died
columns:
  id: {kind: identifier}
  crp: {kind: continuous, bounds: [0, TODO], decimals: TODO, unit: mg/l}
  age: {kind: count}
  ward: {kind: categorical, levels: [a, TODO], missing: true}
  unit: {kind: ordinal, levels: [low], others: learn}
  sex: {kind: binary, levels: [TODO]}
  any:
  seen: {kind: date, bounds: [TODO, TODO], format: TODO}
  born: {kind: date, bounds: [1900-01-01, TODO], format: "%d.%m.%Y"}
  left: {kind: date, bounds: [2020-01-01, 2021-01-01], format: TODO}
  died: {kind: binary, levels: [no, yes]}
rules: [TODO]
"""
FORMS = {"crp": OpenNumbers, "age": OpenNumbers, "ward": OpenLevels, "unit": OpenLevels, "sex": OpenLevels, "any": Open,
         "seen": OpenDates, "born": OpenDates, "left": OpenDates}  # fmt: skip


def test_what_is_left_out_or_todo_or_null_is_open() -> None:
    schema = Schema.from_yaml(OPEN)
    assert {name: type(column) for name, column in schema.open.items()} == FORMS
    assert Schema.from_yaml(OPEN.replace("TODO", "null")) == schema
    assert Schema.from_yaml(schema.to_yaml()) == schema and Schema.from_dict(schema.to_dict()) == schema
    words = {name: column.in_words for name, column in schema.open.items()}
    assert words["ward"] == "other levels" and words["sex"] == "levels" and words["any"] == "kind"
    assert (words["seen"], words["born"], words["left"]) == ("bounds and format", "bounds", "format")


def test_a_quoted_todo_is_a_level() -> None:
    column = Schema.from_yaml('{name: t, columns: {a: {kind: categorical, levels: ["TODO", b]}}}').columns["a"]
    assert isinstance(column, Categorical) and column.levels == ("TODO", "b")


@pytest.mark.parametrize("name", [*bundled()])
def test_a_finished_schema_is_what_it_was(name: str) -> None:
    schema = bundled()[name]
    assert not schema.open and schema.closed() is schema and selection.queries(schema) == []


def test_a_question_is_asked_of_what_is_open_alone() -> None:
    schema = Schema.from_yaml(OPEN)
    assert selection.asked(schema) == {
        selection.KINDS: ["any", "seen", "left"],
        selection.LEVELS: ["ward", "unit", "sex", "any"],
        selection.FORMATS: ["crp", "age", "any", "seen", "born"],
    }
    assert selection.TARGET not in selection.asked(schema)  # its levels are declared


@given(st.lists(st.sampled_from(["levels", "bounds", "kind", "closed"]), min_size=2, max_size=12), st.booleans())
def test_a_column_has_the_same_noise_however_many_are_open(parts: list[str], target: bool) -> None:
    """The noise of a count is its multiplier times the root of the number of columns, up to the plan's scale.

    Questions about levels have their whole share of the privacy loss, so counts of fewer columns have less noise.
    """
    forms: dict[str, Any] = {"levels": {"kind": "categorical"}, "bounds": {"kind": "count"}, "kind": {},
                             "closed": {"kind": "binary", "levels": [0, 1]}}  # fmt: skip
    columns = {f"c{k}": forms[part] for k, part in enumerate(parts)}
    named = "c0" if target else None
    schema = Schema.from_dict({"name": "t", "target": named, "columns": columns})
    bare = Schema.from_dict({"name": "t", "target": named, "columns": dict.fromkeys(columns, {})})
    noise = {
        query.label: query.weight * len(selection.asked(bare)[query.label]) ** 0.5 for query in selection.queries(bare)
    }
    for query in selection.queries(schema):
        own = query.weight * len(selection.asked(schema)[query.label]) ** 0.5
        if query.label in (selection.TARGET, selection.LEVELS):
            assert query.weight**-2 == pytest.approx(selection.LOSS_SHARE)
        else:
            assert own == pytest.approx(noise[query.label])


WRONG = {
    "a key of no kind": ("any: {colour: red}", "'colour'"),
    "a key of another kind": ("any: {kind: count, levels: [1]}", "'levels'"),
    "a text as decimals": ("any: {kind: continuous, decimals: two}", "`decimals`"),
    "one bound": ("any: {kind: count, bounds: [TODO]}", "`bounds`"),
    "an impossible format": ('any: {kind: date, format: "%d"}', "format must have"),
    "other levels refused": ("any: {kind: categorical, levels: [a], others: refuse}", "`others`"),
    "one bound of days after": ("any: {kind: date, after: left, bounds: [0, TODO]}", "two `bounds`, or none"),
    "minutes after": ("any: {kind: date, after: left, resolution: minute}", "two `bounds`, or none"),
    "an unknown kind": ("any: {kind: colour}", "kind 'colour'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_entry_of_an_open_column_is_refused(case: str) -> None:
    line, words = WRONG[case]
    with pytest.raises(SchemaError, match="columns.any") as error:
        Schema.from_yaml(OPEN.replace("any:\n", f"{line}\n"))
    assert words in str(error.value)


@pytest.mark.parametrize("start", ["age", "nowhere", "next"])
def test_a_date_follows_a_date_that_follows_none(start: str) -> None:
    lines = "any: {{kind: date, after: {}}}\n  next: {{kind: date, after: seen, bounds: [0, 9], missing: true}}\n"
    with pytest.raises(SchemaError, match="column 'any': `after` must name a column of kind date"):
        Schema.from_yaml(OPEN.replace("any:\n", lines.format(start)))
    named = Schema.from_yaml(OPEN.replace("any:\n", lines.format("seen")))
    assert named.columns["any"].depends_on == named.columns["next"].depends_on == ("seen",)


NEEDED = {
    "a rule about a kind": ("rules: ['any > 3']", "rule 'any > 3': 'any' is open"),
    "a defined column": ("rules: ['age = crp / 2']", "'age' is open"),
    "the time under observation": ("survival: {time: any, event: died}", "`time` must name a number"),
    "levels of the event": ("survival: {time: age, event: sex}", "Set `level`"),
}


@pytest.mark.parametrize("case", NEEDED)
def test_what_a_schema_needs_is_not_open(case: str) -> None:
    line, words = NEEDED[case]
    with pytest.raises(SchemaError) as error:
        Schema.from_yaml(OPEN.replace("rules: [TODO]", line))
    assert words in str(error.value)


def test_rules_may_read_open_levels_and_bounds() -> None:
    schema = Schema.from_yaml(OPEN.replace("[TODO]\n", "['sex = F implies crp > 2', 'born < seen']\n"))
    assert len(schema.parsed_rules) == 2 and schema.core.constraints == ()


def test_an_order_is_not_open() -> None:
    text = OPEN.replace("target: died", "unit: id\nmax_rows: 2\norder: age")
    with pytest.raises(SchemaError, match="`order`: 'age' is open"):
        Schema.from_yaml(text)


def test_only_a_fit_takes_an_open_schema() -> None:
    with pytest.raises(SchemaError, match="column 'crp' is open"):
        Schema.from_yaml(OPEN).closed()
    with pytest.raises(SchemaError, match="other_columns"):
        Schema.from_yaml("{name: t, other_columns: learn}").closed()


LEARNED = st.sampled_from([
    Count(bounds=(3, 9), missing=True, unknown="missing"), Count(bounds=(-4, 900), missing=(-9, ""), unknown="missing"),
    Continuous(bounds=(0.5, 20), decimals=2, missing=True, unknown="missing", cut_points=(1.0, 2.0)),
    Continuous(bounds=(0, 2), scale="log", decimals=9, missing=("NA",), unknown="missing"),
    Date(bounds=("2001-01-01", "2003-12-31"), missing=True, unknown="missing"),
    Date(bounds=("1900-01-01", "1900-01-01"), format="%H:%M", resolution="minute", missing=True, unknown="missing"),
    Date(bounds=(0, 30), after="other", missing=True, unknown="missing"),
    Categorical(levels=("1", "2", "other"), unknown="other"), Categorical(levels=("other",), unknown="other"),
    Categorical(levels=("",), unknown=""), Binary(levels=(False, True), unknown=False),
    Categorical(kind="ordinal", levels=(1, 2, 3), missing=(9,), unknown="missing"), Identifier(),
])  # fmt: skip
ENDS = st.sampled_from([None, 0, 5, 10**6, -3])
DAYS = st.sampled_from([None, "1950-01-01", "2002-05-05", "2050-01-01"])
WORDS = st.lists(st.sampled_from(["1", "other", "a", "NA"]), max_size=3, unique=True)
EXTRA = st.fixed_dictionaries({}, optional={
    "missing": st.sampled_from([True, False, [-9], ["", 7], ["NA", 12]]), "label": st.just("of a column"),
    "dtype": st.sampled_from(["float64", "category"]),
})  # fmt: skip


@st.composite
def open_columns(draw: st.DrawFn) -> Open:
    content: dict[str, Any] = draw(EXTRA)
    kind = draw(st.sampled_from(["count", "continuous", "date", "binary", "categorical", "ordinal", None]))
    if kind in ("count", "continuous"):
        content |= {"kind": kind, "bounds": draw(st.tuples(ENDS, st.none()) | st.tuples(st.none(), ENDS))}
        content |= draw(st.sampled_from([{}, {"scale": "log"}, {"cut_points": [4, 6]}, {"out_of_range": "missing"}]))
        content |= {"decimals": draw(st.integers(0, 12))} if kind == "continuous" and draw(st.booleans()) else {}
    elif kind == "date":
        content |= {
            "kind": kind,
            "bounds": draw(st.tuples(DAYS, st.none())),
            "format": draw(st.sampled_from([None, "%d.%m.%Y"])),
        }
    elif kind is not None:
        content |= {"kind": kind, "levels": draw(WORDS), "others": "learn"}
        content |= draw(st.sampled_from([{}, {"unknown": "other"}, {"value_labels": {"a": "first"}}]))
    column = Schema.from_dict({"name": "t", "columns": {"x": content, "other": {}}}).columns["x"]
    assert isinstance(column, Open)
    return column


@given(open_columns(), LEARNED)
def test_nothing_that_was_learned_ends_a_fit(column: Open, found: Column) -> None:
    """Whatever was declared and whatever was learned: a column, of the declared form, with the declared levels."""
    own = column.given.get("kind")
    assume(type(column) is Open or found.categorical or found.kind == own)  # as the questions about each are asked
    kind = ColumnKind(cells="word")
    settled = settled_column(column, LearnedColumn(kind=kind, column=found)).column
    assert settled is not None and not isinstance(settled, Open)
    if isinstance(column, OpenLevels):
        assert settled.categorical and set(column.declared_levels) <= {*map(str, settled.levels)}
    if isinstance(column, OpenNumbers | OpenDates):
        assert settled.kind == own
    Schema.from_dict(
        {
            "name": "t",
            "columns": {
                "x": settled.to_dict(),
                "other": {"kind": "date", "bounds": ["2000-01-01", "2001-01-01"], "missing": True},
            },
        }
    )
