"""One odd cell is one odd cell: with all releases held fixed, fits on neighbouring raw tables release the same bytes.

A table and its neighbour, in which one row holds something else, are fitted. Both fits draw every measurement, from
their own rows; what comes out of the measurements is replaced by what the first fit got. So all that is left to differ
is what nobody charged: how the table was read, kinds of columns, dtypes, plan, messages, seconds, names and orders. The
model file, notices, the plan and the budget file must be equal to the last byte, or the table is refused for a reason
that docs/privacy.md lists under what neighbouring tables share: that it is a text of the format, and meets its schema.

On the old code these fail: the row count after bounding patients (test_the_rows_that_patients_keep_...), dtypes of a
frame and kinds of a bare table (the matrix: a missing cell, 8.5, a word), one byte that is no UTF-8 (the matrix), the
seconds in a model file (test_the_same_releases_...), the count that a hold-out drew (test_what_a_hold_out_kept_...).
"""

import csv
import datetime
import io
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from held import EPSILON, FixedReleases, measure_alone, released
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth import rng
from medsynth.errors import MedsynthError, SchemaError, TableError
from medsynth.fitting.private_table import TYPED_FRAME
from medsynth.io import reader
from medsynth.io import table as tables
from medsynth.io.split import split
from medsynth.schema import Binary, Categorical, Schema, inference
from medsynth.schema.codec import decode
from medsynth.schema.learned import ColumnKind

pytestmark = pytest.mark.usefixtures("plain_method", "seeded_entropy")

ROWS, ODD = 40, 7  # the row that differs
MISSING: dict[str, Any] = {"missing": True, "unknown": "missing"}
MINUTES = "%Y-%m-%d %H:%M"
STRICT: dict[str, Any] = {
    "age": {"kind": "count", "bounds": [0, 120]},
    "dose": {"kind": "continuous", "bounds": [0, 9], "decimals": 2},
    "ward": {"kind": "categorical", "levels": ["north", "south", "Zürich"]},
    "seen": {"kind": "date", "bounds": ["2020-01-01", "2021-12-31"]},
    "left": {"kind": "date", "bounds": [0, 9], "after": "seen"},
    "at": {"kind": "date", "bounds": ["2020-01-01", "2021-12-31"], "resolution": "minute", "format": MINUTES},
    "smokes": {"kind": "binary", "levels": [False, True]},
    "fever": {"kind": "binary", "levels": ["no", "yes"]},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
}
UNKNOWN: dict[str, Any] = {
    "age": MISSING, "dose": MISSING, "seen": MISSING, "left": MISSING, "at": MISSING, "smokes": {"unknown": False},
    "fever": {"unknown": "no"}, "sick": {"unknown": "no"}, "ward": {"unknown": "north"},
}  # fmt: skip
SCHEMAS = {
    "bare": None,
    "strict": Schema.from_dict({"name": "t", "target": "sick", "columns": STRICT}),
    "open": Schema.from_dict(
        {"name": "t", "target": "sick", "columns": {name: {**c, **UNKNOWN[name]} for name, c in STRICT.items()}}
    ),
}
CELLS: dict[str, Any] = {
    "a missing cell": None, "NaN": float("nan"), "pandas' NA": pd.NA, "an empty text": "", "NA": "NA", "NaT": pd.NaT,
    "a question mark": "?", "a dash": "-", "the whole number of others": 8, "a number of decimals": 8.5, "a word": "x",
    "true beside 1": True, "a numpy bool": np.bool_(True), "a decimal of Python": Decimal("5.0000"),
    "infinity": float("inf"), "a huge float": 1e308, "a float that is none": "7431e400", "thirty digits": 10**30,
    "beyond 64 bits": 2**64, "beyond what a float counts": 2**53 + 1, "Unicode digits": "٣", "minus zero": -0.0,
    "-0 as text": "-0", "a zero in front": "007", "a plus": "+8", "a point at the end": "8.", "blanks": "  8  ",
    "a quote": 'say "8"', "a delimiter": "8,5", "a newline": "8\n9", "a carriage return": "8\r9", "a formula": "=1+1",
    "a day": "2020-02-30", "another format": "29.02.2020", "a day of Python": datetime.date(2020, 2, 29),
    "a timestamp with a zone": pd.Timestamp("2020-02-29 13:45", tz="Europe/Zurich"), "a new level": "east",
    "another case": "NORTH", "combining marks": "Zu\u0308rich", "a right-to-left mark": "\u202enorth",
    "a very long text": "x" * 100_000, "per cent": "8%", "scientific": "8e0", "hexadecimal": "0x8", "a yes": "yes",
    "a True": "True", "an underscore": "1_000", "a lone surrogate": "\\ud800",
    "minus nine": -9, "a code of three nines": 999, "minus nine as a float": -9.0, "a dot": ".", "unknown": "unknown",
    "None as a word": "None", "a timestamp": "2020-02-29 13:45:07", "a timestamp with a T": "2020-02-29T13:45",
    "a day before a month": "29/02/2020", "a timestamp of pandas": pd.Timestamp("2020-02-29 13:45"),
    "a usual level": "Male", "a usual number": 3,
    "free text": "was seen at home and did not open the door", "many decimals": "8.123456789",
}  # fmt: skip
RAW: dict[str, bytes] = {
    "a byte that is no UTF-8": b"Z\xfcrich", "half a character": b"Z\xc3", "a mark of byte order": b"\xef\xbb\xbf8",
    "a byte of Latin-1 alone": b"\x81", "an escape": b"\x1b[2K8", "a quoted empty text": b'""',
}  # fmt: skip
NUL = b"8\x009"


