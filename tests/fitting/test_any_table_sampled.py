"""The columns of `test_any_table`, twelve in a table, through fit, sample and report, in each kind of file.

The budget is large, so that noise hides little: what comes back in another form than it was written has changed
without a word.
"""

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import good
from test_any_table import CASES, WORDS, Case, N, plain, table_of, typed

import medsynth
from medsynth.io.table import is_number
from medsynth.schema.columns.column import Column
from medsynth.schema.inference import OTHER

COLUMNS, EPSILON = 12, 60.0
UNTYPED = ("t.csv", "t.csv.gz")  # files without types, for columns whose texts a type would change
FILES = ("t.csv", "t.parquet", "t.xlsx", "frame", "t.csv.gz")
WRITERS: dict[str, Any] = {".xlsx": pd.DataFrame.to_excel, ".csv": pd.DataFrame.to_csv, ".gz": pd.DataFrame.to_csv}
NO_TRAINING_ROWS = {"attacks", "criteria", "importance"}
NO_RECORD = {
    "synthetic",
    "tables",
    "over_time",
    "outcomes",
    "time_to_event",
    "approval",
}  # sections of other kinds of tables
NO_CLAIM = {"claim", "ledger"}  # a model whose noise a test repeats makes none


def groups() -> list[tuple[tuple[str, ...], str]]:
    """Names of columns, and the file that holds them: each column in two kinds of file."""
    found = []
    for files in (FILES, UNTYPED):
        names = [name for name, case in CASES.items() if case.typed == (files is FILES)]
        parts, step = math.ceil(len(names) / COLUMNS), len(files) // 2
        for part in range(parts):  # neighbours of a case are in other tables
            found += [(tuple(names[part::parts]), files[(part + turn * step) % len(files)]) for turn in (0, 1)]
    return found


GROUPS = groups()


def form(text: str) -> str:
    """The form of a cell: digits, small letters and capitals are alike, and numbers differ in their decimals alone."""
    if is_number(text):
        return "power" if "e" in text else f"number with {len(text.partition('.')[2])} decimals"
    return re.sub(r"[^\W\d_a-z]", "A", re.sub(r"[a-z]", "a", re.sub(r"\d", "9", text)))


def as_texts(file: str | io.StringIO) -> pd.DataFrame:
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def value(text: str) -> str:
    return text.lower() if text in ("True", "False") else plain(text)


def fitted(frame: pd.DataFrame, file: str) -> medsynth.Model:
    """The model of a table, next to 2,000 sampled rows."""
    if file == "frame":
        made = medsynth.fit(frame, epsilon=EPSILON, target="label", method="independent", notice=lambda text: None)
        made.save("t.medsynth")
    else:
        if file == "t.parquet":
            frame.to_parquet(file)
        else:
            WRITERS[Path(file).suffix](frame, file, index=False)
        good("fit", file, "--epsilon", EPSILON, "--holdout", "0.3", "--method", "independent", "--target", "label")
    good("sample", "t.medsynth", "-n", N, "--output", "t.synthetic.csv")
    return medsynth.load("t.medsynth")


def check_report(model: medsynth.Model, frame: pd.DataFrame, file: str) -> None:
    """Each section has a record, unless tables of this kind have none."""
    if file == "frame":
        model.report(frame, "t.report.html")
    else:
        good("report")
    json_twin = json.loads(Path("t.report.json").read_text())
    without = NO_RECORD | NO_CLAIM | (NO_TRAINING_ROWS if file == "frame" else set())
    assert {name for name, record in json_twin["sections"].items() if record is None} <= without


def changes(case: Case, real: pd.Series, drawn: pd.Series, column: Column) -> list[str]:
    """What of a column does not come back."""
    if not column.modelled or column.levels == (OTHER,):
        return []
    found, gone = list[str](), {*column.gap_words, *map(plain, column.gap_words)}
    values = drawn[~drawn.isin(gone) & (drawn != OTHER)]  # a notice names the column that has the level "other"
    strange = set(values.map(form)) - set(real.map(form))
    if strange and case.same >= 0.99:  # in other columns, zeros at the end of some numbers are lost
        found.append(f"forms {sorted(strange)[:3]}, not {sorted(set(real.map(form)))[:5]}")
    if column.categorical and (more := set(values) - set(real)):
        found.append(f"levels {sorted(more)[:3]} of nobody")
    if set(values[values.isin(WORDS)]):
        found.append("a word is a value")
    if column.kind in ("count", "continuous"):
        low, high = (float(str(end)) for end in column.bounds)
        numbers = values.astype(float)
        if numbers.min() < low or numbers.max() > min(high, case.most):
            found.append("numbers beyond the bounds")
    for code in map(plain, case.gaps) if set(map(plain, case.gaps)) & set(real) else case.gaps:
        there, back = float((real == code).mean()), float((drawn == code).mean())
        if back == 0 or (there and abs(back - there) > 0.03 + there / 4):
            found.append(f"{code!r}: {back:.3f} of the rows, not {there:.3f}")
    return found


@pytest.mark.nightly
@pytest.mark.usefixtures("quick", "few_trees", "seeded_entropy")
@pytest.mark.parametrize(("names", "file"), GROUPS, ids=[f"table {k}: {file}" for k, (_, file) in enumerate(GROUPS)])
def test_a_table_of_odd_columns_comes_back(
    names: tuple[str, ...], file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = table_of([*names])
    written = frame if file in UNTYPED else typed(frame)
    model = fitted(written, file)
    if GROUPS.index((names, file)) % 2 == 0:  # each column in one of its two files
        check_report(model, written, file)
    drawn = as_texts("t.synthetic.csv")
    assert [*drawn] == [*frame]
    real = frame
    if file not in UNTYPED:  # numbers and booleans of a type are compared as such: 1.0 is 1
        real = as_texts(io.StringIO(typed(frame).to_csv(index=False))).map(value)
        drawn = drawn.map(value)
    found = {
        name: broken
        for k, name in enumerate(names)
        if (broken := changes(CASES[name], real[f"x{k}"], drawn[f"x{k}"], model.schema.columns[f"x{k}"]))
    }
    assert not found
    again = model.sample(50)
    for name, column in model.schema.columns.items():  # dtypes, where no code makes a column of objects
        if column.gap_words in ((), ("",)) and column.kind in ("count", "continuous"):
            assert pd.api.types.is_numeric_dtype(again[name])


def test_the_matrix_is_large() -> None:
    assert sum(len(names) for names, _ in GROUPS) >= 250
