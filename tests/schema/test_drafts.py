"""Drafts: what the header and the catalogue decide is the same whatever the cells are."""

import itertools
from pathlib import Path

import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

from medsynth.io.table import Kind
from medsynth.schema import Schema
from medsynth.schema.drafts import draft, draft_tables

KINDS: tuple[Kind, ...] = ("int", "float", "text", "date")
CLINICAL = ("Alter (Jahre)", "Kreatinin (mg/dl)", "crp_mg_l", "RR_sys", "RR_dia", "Größe (cm)", "Gewicht (kg)",
            "BMI (kg/m²)", "Child-Pugh-Klasse")  # fmt: skip
CELLS = {
    "numbers": ["1", "2.5", "30", "400"], "the same, shuffled": ["400", "2.5", "1", "30"], "nothing": [""] * 4,
    "words": ["<0,5", "120/80", "geheim", "k.A."], "dates": ["2020-01-01", "", "2020-01-03", "2020-01-04"],
}  # fmt: skip


def drafted(folder: Path, columns: dict[str, list[str]]) -> str:
    folder.mkdir()
    pd.DataFrame(columns).to_csv(folder / "t.csv", index=False)
    done = CliRunner().invoke(app, ["schema", "draft", str(folder / "t.csv")])
    assert done.exit_code == 0, done.output
    return (folder / "t.schema.yaml").read_text()


def test_the_file_is_the_same_whatever_the_cells_of_clinical_columns_are(tmp_path: Path) -> None:
    texts = {name: drafted(tmp_path / name, dict.fromkeys(CLINICAL, cells)) for name, cells in CELLS.items()}
    assert len(set(texts.values())) == 1
    text = texts["words"]
    schema = Schema.from_yaml(text)
    assert not schema.open and schema.names == CLINICAL and "geheim" not in text
    assert all(f"  {name}: " in text and text.count(", own judgement") > 3 for name in CLINICAL)
    lines = text[text.index("# rules:") :].splitlines()
    rules = Schema.from_yaml(text[: text.index("# Rules that")] + "\n".join(line.lstrip("# ") for line in lines)).rules
    assert rules == ("RR_sys > RR_dia", "`BMI (kg/m²)` = `Gewicht (kg)` / `Größe (cm)` / `Größe (cm)` * 10000")


@pytest.mark.parametrize("name", CLINICAL)
def test_the_kind_of_other_columns_changes_no_line_of_a_clinical_one(name: str) -> None:
    lines = set()
    for kind, other in itertools.product(KINDS, KINDS):
        lines |= {line for line in draft("t", {name: kind, "x": other}).splitlines() if line.startswith(f"  {name}:")}
    assert len(lines) == 1


def test_tables_of_patients_take_ranges_from_the_catalogue_too() -> None:
    text = draft_tables(
        "ward", {"patients": {"pid": "text", "height_cm": "text"}, "visits": {"pid": "text", "HR": "int"}}
    )
    assert (
        "height_cm: {kind: count, bounds: [20, 280], unit: cm" in text and "HR: {kind: count, bounds: [0, 390]" in text
    )


def test_what_the_header_does_not_decide_stays_open() -> None:
    """Without a unit, or with several ways to write levels; a key is never clinical."""
    kinds: dict[str, Kind] = {"Kreatinin": "float", "sex": "text", "pH": "float", "patient_id": "int", "ward": "text"}
    assert {*Schema.from_yaml(draft("t", kinds)).open} == {"Kreatinin", "sex", "pH", "ward"}