@pytest.fixture(scope="module", autouse=True)
def plain_method() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        measure_alone(patch)
        yield


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> FixedReleases:
    return FixedReleases(monkeypatch)


def rows() -> dict[str, list[Any]]:
    draw = np.random.default_rng(0)
    return {
        "age": draw.integers(18, 90, ROWS).tolist(),
        "dose": np.round(draw.uniform(0.1, 8, ROWS), 2).tolist(),
        "ward": draw.choice(["north", "south", "Zürich"], ROWS).tolist(),
        "seen": [f"2020-{k % 12 + 1:02}-{k % 28 + 1:02}" for k in range(ROWS)],
        "left": [f"2020-{k % 12 + 1:02}-{k % 28 + 1 + k % 3:02}" for k in range(ROWS)],
        "at": [f"2020-{k % 12 + 1:02}-{k % 28 + 1:02} {k % 24:02}:{k % 60:02}" for k in range(1, ROWS + 1)],
        "smokes": draw.choice([False, True], ROWS).tolist(),
        "fever": draw.choice(["no", "yes"], ROWS).tolist(),
        "sick": draw.choice(["no", "yes"], ROWS).tolist(),
    }


def changed(cell: Any, columns: tuple[str, ...]) -> dict[str, list[Any]]:
    """The rows, with that cell in these columns of one row."""
    table = rows()
    for name in columns:
        table[name][ODD] = cell
    return table


def as_csv(table: dict[str, list[Any]]) -> bytes:
    """A CSV file whose fields are quoted where they need it. Bytes stand in it as they are."""
    text, raw = io.StringIO(), dict[str, bytes]()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(table)
    for record in zip(*table.values(), strict=True):
        fields = []
        for cell in record:
            if isinstance(cell, bytes):
                raw[f"@{len(raw)}@"] = cell
                fields.append(list(raw)[-1])
            else:
                gone = cell is None or cell is pd.NA or cell is pd.NaT or cell != cell
                fields.append("" if gone else str(cell).lower() if isinstance(cell, bool) else str(cell))
        writer.writerow(fields)
    content = text.getvalue().encode()
    for mark, cell in raw.items():
        content = content.replace(mark.encode(), cell)
    return content


def source_of(form: str, table: dict[str, list[Any]], folder: Path) -> Any:
    """The table as a frame whose dtypes pandas finds, as a CSV file, or as a Parquet file."""
    if form == "frame":
        return pd.DataFrame(table)
    path = folder / f"t.{form}"
    if form == "csv":
        path.write_bytes(as_csv(table))
    else:
        pd.DataFrame(table).to_parquet(path)
    return path


