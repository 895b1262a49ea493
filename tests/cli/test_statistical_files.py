"""From a statistical file to a model, to a synthetic file of the same kind and to a report, by the commands."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import good

import medsynth
from medsynth.io.reader import read
from medsynth.sampling import provenance

pyreadstat = pytest.importorskip("pyreadstat")
ROWS = 400
SCHEMA = """
name: visits
target: sick
columns:
  age: {kind: count, bounds: [18, 90]}
  pain: {kind: ordinal, levels: [0, 1, 2, 3], missing: [%s]}
  dose: {kind: continuous, bounds: [0, 5], decimals: 1, missing: true}
  sex: {kind: categorical, levels: [f, m]}
  seen: {kind: date, bounds: ["2020-01-01", "2020-12-31"]}
  sick: {kind: binary, levels: [0, 1]}
"""
CODES: dict[str, list[Any]] = {"sav": [-9], "dta": [".a"], "xpt": []}
SECRET = "Ward of Dr Secret"


def rows(kind: str) -> pd.DataFrame:
    """Simulated visits as a program would store them: numbers with codes of missing values."""
    draw = np.random.default_rng(5)
    pain: list[Any] = [float(k) for k in draw.integers(0, 4, ROWS)]
    gone: Any = {"sav": -9.0, "dta": "a", "xpt": np.nan}[kind]
    pain = [gone if draw.random() < 0.2 else value for value in pain]
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(draw.integers(0, 366, ROWS), unit="D")
    return pd.DataFrame({
        "age": draw.integers(18, 91, ROWS), "pain": pd.Series(pain, dtype=object if kind == "dta" else float),
        "dose": np.where(draw.random(ROWS) < 0.1, np.nan, np.round(draw.uniform(0, 5, ROWS), 1)),
        "sex": draw.choice(["f", "m"], ROWS), "seen": [day.date() for day in days], "sick": draw.integers(0, 2, ROWS),
    })  # fmt: skip


def saved(folder: Path, kind: str) -> Path:
    """The visits as such a file, with labels that a program may have made from the rows."""
    path, frame = folder / f"visits.{kind}", rows(kind)
    labels = {"pain": {0.0: SECRET, 3.0: "much"}, "sick": {1: SECRET}}
    if kind == "sav":
        pyreadstat.write_sav(frame, path, variable_value_labels=labels, missing_ranges={"pain": [-9.0]}, note=SECRET,
                             file_label=SECRET, column_labels={"age": SECRET})  # fmt: skip
    elif kind == "dta":
        pyreadstat.write_dta(frame, path, variable_value_labels=labels, missing_user_values={"pain": ["a"]},
                             file_label=SECRET, column_labels={"age": SECRET})  # fmt: skip
    else:
        pyreadstat.write_xport(frame, path, file_label=SECRET, column_labels={"age": SECRET})
    return path


@pytest.mark.nightly
@pytest.mark.usefixtures("quick", "few_trees")
@pytest.mark.parametrize("kind", ["sav", "dta", "xpt"])
def test_from_a_statistical_file_to_another(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafted, checked, fitted, sampled, written back, proved and compared: codes, formats and types are the file's."""
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, kind)
    good("schema", "draft", path.name)
    draft = Path("visits.schema.yaml").read_text()
    assert "seen: TODO" in draft and SECRET not in draft
    codes = ", ".join(map(str, CODES[kind])) or '""'
    Path("visits.schema.yaml").write_text(SCHEMA % codes)
    good("schema", "check", path.name)
    shown = good(
        "fit", path.name, "--epsilon", "8", "--rows", ROWS, "--method", "independent", "--holdout", "0.3"
    ).output
    assert "is read as a table of a" in shown and SECRET.encode() not in Path("visits.medsynth").read_bytes()
    good("sample", "-n", ROWS, "-o", f"visits.synthetic.{kind}")
    synthetic = Path(f"visits.synthetic.{kind}")
    assert provenance.drawn_by(medsynth.load("visits.medsynth"), synthetic)
    assert "visits" in good("report", "--synthetic", synthetic, "--model", "visits.medsynth").output
    readers: dict[str, Any] = {"sav": pyreadstat.read_sav, "dta": pyreadstat.read_dta, "xpt": pyreadstat.read_xport}
    facts: dict[str, Any] = {} if kind == "xpt" else {"user_missing": True}
    (_, real), (_, made) = readers[kind](path, **facts), readers[kind](synthetic, **facts)
    assert made.column_names == real.column_names and made.missing_user_values == real.missing_user_values
    assert made.missing_ranges == real.missing_ranges
    assert all((made.readstat_variable_types[n] == "string") == (t == "string") for n, t in
               real.readstat_variable_types.items())  # fmt: skip
    assert set(read(synthetic).cells["pain"]) <= {"0", "1", "2", "3", *map(str, CODES[kind] or [""])}
    assert SECRET.encode() not in synthetic.read_bytes()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["sav", "dta"])
def test_labels_are_in_no_bare_fit(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be made from rows. A fit without a schema measures its levels, as of any other file."""
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, kind)
    good("fit", path.name, "--epsilon", "50", "--anyway", "--method", "independent", "--target", "sick")
    model = medsynth.load("visits.medsynth")
    assert SECRET.encode() not in Path("visits.medsynth").read_bytes()
    assert {"0", "1", "2", "3"} & set(map(str, model.schema.columns["pain"].levels)) and "much" not in str(model.schema)
