"""`schema check` of several tables: by their folder or file, each problem in words, and rules over two tables."""

from pathlib import Path

import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

from medsynth.errors import UsageError
from medsynth.fitting.schema_check import SchemaCheck, check_schema

from .conftest import TABLES, write


def spoiled(ward: Path, table: str, change: str) -> None:
    """Write a table again with a mistake in its row 4."""
    frame = pd.read_csv(path := ward / f"{table}.csv", dtype=str, keep_default_na=False)
    if change == "no file":
        return path.unlink()
    if change == "no column":
        frame = frame.iloc[:, :-1]
    else:
        column, value = change.split("=")
        frame.loc[3, column] = frame.loc[0, column] if value == "that of row 1" else value
    frame.to_csv(path, index=False)


def test_a_folder_and_its_file_are_checked_alike(ward: Path) -> None:
    by_folder, by_file = check_schema(ward, None), check_schema(ward / "ward.tables.yaml", None)
    assert isinstance(by_folder, SchemaCheck) and by_folder == by_file
    assert by_folder.name == "ward" and not by_folder.problems
    done = CliRunner().invoke(app, ["schema", "check", str(ward)])
    assert done.exit_code == 0 and f"{ward} meets the schema 'ward'" in done.stdout


def test_tables_may_lack_dropped_columns_but_no_key(frames: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    text = TABLES.replace("      born:", "      note: {kind: identifier, drop: true}\n      born:")
    text = text.replace("      ward:", "      remark: {kind: identifier, drop: true}\n      ward:")
    assert not check_schema(write(frames, tmp_path / "ward", text), None).problems
    # No fit reads the key of a table to which `latest` leads, but the patient's.
    text = TABLES.replace("stay: {kind: identifier, shape", "stay: {kind: identifier, drop: true, shape")
    keyless = frames | {"stays": frames["stays"].drop(columns="stay")}
    assert not check_schema(write(keyless, tmp_path / "ward", text), None).problems
    keyless["stays"] = keyless["stays"].drop(columns="patient")
    for dropped in (text, text.replace("patient: {kind: identifier}", "patient: {kind: identifier, drop: true}", 1)):
        problems = check_schema(write(keyless, tmp_path / "ward", dropped), None).problems
        assert len(problems) == 1 and "stays.csv: no column 'patient'" in problems[0]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("stays", "ward=hart", "stays.csv, column 'ward', row 4"),
        ("patients", "sex=?", "patients.csv, column 'sex', row 4"),
        ("tests", "taken=1.2.2000", "tests.csv, column 'taken', row 4"),
        ("tests", "no column", "tests.csv: no column 'done'"),
        ("consent", "patient=P-9999", "consent.csv, column 'patient', row 4: no row of 'patients' has this key"),
        ("patients", "patient=that of row 1", "row 4: an earlier row has the same key"),
        ("patients", "patient=", "row 4: no key"),
    ],
)
def test_each_problem_is_listed_with_its_table_and_row(table: str, change: str, words: str, ward: Path) -> None:
    spoiled(ward, table, change)
    found = check_schema(ward, None)
    assert any(words in text for text in found.problems), found.problems
    assert change != "no column" or "add an empty one" in found.problems[0]  # cells of this column may be missing
    done = CliRunner().invoke(app, ["schema", "check", str(ward)])
    assert done.exit_code == 4 and words in done.stderr and "hart" not in done.stderr


def test_problems_of_all_tables_are_listed_at_once(ward: Path) -> None:
    for table, change in (("stays", "ward=hart"), ("patients", "sex=?"), ("tests", "no column")):
        spoiled(ward, table, change)
    assert len(check_schema(ward, None).problems) == 3


def test_rows_that_break_a_rule_over_two_tables_are_counted(ward: Path) -> None:
    born, stays = (pd.read_csv(ward / f"{name}.csv", dtype=str) for name in ("patients", "stays"))
    assert not any("admitted > born" in text for text in check_schema(ward, None).remarks)
    later = (ward / "ward.tables.yaml").read_text().replace("2000-12-31", "2020-12-31")
    (ward / "ward.tables.yaml").write_text(later)
    born.assign(born="2010-01-01").to_csv(ward / "patients.csv", index=False)
    broken = stays[stays["admitted"] <= "2010-01-01"]
    found = [text for text in check_schema(ward, None).remarks if "rule 'admitted > born'" in text]
    assert found == [f"table 'stays': rule 'admitted > born': {len(broken)} rows break it; sampled rows never do"]


def test_a_schema_next_to_several_tables_and_a_missing_file_are_refused(ward: Path) -> None:
    with pytest.raises(UsageError, match="Leave `schema` out"):
        check_schema(ward, ward / "ward.tables.yaml")
    spoiled(ward, "tests", "no file")
    done = CliRunner().invoke(app, ["schema", "check", str(ward)])
    assert done.exit_code and "no table 'tests'" in done.stderr


def test_a_vocabulary_that_is_not_listed_is_a_problem_before_a_fit(
    frames: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    """A few codes that are unknown are a remark; a vocabulary of which nearly all are stops the check, not the fit."""
    text = TABLES.replace("levels: [heart, kidney, lung]}", "levels: [liver, other], unknown: other}")
    other = write(frames, tmp_path / "ward", text)
    problems = check_schema(other, None).problems
    assert len(problems) == 1
    problem = problems[0]
    assert "stays.csv" in problem and "'ward'" in problem and "`levels`" in problem and "`hierarchy`" in problem
    assert not any(ward in problem for ward in ("heart", "kidney", "lung"))
    done = CliRunner().invoke(app, ["schema", "check", str(other)])
    assert done.exit_code == 4 and "vocabulary" in done.output + done.stderr
    text = TABLES.replace("levels: [heart, kidney, lung]}", "levels: [heart, other], unknown: other}")
    found = check_schema(write(frames, tmp_path / "ward", text), None)
    assert not found.problems and any("are read as `unknown`" in remark for remark in found.remarks)