FIRST: dict[tuple[str, str], Any] = {}  # what the table's own fit released, once for all of its neighbours


def without_form(part: Any, form: str) -> Any:
    """A part of what leaves; of a frame without the notice of its types: they are public, and a word changes them."""
    return [text for text in part if text != TYPED_FRAME] if form == "frame" and isinstance(part, list) else part


def is_the_same(fixed: FixedReleases, form: str, schema: str, folder: Path, other: dict[str, list[Any]]) -> bool:
    """Whether the neighbour's fit releases what the table's own does; False where it is refused before it measures."""
    if (form, schema) not in FIRST:
        FIRST[form, schema] = released(source_of(form, rows(), folder), SCHEMAS[schema], folder), fixed.known
    one, fixed.known = FIRST[form, schema]
    fixed.again()
    try:
        two = released(source_of(form, other, folder), SCHEMAS[schema], folder)
    except MedsynthError as error:
        assert fixed.at == 0 and isinstance(error, SchemaError | TableError), error
        return False
    assert two.keys() == one.keys()
    for part in one:
        assert without_form(two[part], form) == without_form(one[part], form), part
    assert fixed.at == len(fixed.known)
    return True


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["csv", "frame"])
@pytest.mark.parametrize("schema", ["bare", "open"])
@pytest.mark.parametrize("cell", CELLS)
def test_an_odd_row_changes_nothing_but_measurements(
    cell: str, schema: str, form: str, fixed: FixedReleases, tmp_path: Path
) -> None:
    """The cell stands in all columns of one row. Nothing is refused: every cell has a value that it is read as."""
    assert is_the_same(fixed, form, schema, tmp_path, changed(CELLS[cell], tuple(rows())))


@pytest.mark.matrix
@pytest.mark.parametrize("schema", ["bare", "open"])
@pytest.mark.parametrize("cell", RAW)
def test_bytes_that_no_frame_holds(cell: str, schema: str, fixed: FixedReleases, tmp_path: Path) -> None:
    assert is_the_same(fixed, "csv", schema, tmp_path, changed(RAW[cell], ("age", "ward")))


@pytest.mark.parametrize("column", ["age", "seen", "sick"])
def test_a_strict_schema_refuses_before_anything_is_measured_or_changes_nothing(
    column: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """That a table meets its schema is a declared fact. Cells that meet it change nothing."""
    refused = 0
    for cell in ("a missing cell", "a word", "the whole number of others", "thirty digits", "a yes", "a day of Python"):
        with monkeypatch.context() as patch:
            other = changed(CELLS[cell], (column,))
            refused += not is_the_same(FixedReleases(patch), "frame", "strict", tmp_path, other)
    assert refused == {"age": 4, "seen": 5, "sick": 5}[column]


@pytest.mark.parametrize("name", ["a missing cell", "a new level", "a day of Python"])
def test_parquet(name: str, fixed: FixedReleases, tmp_path: Path) -> None:
    column = "seen" if name == "a day of Python" else "ward"
    cell = str(CELLS[name]) if column == "seen" else CELLS[name]
    assert is_the_same(fixed, "parquet", "bare", tmp_path, changed(cell, (column,)))


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["frame", "parquet"])
@pytest.mark.parametrize("schema", ["bare", "open"])
def test_a_text_that_pandas_takes_for_another(form: str, schema: str, fixed: FixedReleases, tmp_path: Path) -> None:
    """What stands behind a NUL is not seen by pandas, nor is a lone surrogate, which Parquet cannot hold."""
    cells = ["north\0Jane Doe", "north\0", *(["north\udcfc", "\udcfc"] if form == "frame" else [])]
    for cell in cells:
        assert is_the_same(fixed, form, schema, tmp_path, changed(cell, ("ward", "fever")))


