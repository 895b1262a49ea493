"""Drafts: what the header and the catalogue decide is the same whatever the cells are."""

from pathlib import Path

import pandas as pd
from medsynth_cli.main import app
from typer.testing import CliRunner

from medsynth.schema import Schema
from medsynth.schema.drafts import draft, draft_tables

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
    again = CliRunner().invoke(app, ["schema", "draft", str(folder / "t.csv"), "--yes", "--force"])
    assert again.exit_code == 0, again.output
    return (folder / "t.schema.yaml").read_text()


def test_the_file_is_the_same_whatever_the_cells_of_clinical_columns_are(tmp_path: Path) -> None:
    texts = {name: drafted(tmp_path / name, dict.fromkeys(CLINICAL, cells)) for name, cells in CELLS.items()}
    assert len(set(texts.values())) == 1
    others = {name: drafted(tmp_path / f"{name} 2", {"x": cells, "y": cells}) for name, cells in CELLS.items()}
    assert len(set(others.values())) == 1 and "x: TODO" in others["words"]
    text = texts["words"]
    schema = Schema.from_yaml(text)
    assert not schema.open and schema.names == CLINICAL and "geheim" not in text
    assert all(f"  {name}: " in text and text.count(", own judgement") > 3 for name in CLINICAL)
    lines = text[text.index("# rules:") :].splitlines()
    rules = Schema.from_yaml(text[: text.index("# Rules that")] + "\n".join(line.lstrip("# ") for line in lines)).rules
    assert rules == ("RR_sys > RR_dia", "`BMI (kg/m²)` = `Gewicht (kg)` / `Größe (cm)` / `Größe (cm)` * 10000")


def test_tables_of_patients_take_ranges_from_the_catalogue_too() -> None:
    text = draft_tables("ward", {"patients": ["pid", "height_cm"], "visits": ["pid", "HR"]})
    assert (
        "height_cm: {kind: count, bounds: [20, 280], unit: cm" in text and "HR: {kind: count, bounds: [0, 390]" in text
    )


def test_what_the_header_does_not_decide_stays_open() -> None:
    """Without a unit, or with several ways to write levels; a key is never clinical."""
    header = ["Kreatinin", "sex", "pH", "patient_id", "ward"]
    assert {*Schema.from_yaml(draft("t", header)).open} == {"Kreatinin", "sex", "pH", "ward"}
