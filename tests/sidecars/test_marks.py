"""The word synthetic inside what leaves: a last column of marked files, and the metadata of Parquet files."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pytest
from commands import good, run

import medsynth
from medsynth.report.data.columns import unmarked
from medsynth.sampling.provenance import drawn_by


@pytest.mark.nightly_for("two-csv", "two-csv.gz", "two-parquet")
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("words", [[], ["--replicates", "2"], ["--where", "grade=low"]], ids=["all", "two", "low"])
def test_a_marked_table_is_the_same_table_with_a_last_column(small: Path, words: list[str], ending: str) -> None:
    read = pd.read_parquet if ending == "parquet" else pd.read_csv
    good("sample", "-n", "20", "--seed", "4", *words, "-o", f"bare.{ending}")
    good("sample", "-n", "20", "--seed", "4", *words, "--mark", "-o", f"marked.{ending}")
    bare, marked = read(f"bare.{ending}"), read(f"marked.{ending}")
    assert marked.columns[-1] == "synthetic" and set(marked["synthetic"]) == {"yes"}
    pd.testing.assert_frame_equal(marked.iloc[:, :-1], bare)
    model = medsynth.load("small.medsynth")
    assert drawn_by(model, Path(f"marked.{ending}")) and drawn_by(model, Path(f"bare.{ending}"))
    facts = json.loads(Path(f"marked.{ending}.provenance.json").read_text())
    Path(f"marked.{ending}.provenance.json").write_text(json.dumps(facts | {"mark": False}))
    assert not drawn_by(model, Path(f"marked.{ending}"))


def test_parquet_files_say_what_they_are(small: Path) -> None:
    good("sample", "-n", "20", "-o", "rows.parquet")
    facts = pyarrow.parquet.read_schema("rows.parquet").metadata
    assert facts[b"synthetic"] == b"true" and facts[b"medsynth.claim"].startswith(b"(") and b"pandas" in facts


def test_the_report_does_not_judge_the_mark(small: Path) -> None:
    good("sample", "-n", "60", "--mark", "-o", "marked.csv")
    good("report", "small.medsynth", "--synthetic", "marked.csv", "--shareable", "--output", "page.html")
    sections = json.loads(Path("page.json").read_text())["sections"]
    assert "synthetic" not in [one["name"] for one in sections["variables"]["columns"]]


@pytest.mark.parametrize(
    ("values", "kept"), [(["yes", "yes"], False), (["yes", "no"], True), (["", "yes"], True)], ids=str
)
def test_only_a_constant_mark_is_dropped(values: list[str], kept: bool) -> None:
    cells = pd.DataFrame({"age": ["1", "2"], "synthetic": values})
    assert ("synthetic" in unmarked(cells, None)) is kept


def test_a_table_with_a_column_of_that_name_is_not_marked(small: Path, rows: pd.DataFrame) -> None:
    text = Path("small.schema.yaml").read_text().replace("  sex: {", "  synthetic: {")
    Path("own.schema.yaml").write_text(text)
    rows.rename(columns={"sex": "synthetic"}).to_csv("own.csv", index=False)
    good("fit", "own.csv", "--epsilon", "20", "--rows", "80", "--method", "independent")
    result = run("sample", "own.medsynth", "-n", "20", "--mark")
    assert result.exit_code == 2 and "`mark`" not in result.stderr and "--mark" in result.stderr