def test_numbers_with_a_hole_in_parquet(fixed: FixedReleases, tmp_path: Path) -> None:
    assert is_the_same(fixed, "parquet", "bare", tmp_path, changed(None, ("age", "dose", "smokes")))


@pytest.mark.parametrize("schema", ["bare", "open"])
def test_what_is_no_text_of_the_format_is_refused(schema: str, fixed: FixedReleases, tmp_path: Path) -> None:
    """Two cells that docs/privacy.md names: a NUL, and a field longer than the csv module reads."""
    assert not is_the_same(fixed, "csv", schema, tmp_path, changed(NUL, ("age",)))
    for content in (as_csv(changed("x" * 131_073, ("ward",))), as_csv(rows()).replace(b"north", b'"north', 1)):
        (tmp_path / "t.csv").write_bytes(content)
        for limit in (csv.field_size_limit(), 1 << 30):  # another package may raise it for the whole process
            before = csv.field_size_limit(limit)
            with pytest.raises(TableError):
                reader.read(tmp_path / "t.csv")
            csv.field_size_limit(before)


def test_an_object_without_a_text_is_refused(tmp_path: Path) -> None:
    class Silent:
        def __str__(self) -> str:
            raise ValueError("north")

    for cell in (Silent(), 10**5000):
        with pytest.raises(TableError, match="as text") as error:
            tables.from_frame(pd.DataFrame({"a": pd.Series([1, cell], dtype=object)}))
        assert "north" not in str(error.value)


def test_the_table_was_learned_and_not_given_up(fixed: FixedReleases, tmp_path: Path) -> None:
    """The matrix means something: the bare table has a kind of its own for every column, and dtypes come back."""
    model = medsynth.fit(
        pd.DataFrame(rows()),
        epsilon=EPSILON,
        anyway=True,
        target="sick",
        method="independent",
        notice=list[str]().append,
    )
    kinds = {name: column.kind for name, column in model.schema.columns.items()}
    assert kinds == {"age": "count", "dose": "continuous", "ward": "categorical", "seen": "date", "left": "date",
                     "at": "date", "smokes": "binary", "fever": "binary", "sick": "binary"}  # fmt: skip
    assert model.schema.columns["left"].depends_on == ("seen",)
    codes = np.zeros((3, 9), np.int32)
    drawn = decode(codes, model.schema)
    frame = pd.DataFrame(rows()).astype({"seen": "datetime64[ns]", "left": "datetime64[ns]", "at": "datetime64[ns]"})
    assert drawn.dtypes.to_dict() == frame.dtypes.to_dict() and not drawn.isna().any().any()


