"""What page one says is lost, and every figure of page one, recomputed from the tables by a loop."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.report.build import build
from medsynth.report.data.context import Context
from medsynth.report.data.tables import Tables
from medsynth.report.page.render import page
from medsynth.report.sections.losses import ClassShare, losses, lost


def context(synthetic: pd.DataFrame, real: pd.DataFrame | None, train: pd.DataFrame | None = None) -> Context:
    """Tables without a schema, compared as they are; `n` is a number."""
    tables = None
    if real is not None:
        values = [t.assign(n=pd.to_numeric(t["n"])) for t in (real, synthetic, train) if t is not None]
        tables = Tables(values[0], values[1], values[2] if train is not None else None, "died", frozenset({"n"}))
    return Context(title="t", target="died", synthetic=synthetic, real=real, train=train, tables=tables)


def frame(died: str, ward: str, gone: str = "ab") -> pd.DataFrame:
    rows = len(died)
    return pd.DataFrame({"n": [str(k) for k in range(rows)], "ward": [*ward], "gone": [*(gone * rows)[:rows]],
                         "died": [*died]})  # fmt: skip


def test_losses_are_counted_in_all_rows_that_were_given() -> None:
    """Held-out and fitted rows, 10 of 20 with a death and 2 without a value; a level in 3 of 20 rows."""
    real, train = frame("yyyynnnnnn", "abcabababa"), frame("yyyyyyn--n".replace("-", " "), "aababababc")
    train = train.replace({" ": ""})
    found = losses(context(frame("ynnn", "abab", "a"), real, train))
    assert (found.rows_real, found.rows_synthetic) == (20, 4) and found.columns == ["gone"]
    assert [(one.column, one.levels, one.share) for one in found.levels] == [("ward", ["c"], 2 / 20)]
    assert found.shares == [ClassShare(level="n", real=8 / 18, synthetic=3 / 4)]  # the rarer class of real rows


def test_a_column_that_is_not_there_is_lost() -> None:
    real, made = frame("ynyn", "abab"), frame("ynyn", "abab").drop(columns="gone")
    assert losses(context(made, real)).columns == ["gone"]


def test_of_many_classes_those_that_change_most_are_shown() -> None:
    real, made = frame("aaaabbbbccccddde", "a" * 16), frame("aaaabbbbccccdeee", "a" * 16)
    assert [one.level for one in losses(context(made, real)).shares][:2] == ["d", "e"]


def test_page_one_has_one_line_on_what_is_lost() -> None:
    """A column, a level with its share of the real rows, and most of the target's rarer class."""
    real, made = frame("y" * 4 + "n" * 16, "abc" * 6 + "aa"), frame("y" + "n" * 19, "ab" * 10, "a")
    given = context(made, real)
    given.records["losses"] = losses(given)
    found = lost(given)
    assert found.anything and [one.replace("\N{NO-BREAK SPACE}", " ") for one in found.sentences] == [
        "Lost: the column gone; ward = c (30.0 % of the real rows); most of the target died = y: 20.0 % of the real "
        "rows, 5.0 % of the synthetic rows."
    ]
    given = context(real, real)
    given.records["losses"] = losses(given)
    nothing, target = lost(given).sentences
    assert nothing == "Lost: nothing that was checked." and target.startswith("Target: died = y, ")
    assert not lost(given).anything


@pytest.mark.nightly
def test_a_shareable_page_names_declared_levels_and_no_real_share(model: Any, synthetic: pd.DataFrame) -> None:
    few = synthetic.head(200).reset_index(drop=True)
    made = build(synthetic=few, real=None, model=model, drawn_by_model=True)
    found: Any = made.sections["losses"]
    assert found.rows_real is None and all(one.share is None for one in found.levels)
    assert all(one.real is None for one in found.shares) and found.columns == []
    for name, column in model.schema.columns.items():
        lost = {one.column: one.levels for one in found.levels}.get(name, [])
        assert not set(lost) & set(few[name].astype(str)) and set(lost) <= set(map(str, column.levels))
    assert "real rows" not in page(made).split('id="losses"')[1].split("</section>")[0]


@pytest.mark.nightly
def test_every_figure_of_page_one_is_that_of_the_files(
    report: Any, model: Any, halves: Any, synthetic: pd.DataFrame, tmp_path: Path
) -> None:
    """The three tables are written to files, and read as a person would read them."""
    files = {"train": halves[0], "heldout": halves[1], "synthetic": synthetic}
    for name, table in files.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    read = {name: pd.read_csv(tmp_path / f"{name}.csv", dtype=str, keep_default_na=False) for name in files}
    real, made = pd.concat([read["train"], read["heldout"]]), read["synthetic"]
    known = {model.ledger.epsilon(), model.ledger.delta, float(len(real)), float(len(made)), float(len(halves[1]))}
    for column in made:
        for level in set(real[column]) | set(made[column]):
            known |= {float((table[column] == level).mean()) for table in (real, made)}
            known |= {float((table[column] == level).sum()) for table in (real, made, read["heldout"])}
        gone = ~real[column].isin(made[column]) & (real[column] != "")
        known |= {float(gone.mean())}
    impossible: Any = report.sections["plausibility"]
    broken = np.zeros(len(made), bool)
    for check in impossible.relations:
        broken |= by_hand(check.rule, made)
    known |= {float(broken.mean()), float(len(impossible.relations))}
    first = page(report)
    first = first[first.index("<h1>") : first.index('id="questions"')]
    shown = [float(value) for value in re.findall(r'<data value="([^"]+)"', first)]
    assert len(shown) >= 7
    assert not [value for value in shown if not any(value == pytest.approx(one, rel=1e-9) for one in known)]


def by_hand(rule: str, rows: pd.DataFrame) -> Any:
    """Which rows break a rule of the form `a = x [or ...] implies b ...`, `a is missing implies ...`, or `a <= b`."""
    return np.asarray(~rows.apply(lambda row: holds(rule, row), axis=1), bool)


def holds(rule: str, row: pd.Series) -> bool:
    if " implies " in rule:
        premise, result = rule.split(" implies ")
        return not all(holds(part, row) for part in premise.split(" and ")) or holds(result, row)
    words = re.fullmatch(r"`?(\w+)`? (is missing|is present|<=|>=|<|>|!=|=) ?(.*)", rule)
    assert words, rule
    cell, sign, other = row[words[1]], words[2], words[3].strip("\"'`")
    if sign.startswith("is "):
        return bool((cell == "") is (sign == "is missing"))
    other = row.get(other, other)
    if cell == "" or other == "":
        return True
    if sign in ("=", "!="):
        return bool((cell == other) is (sign == "="))
    one, two = float(cell), float(other)
    return {"<=": one <= two, ">=": one >= two, "<": one < two, ">": one > two}[sign]
