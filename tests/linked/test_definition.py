"""The file that names several tables: what it declares, and what is wrong with it in words."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsynth_sample_data import omop

from medsynth.errors import SchemaError, TableError, UsageError
from medsynth.fitting.source import bundled, find, is_linked
from medsynth.schema import Schema, schema
from medsynth.schema.linked import LinkedTables, chain_view, joint, placed_by

from .conftest import TABLES


def test_it_comes_back_from_plain_data(tables: LinkedTables) -> None:
    again = LinkedTables.from_dict(tables.to_dict())
    assert again.to_dict() == tables.to_dict() and again == tables
    assert Schema.from_dict(joint(tables).to_dict()).to_dict() == joint(tables).to_dict()


def test_the_schemas_that_follow(tables: LinkedTables) -> None:
    assert tables.first == "patients" and tables.others == ("stays", "tests", "consent") and tables.max_rows == 9
    stays = tables.view("stays")
    assert stays.constant == ("born", "sex", "height") and stays.order == "admitted" and stays.max_rows == 3
    assert placed_by(tables, "stays") is None and placed_by(tables, "tests") == "stays"
    assert chain_view(tables, "stays") is stays
    tests = chain_view(tables, "tests")
    assert tests.order == "stays so far" and tests.columns["stays so far"].units == (0, 3)
    assert tests.core.names == ("stays so far", "taken after stays", "value", "done", "born", "sex", "height")
    assert tests.columns["taken after stays"].size == tables.view("tests").columns["taken"].size
    names = joint(tables).core.names
    assert names[:4] == ("born", "sex", "height", "rows of stays") and names[-2:] == (
        "rows of consent",
        "consent.given",
    )
    assert all("" in joint(tables).columns[name].gap_words for name in names if "." in name)
    assert joint(tables).target == "sex"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("key: patient", "key: nobody", "needs the column 'nobody', of kind identifier"),
        ("    order: admitted\n", "", "several rows per patient need an `order`"),
        ("      value: {", "      sex: {", "'sex' is a column of 'patients', too"),
        ("latest: {stay: stays}", "latest: {stay: stay}", "the first and this one. Did you mean 'stays'?"),
        ("latest: {stay: stays}", "latest: {taken: stays}", "of kind identifier with `missing: true`"),
        ("order: admitted", "order: stay", "both tables need an `order`, both of dates or both of numbers"),
        ("      stay: {kind: identifier, missing: true}", "      stay: {kind: identifier}", "`missing: true`"),
        ("  patients:\n", "  patients:\n    max_rows: 2\n", "the first table, 'patients', cannot have an order"),
        ("admitted > born", "admitted > bern", "the table 'stays': "),
        ("order: admitted", "order: admited", "the table 'stays': "),
        ("  consent:\n", "  con/sent:\n", "must not contain points, slashes"),
        ("  consent:\n", "  consent:\n    file: ../consent.csv\n", "the key file must be a name, not a path"),
        ("  consent:\n", "  consent:\n    max_row: 2\n", "there is no such key"),
        ("taken: {kind: date, bounds: [1990-01-01, 2024-12-31]}", "taken: {kind: count, bounds: [0, 9]}", "both of da"),
        ("admitted: {kind: date, bounds: [1990-01-01, 2024-12-31]}", "admitted: {kind: date}", "'admitted' is open"),
    ],
)  # fmt: skip
def test_faults_are_named(old: str, new: str, words: str) -> None:
    assert old in TABLES
    with pytest.raises(SchemaError) as found:
        LinkedTables.from_yaml(TABLES.replace(old, new, 1), "ward")
    assert words in str(found.value)


def test_where_tables_are_looked_for(ward: Path, tmp_path: Path) -> None:
    assert is_linked(ward) and is_linked(ward / "ward.tables.yaml") and not is_linked(ward / "stays.csv")
    assert find(ward).name == find(ward / "ward.tables.yaml").name == "ward"
    assert find(ward).file("stays") == ward / "stays.csv"
    (ward / "stays.csv").rename(ward / "stays.csv.bak")
    with pytest.raises(TableError, match="has no table 'stays'"):
        find(ward).file("stays")
    (ward / "more.tables.yaml").write_text(TABLES)
    with pytest.raises(UsageError, match="several files that name tables"):
        find(ward)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(TableError, match="without a file"):
        find(empty)
    with pytest.raises(SchemaError, match="There is no file of tables"):
        find(tmp_path / "none.tables.yaml")


def test_omop_is_bundled_and_recognised(tmp_path: Path) -> None:
    omop.main(["--patients", "20", "--output", str(tmp_path / "cdm")])
    told: list[str] = []
    found = find(tmp_path / "cdm", told.append)
    assert found.tables.to_dict() == bundled("omop").to_dict() and found.name == "cdm"
    assert "recognised by the table 'person'" in told[0] and "lacks" not in told[0]
    (tmp_path / "cdm" / "death.csv").unlink()
    without = find(tmp_path / "cdm", told.append).tables
    assert [*without.tables] == [name for name in found.tables.tables if name != "death"] and "death" in told[1]
    assert "omop" not in schema.bundled()  # those are of one table
    for name in found.tables.others[1:]:
        assert placed_by(found.tables, name) == "visit_occurrence"