@pytest.mark.matrix
@pytest.mark.parametrize("cell", ["a word", "a missing cell", "a number of decimals"])
def test_what_the_terminal_shows(
    cell: str, fixed: FixedReleases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = []
    for table in (rows(), changed(CELLS[cell], tuple(rows()))):
        (tmp_path / "t.csv").write_bytes(as_csv(table))
        (tmp_path / "t.medsynth-ledger").unlink(missing_ok=True)
        words = ["fit", "t.csv", "--epsilon", "200", "--anyway", "--method", "independent", "--seed", "1", "--verbose"]
        words += ["--target", "sick"]
        done = CliRunner().invoke(app, [*words, "--force"])
        assert done.exit_code == 0, done.stderr
        plan = CliRunner().invoke(app, ["plan", "t.csv", "--epsilon", "200", "--anyway", "--target", "sick", "--json"])
        shown.append((done.stdout, done.stderr, plan.stdout, Path("t.medsynth").read_bytes()))
        fixed.again()
    assert shown[0] == shown[1]
    listed, learned = (shown[0][1].index(text) for text in ("Public by declaration", "Learned from noisy counts"))
    assert listed < learned and "the number of rows, 40, the table's own" in shown[0][1]


def test_the_same_releases_make_the_same_model_to_the_last_byte(fixed: FixedReleases, tmp_path: Path) -> None:
    """No seconds and no date stand in it, which depend on the rows: a table of more levels takes longer."""
    FIRST.pop(("frame", "bare"), None)
    assert is_the_same(fixed, "frame", "bare", tmp_path, rows())


VISITS: dict[str, Any] = {
    "name": "visits", "target": "sick", "unit": "who", "max_rows": 2,
    "columns": {"who": {"kind": "identifier"}, "age": STRICT["age"], "sick": STRICT["sick"]},
}  # fmt: skip


def test_the_rows_that_patients_keep_are_counted_with_noise(fixed: FixedReleases, tmp_path: Path) -> None:
    """Neighbours: a patient of six rows, of whom two stay, or six patients of one row each. Their counts differ."""
    frame = pd.DataFrame({"who": [f"p{k // 2}" for k in range(ROWS)], "age": rows()["age"], "sick": rows()["sick"]})
    frame.loc[:5, "who"] = "p0"
    other = frame.assign(who=[*[f"q{k}" for k in range(6)], *frame["who"][6:]])
    schema, found = Schema.from_dict(VISITS), []
    for table in (frame, other):
        found.append(released(table, schema, tmp_path))
        fixed.again()
    assert found[0] == found[1]
    model = medsynth.load(tmp_path / "m.medsynth")
    assert model.rows != ROWS  # a noisy count; the plan's own is the table's


@pytest.mark.matrix
@pytest.mark.parametrize("cell", ["a word", "a missing cell", "a number of decimals", "infinity", "a new level"])
def test_an_odd_patient_of_a_bare_table_changes_nothing_but_measurements(
    cell: str, fixed: FixedReleases, tmp_path: Path
) -> None:
    """Neighbours: a patient of six rows, of whom two stay, or six with an odd cell in every column; no schema."""
    frame = pd.DataFrame({"who": [f"p{k // 2}" for k in range(ROWS)], **rows()}).astype(object)
    frame.loc[:5, "who"] = "p0"
    other, found = frame.copy(), []
    for name in rows():
        other.loc[:5, name] = pd.Series([CELLS[cell]] * 6, dtype=object)
    for table in (frame, other):
        found.append(released(table, None, tmp_path, unit="who", max_rows=2))
        fixed.again()
    assert found[0] == found[1]
    assert medsynth.load(tmp_path / "m.medsynth").schema.unit == "who"


@pytest.mark.statistical
def test_what_a_hold_out_kept_is_not_counted(fixed: FixedReleases, tmp_path: Path) -> None:
    """The number of rows is that of the whole table times the share. False-alarm rate of a part too small: 2^-35."""
    frame = pd.DataFrame({name: column * 5 for name, column in rows().items()})
    frame.to_csv(tmp_path / "t.csv", index=False)
    read, kept, found = reader.read(tmp_path / "t.csv"), [], []
    for seed in (1, 3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rng, "system_entropy", lambda seed=seed: rng.SeededEntropy(seed))
            train = split(read, 0.5, tmp_path / "a.csv", tmp_path / "b.csv", force=True)
        kept.append(len(train.cells))
        found.append(released(train, SCHEMAS["open"], tmp_path))
        fixed.again()
    assert kept[0] != kept[1] and found[0] == found[1]
    assert medsynth.load(tmp_path / "m.medsynth").rows == 100


@pytest.mark.parametrize("names", [("b", "a"), ("a", "b")])
def test_equally_frequent_levels_are_ordered_by_their_text(names: tuple[str, str]) -> None:
    """Neither exact counts nor the order of the rows decide which of them takes a stray value."""
    word = ColumnKind(cells="word")
    column = inference.levels(dict.fromkeys(names, 50.0), {}, 0.0, 1.0, word, rows=100)
    assert isinstance(column, Binary) and column.levels == ("a", "b") and column.unknown == "a"
    more = inference.levels({**dict.fromkeys(names, 50.0), "c": 50.0}, {}, 0.0, 1.0, word, rows=150)
    assert isinstance(more, Categorical) and more.unknown == "a"


@pytest.fixture(autouse=True)
def quiet_warnings() -> Iterator[None]:
    """A cell of one row warns nobody: what is printed is the same for neighbours."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        yield
