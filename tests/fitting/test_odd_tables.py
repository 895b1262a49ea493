"""Tables whose fit spent its budget and left no model, or one that could not be read: one of each kind."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import good, run

import medsynth

pytestmark = pytest.mark.usefixtures("quick")
ROWS, DRAW = 900, np.random.default_rng(2)
SEX, AGE = DRAW.choice(["f", "m"], ROWS), DRAW.integers(20, 90, ROWS)
PLACE = "zone\u200b"  # a mark without width, as copies from the web have it


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def drawn(frame: pd.DataFrame, *words: object, **form: str) -> pd.DataFrame:
    """Rows that are sampled by the commands after a fit of the frame without a schema."""
    frame.to_csv("t.csv", index=False, **form)  # type: ignore[call-overload]
    good("fit", "t.csv", "--epsilon", 20, *words)
    good("sample", "-n", 50)
    return pd.read_csv("t.synthetic.csv", sep=form.get("sep", ","))


def test_tabs_and_marks_without_width_come_back() -> None:
    """Notes of the ledger name lost columns, keys and classes, whatever marks these have."""
    keys = [f"k{k}" for k in range(ROWS)]
    frame = pd.DataFrame({
        f"{PLACE}_id": keys, f"text{PLACE}": keys[::-1], "age": AGE, "sex": SEX, PLACE: np.where(AGE < 50, PLACE, "b"),
    })  # fmt: skip
    found = drawn(frame, sep="\t")
    assert list(found) == list(frame) and set(found[PLACE]) == {PLACE, "b"}
    notes = medsynth.load("t.medsynth").ledger.notes
    assert any(f"text{ascii(PLACE)[1:-1]}" in note for note in notes)


@pytest.mark.parametrize("more", [{}, {"hospital": "A"}], ids=["two columns", "no number"])
def test_a_column_of_one_value_leaves_no_pair(more: dict[str, str]) -> None:
    """Numbers that start with a zero are levels here, and there is no number to measure."""
    ward = DRAW.choice(["01", "07", "10"], ROWS)
    frame = pd.DataFrame({"ward": ward, "country": "CH", "sex": SEX}).assign(**more)
    found = drawn(frame.astype(object), "--target", "sex")
    assert set(found["country"]) == {"CH"} and found["ward"].nunique() == 3


def test_bars_may_separate_decimal_commas() -> None:
    dose = [f"{x:.1f}".replace(".", ",") for x in DRAW.normal(5, 1, ROWS)]
    found = drawn(pd.DataFrame({"dose": dose, "age": AGE, "sex": SEX}), "--decimal-comma", sep="|")
    assert found["dose"].str.fullmatch(r"\d+,\d").mean() > 0.8


def test_one_column_is_told_what_to_do() -> None:
    pd.DataFrame({"age": AGE, "sex": SEX}).to_csv("t.csv", index=False, sep=" ")
    refused = run("fit", "t.csv", "--epsilon", 3.7)
    assert refused.exit_code == 4 and "commas, semicolons, tabs or bars" in refused.stderr
