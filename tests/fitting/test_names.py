"""Names of columns come back byte for byte: those that differ by a blank or by case alone are several names."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.errors import SchemaError
from medsynth.io.reader import read
from medsynth.schema import Schema

N = 400
HEADERS = [
    ["body  weight", " weight (kg)", "Größe ", "ß", "SS", "ill "],
    ["age", " age", "age ", "Age", "AGE", "y"],
    ["a:b ", "#x", "'q'", '"z"', "x, y", " true"],
]


def table(names: list[str]) -> pd.DataFrame:
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(draw.integers(20, 90, (N, len(names))), columns=names)
    return frame.assign(**{names[-1]: draw.choice(["no", "yes"], N)})


def written(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_excel(path, index=False)
    return path


@pytest.mark.matrix
@pytest.mark.parametrize("ending", [".csv", ".parquet", ".xlsx"])
@pytest.mark.parametrize("names", HEADERS, ids=lambda names: repr(names[0]))
def test_a_header_comes_back(names: list[str], ending: str, tmp_path: Path) -> None:
    if ending == ".xlsx":
        pytest.importorskip("openpyxl")
    found = read(written(table(names), tmp_path / f"t{ending}"))
    assert list(found.header) == names and len(found.cells.columns) == len(names)


@pytest.mark.matrix
@pytest.mark.parametrize("names", HEADERS, ids=lambda names: repr(names[0]))
def test_a_sample_has_the_names_of_the_table(names: list[str], tmp_path: Path, quick: None) -> None:
    columns = {name: {"kind": "count", "bounds": [0, 100]} for name in names[:-1]}
    content = {"name": "t", "columns": {**columns, names[-1]: {"kind": "binary", "levels": ["no", "yes"]}}}
    schema = Schema.from_yaml(Schema.from_dict(content).to_yaml())
    assert list(schema.names) == names
    schema_file, file = tmp_path / "t.schema.yaml", written(table(names), tmp_path / "t.csv")
    schema_file.write_text(schema.to_yaml(), "utf-8")
    words = ["fit", str(file), "--epsilon", "50", "--target", names[-1], "--output", str(tmp_path / "m.medsynth")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    model = medsynth.load(tmp_path / "m.medsynth")
    assert list(medsynth.sample(model, 50).columns) == names
    result = CliRunner().invoke(app, ["sample", str(tmp_path / "m.medsynth"), "--output", str(tmp_path / "s.csv")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "s.csv").read_bytes().splitlines()[0] == file.read_bytes().splitlines()[0]


def test_a_name_without_its_blank_is_another_name() -> None:
    frame = table([" age", "sex", "ill"])
    with pytest.raises(SchemaError, match="Did you mean ' age'"):
        medsynth.fit(frame, epsilon=3, target="age", notice=lambda text: None)
    schema = Schema.from_dict({"name": "t", "columns": {name: {"kind": "count", "bounds": [0, 99]}
                                                        for name in ("age", "sex", "ill")}})  # fmt: skip
    with pytest.raises(SchemaError, match="Did you mean ' age'.*Blanks and case are part of a name"):
        medsynth.fit(frame, epsilon=3, schema=schema, notice=lambda text: None)
