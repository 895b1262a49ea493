"""Rules `code determines label` from declaration to sampled rows, and rules that rows break."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import medsynth
from medsynth.errors import SchemaError
from medsynth.federated.study import Study
from medsynth.fitting.schema_check import check_schema
from medsynth.io.table import from_frame
from medsynth.privacy.checkpoint import Checkpoint
from medsynth.privacy.pair_selection import LABEL
from medsynth.sampling.structure import structure_model
from medsynth.schema import Schema
from medsynth.schema.codec import encode
from medsynth.schema.linked import LinkedTables

RULE = "ward determines department"
WARDS = {"1": "surgery", "2": "surgery", "3": "medicine"}
CLOSED: dict[str, Any] = {
    "ward": {"kind": "categorical", "levels": [1, 2, 3, 4]},
    "department": {"kind": "categorical", "levels": ["medicine", "paeds", "surgery"], "missing": True},
    "age": {"kind": "count", "bounds": [0, 99]},
    "y": {"kind": "binary", "levels": ["no", "yes"]},
}
OPEN = CLOSED | {"ward": {"kind": "categorical"}, "department": {"kind": "categorical"}}
SOME = {
    "schema": {"name": "t", "columns": CLOSED, "rules": [RULE]},
    "learned": {"name": "t", "columns": OPEN, "rules": [RULE]},
}


def table(rows: int = 600) -> pd.DataFrame:
    """Wards with their departments. Ward 4 has one row; some rows have another department, or none."""
    rng = np.random.default_rng(0)
    ward = rng.choice([*WARDS], rows)
    found = pd.DataFrame({
        "ward": ward, "department": [WARDS[one] for one in ward], "age": rng.integers(0, 100, rows).astype(str),
        "y": rng.choice(["no", "yes"], rows),
    })  # fmt: skip
    found.loc[0, ["ward", "department"]] = ["4", "paeds"]
    found.loc[1:30, "department"] = "medicine"
    found.loc[31:60, "department"] = ""
    return found


def fitted(frame: pd.DataFrame, schema: Any, **options: Any) -> Any:
    return medsynth.fit(frame, epsilon=20, schema=schema, target="y", method="independent", **options)


@pytest.mark.parametrize(("content", "rest"), [*zip(SOME.values(), ({"other": "other"}, {}), strict=True)], ids=SOME)
def test_labels_follow_from_codes(content: Any, rest: Any, quick: None, seeded_entropy: None, tmp_path: Any) -> None:
    """With declared levels ward 4 is one, but its pair is not kept. A fit does not learn such a level."""
    model = fitted(table(), content)
    assert model.schema.pairs["department"] == WARDS | rest
    drawn = medsynth.sample(model, 2000, seed=0).astype(str)
    pairs = drawn.groupby(["ward", "department"]).size()
    assert {*pairs.index} <= {*WARDS.items(), ("other", "other"), ("nan", "nan")}
    assert (pairs[[*WARDS.items()]] > 500).all()
    assert [event["label"] for event in model.describe()["ledger"]["events"]].count(LABEL) == 1
    model.save(tmp_path / "m.medsynth")
    assert medsynth.load(tmp_path / "m.medsynth").schema == model.schema
    assert LABEL in [*medsynth.plan(table(), epsilon=20, schema=content, target="y").measurements["measurement"]]


def test_a_label_of_a_computed_code_is_checked_in_other_rules(quick: None, seeded_entropy: None) -> None:
    model = fitted(table(), {"name": "t", "columns": CLOSED, "rules": [RULE, "department = surgery implies age > 50"]})
    drawn = medsynth.sample(model, 1000, seed=0)
    surgery = drawn["department"] == "surgery"
    assert surgery.sum() > 100 and (drawn["age"][surgery] > 50).all()


def test_the_sensitivity_is_that_of_all_rows_of_a_patient(quick: None) -> None:
    frame = table().assign(who=np.repeat(np.arange(200), 3).astype(str))
    columns = CLOSED | {"who": {"kind": "identifier"}, "floor": CLOSED["ward"]}
    content = {"name": "t", "columns": columns, "rules": [RULE, "ward determines floor"], "unit": "who", "max_rows": 3}
    model = fitted(frame.assign(floor="1"), content)
    (event,) = (one for one in model.describe()["ledger"]["events"] if one["label"] == LABEL)
    assert event["sensitivity"] == pytest.approx(3 * 2**0.5)


def test_an_undeclared_label_is_refused_before_anything_is_spent(tmp_path: Any) -> None:
    path = tmp_path / "t.csv"
    table().replace({"department": {"paeds": "rehab"}}).to_csv(path, index=False)
    with pytest.raises(SchemaError, match="'department', row 1: not a declared level"):
        medsynth.fit(path, epsilon=20, schema=SOME["schema"], target="y", method="independent", budget_table=path)
    assert [one.name for one in tmp_path.iterdir()] == ["t.csv"]


class Killed(BaseException):
    """Stands for the end of the process."""


def test_a_killed_fit_asks_for_pairs_once(
    quick: None, seeded_entropy: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    whole = fitted(table(), SOME["learned"], seed=0)
    store, stored = Checkpoint.store, list[str]()

    def storing(self: Any, label: str, arrays: Any, names: Any) -> None:
        store(self, label, arrays, names)
        stored.append(label)
        if label == LABEL:
            raise Killed

    monkeypatch.setattr(Checkpoint, "store", storing)
    options: dict[str, Any] = {"checkpoint": tmp_path / "c", "seed": 0}
    with pytest.raises(Killed):
        fitted(table(), SOME["learned"], **options)
    model = fitted(table(), SOME["learned"], resume=True, **options)
    assert stored.count(LABEL) == 1 and model.schema.pairs == whole.schema.pairs


def test_a_check_counts_rows_with_another_label(tmp_path: Any) -> None:
    frame = table()
    frame.to_csv(tmp_path / "t.csv", index=False)
    broken = int(((frame["department"] != frame["ward"].map(WARDS)) & (frame["department"] != "")).sum()) - 1
    declared = {"department": {"1": "surgery", "2": "surgery", "3": "medicine", "4": "paeds"}}
    for content in (*SOME.values(), SOME["schema"] | {"pairs": declared}):
        schema = Schema.from_dict(content | {"target": "y"})
        (tmp_path / "t.schema.yaml").write_text(schema.to_yaml())
        remarks = check_schema(tmp_path / "t.csv", None).remarks
        assert f"rule {RULE!r}: {broken} rows break it; sampled rows never do" in remarks


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a number": ({"rules": ["ward determines age"]}, "two columns with levels"),
    "itself": ({"rules": ["ward determines ward"]}, "two columns with levels"),
    "the target": ({"rules": ["ward determines y"]}, "must not define the target"),
    "a chain": ({"rules": [RULE, "department determines sex"]}, "not follow from another"),
    "twice": ({"rules": [RULE, "sex determines department"]}, "define a column twice"),
    "an open kind": ({"columns": CLOSED | {"ward": {}}}, "two columns with levels"),
    "pairs without a rule": ({"rules": [], "pairs": {"department": {1: "surgery"}}}, "no rule determines"),
    "pairs without a code": ({"pairs": {"department": {1: "surgery"}}}, "each declared level"),
    "an unknown label": ({"pairs": {"department": dict.fromkeys([1, 2, 3, 4], "x")}}, "each declared level"),
    "too many": (
        {"columns": CLOSED | {name: {"kind": "categorical", "levels": [*range(5000)], "missing": True}
                              for name in ("ward", "department")}},
        "at most",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG)
def test_what_no_fit_could_learn_is_refused_before_it(changes: dict[str, Any], message: str) -> None:
    columns = CLOSED | {"sex": {"kind": "binary", "levels": ["F", "M"], "missing": True}}
    content = {"name": "t", "target": "y", "columns": columns, "rules": [RULE], **changes}
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict(content)


def test_pairs_that_only_a_fit_can_learn_are_refused_elsewhere() -> None:
    content = SOME["schema"] | {"target": "y"}
    with pytest.raises(SchemaError, match="declare `pairs`"):
        structure_model(Schema.from_dict(content))
    with pytest.raises(ValidationError, match="sites cannot learn the pairs"):
        Study.model_validate({"name": "s", "schema": content, "epsilon": 1, "rows": 100, "sites": ["a", "b"]})
    linked = {"key": {"kind": "identifier"}, **CLOSED}
    with pytest.raises(SchemaError, match="a fit of one table"):
        LinkedTables.from_dict({"name": "l", "key": "key", "tables": {
            "t": {"columns": linked, "rules": [RULE]}, "v": {"columns": {"key": linked["key"], "x": CLOSED["age"]}},
        }})  # fmt: skip
    pairs = {"department": {"1": "surgery", "2": "surgery", "3": "medicine", "4": "paeds"}}
    drawn = medsynth.sample(structure_model(Schema.from_dict(content | {"pairs": pairs})), 100, seed=0).astype(str)
    assert {*zip(drawn["ward"], drawn["department"], strict=True)} == {*pairs["department"].items()}


# Rows that break rules.

DATES: dict[str, Any] = {"kind": "date", "bounds": ["2000-01-01", "2020-12-31"]}
COLUMNS: dict[str, Any] = {
    "ward": {"kind": "categorical", "levels": [1, 2]},
    "department": {"kind": "categorical", "levels": ["medicine", "surgery"], "missing": True},
    "weeks": {"kind": "count", "bounds": [0, 42], "missing": True},
    "pregnant": {"kind": "binary", "levels": [0, 1]},
    "o0": {"kind": "binary", "levels": [0, 1]},
    "o1": {"kind": "binary", "levels": [0, 1]},
    "low": {"kind": "continuous", "bounds": [0, 9], "decimals": 1},
    "high": {"kind": "continuous", "bounds": [0, 9], "decimals": 1},
    "double": {"kind": "continuous", "bounds": [0, 20], "decimals": 1},
    "born": DATES,
    "seen": DATES,
    "age": {"kind": "count", "bounds": [0, 30]},
}
RULES = (
    RULE, "weeks is present if and only if pregnant = 1", "o0 + o1 = 1", "low < high", "double = low + low",
    "age = years(born, seen)", "born <= seen", "ward = 1 implies low > 3 and pregnant = 0",
)  # fmt: skip
DECLARED = {"name": "t", "target": "pregnant", "columns": COLUMNS}
CELLS = {
    "ward": ["1", "2"], "department": ["medicine", "surgery", ""], "weeks": ["", "3", "42"], "pregnant": ["0", "1"],
    "o0": ["0", "1"], "o1": ["0", "1"], "low": ["0", "8.9"], "high": ["0.1", "9"], "double": ["0", "20"],
    "born": ["2000-01-01", "2020-12-31"], "seen": ["2000-01-01", "2020-12-31"], "age": ["0", "30"],
}  # fmt: skip
ROWS = st.lists(st.tuples(*map(st.sampled_from, CELLS.values())), min_size=2, max_size=8)


@given(rows=ROWS)
def test_rules_change_no_code_of_a_row(rows: Any) -> None:
    data = from_frame(pd.DataFrame(rows, columns=[*CELLS], dtype=str))
    plain, ruled = Schema.from_dict(DECLARED), Schema.from_dict(DECLARED | {"rules": RULES})
    assert (encode(data, plain) == encode(data, ruled)).all()
    core = ruled.core
    assert {*plain.names} - {*core.names} == {"department", "double", "age"}
    assert (encode(data, plain)[:, [plain.names.index(name) for name in core.names]] == encode(data, core)).all()


@pytest.mark.nightly
def test_rows_that_break_every_rule_refuse_no_fit(quick: None) -> None:
    rows = [*itertools.islice(itertools.cycle(itertools.product(*CELLS.values())), 5, 60_000, 97)]
    frame = pd.DataFrame(rows, columns=[*CELLS], dtype=str)
    schema = Schema.from_dict(DECLARED | {"rules": RULES})
    model = medsynth.fit(frame, epsilon=3.7, schema=schema, method="independent", seed=0)
    drawn = from_frame(medsynth.sample(model, 200, seed=0).astype(str).replace("nan", ""))
    codes = encode(drawn, model.schema)
    assert len(codes) == 200
