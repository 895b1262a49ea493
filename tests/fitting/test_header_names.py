"""Names that look like values: a fit asks before a patient's row becomes the names of columns."""

from pathlib import Path

import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.errors import MedsynthError, SchemaError, TableError
from medsynth.fitting.holdout import saved_as
from medsynth.fitting.looking import table_to_look_at
from medsynth.fitting.private_table import table_header
from medsynth.fitting.settings import FitSettings
from medsynth.io.formats import OWN, SavedAs
from medsynth.io.split import number_split
from medsynth.schema.value_like import doubtful_names, may_be_row, value_like

pytestmark = pytest.mark.usefixtures("quick")
ROWS = [["Surgery", "male", "no", "I"], ["Cardiology", "female", "yes", "II"]] * 400
FIRST_ROWS = (
    "Cardiology;male;no;II", "Basel;flu;2019-01-02", "Basel;flu;01-Jan-2020", "Basel;54;flu", "Basel;1,5;flu",
    "Meier;weiblich;ledig", "Basel;Grippe;ja;m", "80 kg;flu;37.1°C", "p1;120/80;flu", "12:30;Basel;flu", "yes", "M;F;x",
    "sì;12 mg", "45%;NA", "oui;Y;N;t", "Basel;1e5", "x;1.5E+03", "x;05-MAY-1980", "x;05may1980", "x;5 May 2020",
    "x;12 Mai 2020", "x;May 5, 2020", "x;10:30 AM", "x;14h30", "x;2020-01-05 10:15 UTC", "x;20200105T1015",
    "x;1980-W05", "x;2020Q1", "x;½", "x;54y", "x;5 yo", "x;54 Jahre", "x;18-25 years", "x;5 U/L", "x;5 mEq/L",
    "x;5 K/uL", "x;5 kPa", "x;5 x 10", "x;NaN", "x;wahr", "x;pT2N1M0", "x;T1 N0", "x;1:80",
    "x;12MAR2020:10:00:00", "x;01mar2020 10:00:00", "x;2020m3", "x;2020M03", "x;01-MAR-20 10.00.00.000000 AM",
    "x;Mar 1 2020 12:00AM", "x;Sun Mar 01 2020", "x;2020-03-01T10:00:00.000+0000", "x;12/Mar/2020", "x;2020-Mar-01",
    "x;2020-03-01 10:00:00 Europe/Zurich", "x;1-Mar", "x;Jan 2020", "x;2020年3月1日", "x;0 days 00:10:00",
    "x;120/80 mm Hg", "E11.9;F", "x;5. März 2020",
)  # fmt: skip
NAMES = (
    "B12;A1c;x12;sex;age;T3;ECOG 1;24h_urine", "x;y", "age;died", "t;event", "n;y", "low;high", "case;control",
    "left;age", "6MWT;5HT;17-OHP", "day 1;day 2", "K;NA;CL", "q1_1;q1_2", "id;male;age",
    "current smoker;yes_no", "°C;%", "30 day mortality;2 h glucose;h24;1RM", "T1;T2;S1", "decision 2020;z",
    "5y_os;x", "Q12020;W05", "6 MWT;a;b", "T4;TSH",
)  # fmt: skip


@pytest.mark.parametrize("first", FIRST_ROWS)
def test_a_first_row_is_asked_about(first: str) -> None:
    assert may_be_row(first.split(";"))


@pytest.mark.parametrize("names", NAMES)
def test_usual_names_are_names(names: str) -> None:
    assert not may_be_row(names.split(";"))


def test_years_of_repeated_columns_are_declared_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("2019,2020\n54,60\n61,62\n")
    with pytest.raises(TableError, match="`header_is_names`"):
        table_header(tmp_path / "t.csv")
    assert table_header(tmp_path / "t.csv", SavedAs(header_is_names=True)) == ("2019", "2020")


def first_row_is_header(folder: Path, names: str = "Cardiology,male,no,II") -> Path:
    path = folder / "t.csv"
    path.write_text("\n".join([names, *map(",".join, ROWS)]) + "\n")
    return path


def test_a_fit_a_plan_and_a_draft_ask_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = first_row_is_header(tmp_path)
    pd.read_csv(path).to_parquet(tmp_path / "t.parquet")
    pd.read_csv(path).to_excel(tmp_path / "t.xlsx", index=False)
    said = set()
    for table in (path, tmp_path / "t.parquet", tmp_path / "t.xlsx", pd.read_csv(path)):
        for call in (lambda it: medsynth.plan(it, epsilon=3.0), lambda it: medsynth.fit(it, epsilon=3.0)):
            with pytest.raises(TableError, match=r"\(column 2, 3\).*`header_is_names`") as caught:
                call(table)
            said.add(str(caught.value))
    monkeypatch.chdir(tmp_path)
    for words in (["fit", "t.csv", "--epsilon", "3", "--holdout", "0.3"], ["plan", "t.csv", "--epsilon", "3"],
                  ["schema", "draft", "t.csv"], ["schema", "template", "--table", "t.csv"]):  # fmt: skip
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 1 and "--header-is-names" in result.stderr
        said.add(result.output)
    assert not any(word in text for text in said for word in ("Cardiology", "male", "II"))
    assert {one.name for one in tmp_path.iterdir()} == {"t.csv", "t.parquet", "t.xlsx"}


