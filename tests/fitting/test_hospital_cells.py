"""Columns as hospitals write them, read without a schema: each is right in fit, sample and report, or the fit names it.

The noise is small and its seed is fixed, so that no case fails by chance.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from commands import good
from hospital_cells import CASES, N
from open_tables import queries as bare_queries
from open_tables import raw_vault
from scipy import stats

import medsynth
from medsynth.errors import LOST, TIMES, WARNING
from medsynth.io.table import from_frame, is_number
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.release import Releases
from medsynth.rng import SeededEntropy
from medsynth.schema.codec import csv_cells, encode

COLUMNS, EPSILON = 12, 60.0
LOSSES = {LOST, WARNING, "merged", "hidden", "large", "unread", "far", "codes", "only", "keys", "empty"}
FORMS = {"rewritten", "unsure", TIMES}  # what was found is right, its form may not be
FILES = ("t.csv", "t.parquet", "t.xlsx", "frame")
GROUPS = [[*CASES][k :: -(-len(CASES) // COLUMNS)] for k in range(-(-len(CASES) // COLUMNS))]


def table_of(names: Iterable[str], seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    columns = {f"x{k}": np.asarray(CASES[name](draw), dtype=object) for k, name in enumerate(names)}
    return pd.DataFrame({**columns, "label": draw.choice(["ill", "well"], N)}).astype(object)


def said(messages: Iterable[str], column: str) -> set[str]:
    """The kinds of facts of which one of the messages in full names a column: `learned.yaml` has their words."""
    words = yaml.safe_load((resources.files("medsynth.schema") / "learned.yaml").read_text(encoding="utf-8"))
    start = {kind: re.escape(forms["full"].split("{names}")[0]) for kind, forms in words.items()}
    end = {kind: re.escape(forms["full"].split("{names}")[1][:20]) for kind, forms in words.items()}
    lines = [line.removeprefix("LOST: ") for text in messages for line in text.split("\n  - ")]
    return {
        kind
        for kind in words
        if any(re.match(rf"{start[kind]}.*\b{column}\b.*{end[kind]}", line, re.DOTALL) for line in lines)
    }


@pytest.mark.matrix
@pytest.mark.parametrize("name", CASES)
def test_what_is_learned_of_a_column_is_right_or_said(name: str) -> None:
    """Its cells, coded and decoded again, are those of a perfect generator."""
    frame = table_of([name], 11)
    table = from_frame(frame)
    releases = Releases(make_plan(bare_queries(), epsilon=20.0, delta=1e-5, rows=N).ledger("t"), SeededEntropy(0))
    found = raw_vault(table, N, releases, "label").measure_schema(required=False)
    again = csv_cells(encode(table, found.schema), found.schema)["x0"]
    assert (again == frame["x0"]).mean() > 0.975 or said(found.summary(), "x0") & (LOSSES | FORMS), found.columns["x0"]


def form(cell: str) -> str:
    """The form of a cell: of a number its sign, exponent and decimals, of another text its letters and digits."""
    if is_number(cell):
        power = re.sub(r".*[eE]", "e", cell) if "e" in cell.lower() else ""
        return f"{'+' * (cell[0] == '+')}number with {len(cell.partition('.')[2])} decimals{power}"
    return re.sub(r"[^\W\d_a-z]", "A", re.sub(r"[a-z]", "a", re.sub(r"\d", "9", cell)))


def apart(name: str, real: pd.Series, drawn: pd.Series) -> float:
    """How far numbers, or days and times of day in the format that a case names, are from the real ones: 0 to 1."""
    if real[real != ""].map(is_number).mean() > 0.1:
        pairs = [[pd.to_numeric(cells[cells.map(is_number)]) for cells in (real, drawn)]]
    else:
        found = re.search(r"%\S.*", name)
        form = found[0].replace("%-", "%") if found else "%Y-%m-%d"
        tail = r"(\+01:00|\.000000)$"  # a fit leaves an offset and fractions of a second out, and says that
        form = form.replace(".%f", "").replace("+01:00", "")
        both = [cells.str.replace(tail, "", regex=True) for cells in (real, drawn)]
        moments = [pd.to_datetime(cells, format=form, errors="coerce").dropna() for cells in both]
        days = [one.dt.normalize() for one in moments]
        pairs = [[one.astype("int64") for one in days],
                 [(one - day).astype("int64") for one, day in zip(moments, days, strict=True)]]  # fmt: skip
    return max(stats.ks_2samp(*pair).statistic if min(map(len, pair)) else 1.0 for pair in pairs)


def faults(name: str, real: pd.Series, drawn: pd.Series, kinds: set[str]) -> list[str]:
    """What of a column is wrong without a word."""
    found = list[str]()
    if kinds & LOSSES:
        return found
    strange = drawn[drawn != ""].map(form)
    if not kinds & FORMS and (share := float((~strange.isin(set(real.map(form)))).mean())) > 0.02:
        found.append(f"{share:.2f} of the cells in forms {sorted(set(strange) - set(real.map(form)))[:3]}")
    if abs(float((drawn == "").mean() - (real == "").mean())) > 0.05:
        found.append(f"{(drawn == '').mean():.2f} of the cells are empty, not {(real == '').mean():.2f}")
    if real.nunique() <= 25:
        shares = [cells.value_counts(normalize=True) for cells in (real, drawn)]
        if not kinds & FORMS and float(shares[0].sub(shares[1], fill_value=0.0).abs().sum()) / 2 > 0.12:
            found.append(f"levels {shares[1].head(4).to_dict()}, not {shares[0].head(4).to_dict()}")
        return found
    if (real != "").mean() > 0.2 and apart(name, real, drawn) > 0.15:
        found.append(f"values such as {list(drawn[:4])}, not {list(real[:4])}")
    return found


@pytest.mark.nightly
@pytest.mark.usefixtures("quick", "few_trees", "seeded_entropy")
@pytest.mark.parametrize("names", GROUPS, ids=[f"table {k}" for k in range(len(GROUPS))])
def test_a_table_of_hospital_cells_is_right_or_said(
    names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table is in one kind of file. The report judges it by another table of the same columns."""
    monkeypatch.chdir(tmp_path)
    frame, messages = table_of(names, 11), list[Any]()
    file = FILES[GROUPS.index(names) % len(FILES)]
    if file == "t.csv":
        frame.to_csv(file, index=False)
    elif file == "t.parquet":
        frame.to_parquet(file)
    elif file == "t.xlsx":
        frame.to_excel(file, index=False)
    model = medsynth.fit(
        frame if file == "frame" else file,
        epsilon=EPSILON,
        target="label",
        method="independent",
        notice=messages.append,
    )
    model.save("t.medsynth")
    good("sample", "t.medsynth", "-n", 2000, "--output", "t.synthetic.csv")
    drawn = pd.read_csv("t.synthetic.csv", dtype=str, keep_default_na=False)
    assert [*drawn] == [*frame]
    wrong = {
        name: found
        for k, name in enumerate(names)
        if (found := faults(name, frame[f"x{k}"], drawn[f"x{k}"], said(messages, f"x{k}")))
    }
    assert not wrong
    model.report(table_of(names, 12), "t.report.html")
    assert json.loads(Path("t.report.json").read_text())["sections"]["fidelity"]


def test_the_matrix_is_large() -> None:
    assert len(CASES) >= 200