def test_a_declaration_answers_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = first_row_is_header(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(
        app, ["plan", "t.csv", "--epsilon", "3", "--method", "independent", "--header-is-names"]
    )
    assert result.exit_code == 0 and "(Cardiology, male, no, II)" in result.stdout and "WARNING" not in result.stdout
    assert "as --header-is-names declares" in result.stdout
    assert CliRunner().invoke(app, ["schema", "draft", "t.csv", "--header-is-names"]).exit_code == 0
    assert table_to_look_at(path, SavedAs(header_is_names=True)).header == ("Cardiology", "male", "no", "II")


def test_the_names_are_printed_and_some_doubtful_ones_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = first_row_is_header(tmp_path, "ward,male,dose,stage")
    monkeypatch.chdir(tmp_path)
    for words in (["plan", "t.csv", "--epsilon", "3", "--method", "independent"], ["schema", "draft", "t.csv"]):
        shown = CliRunner().invoke(app, words).stdout
        assert "ward, male, dose, stage" in shown and "look like values: male. If the table has no header line" in shown
    (tmp_path / "t.schema.yaml").unlink()
    told = list[str]()
    medsynth.fit(path, epsilon=9.0, method="independent", notice=told.append)
    assert any("(4 columns: ward, male, dose, stage)" in getattr(text, "brief", "") for text in told)
    assert any(text.startswith("WARNING: ") and "look like values: male" in text for text in told)


def test_a_schema_that_does_not_fit_prints_no_name_of_a_file_without_a_header(tmp_path: Path) -> None:
    path = first_row_is_header(tmp_path)
    columns = {name: {"kind": "categorical", "levels": ["a", "b"]} for name in ("Kardiology", "sex", "mal", "stage")}
    with pytest.raises(SchemaError) as caught:
        medsynth.plan(path, epsilon=3.0, schema={"name": "t", "columns": columns})
    assert not any(word in str(caught.value) for word in ("Cardiology", "'male'", "II"))
    columns = {name: {"kind": "categorical", "levels": ["a", "b"]} for name in ("Cardiology", "mal", "no", "II")}
    with pytest.raises(SchemaError, match="Did you mean 'male'"):
        medsynth.plan(path, epsilon=3.0, schema={"name": "t", "columns": columns})


def test_lines_that_are_skipped_are_public_and_a_resumed_fit_skips_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("# a note\n#ward,sex,dead,stage\n" + "\n".join(map(",".join, ROWS)) + "\n")
    told, checkpoint = list[str](), tmp_path / "c"
    model = medsynth.fit(path, epsilon=9.0, method="independent", skip_lines=1, notice=told.append,
                         checkpoint=checkpoint)  # fmt: skip
    fact = "the number of lines above the header, 1, as `skip_lines` declares"
    assert list(model.schema.columns)[0] == "#ward" and any(fact in text for text in told)
    assert any(fact in note for note in model.ledger.notes)
    with pytest.raises(MedsynthError, match="skip_lines"):
        medsynth.fit(path, epsilon=9.0, method="independent", checkpoint=checkpoint, resume=True, notice=told.append,
                     skip_lines=2, header_is_names=True)  # fmt: skip
    assert FitSettings(epsilon=3.0, encoding="cp1252").saved == SavedAs(encoding="cp1252")


def test_inspect_warns_of_a_model_whose_columns_may_be_a_patient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions read the first row as the header if the header began with #."""
    first_row_is_header(tmp_path, "ward,sex,male,stage")
    monkeypatch.chdir(tmp_path)
    words = ["fit", "t.csv", "--epsilon", "9", "--method", "independent", "--force"]
    for more, warned in (([], True), (["--header-is-names"], False)):
        assert CliRunner().invoke(app, [*words, *more]).exit_code == 0
        assert (
            "may be the cells of a patient's row: male. If" in CliRunner().invoke(app, ["inspect"]).stdout
        ) is warned
    assert doubtful_names(["#p0", "HIV", "bern"]) == ["#p0", "HIV", "bern"]
    assert doubtful_names(["p0", "HIV\npositive"]) == ["HIV\npositive"] and value_like(["age", "sex"]) == []


def test_a_part_that_a_fit_has_written_needs_no_declaration(tmp_path: Path) -> None:
    """The table has lines above its header or another encoding; its parts have neither."""
    declared = SavedAs(encoding="cp1252", skip_lines=1)
    number_split(tmp_path / "t.heldout.csv", tmp_path / "t.csv")
    assert {saved_as(tmp_path / name, declared) for name in ("t.heldout.csv", "t.train.csv")} == {OWN}
    for name in ("t.csv", "other.heldout.csv", "other.train.csv", "t.synthetic.csv"):
        assert saved_as(tmp_path / name, declared) == declared
