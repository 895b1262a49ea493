"""What is learned from noise is right, or the fit says what was lost: columns that went wrong without a word."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from open_tables import queries as bare_queries
from open_tables import raw_vault

from medsynth.errors import LOST
from medsynth.io.table import from_frame
from medsynth.privacy.accounting.calibration import Charge, make_plan
from medsynth.privacy.release import Releases
from medsynth.rng import SeededEntropy
from medsynth.schema import Categorical, Count, Date, Schema, inference, magnitudes
from medsynth.schema.codec import csv_cells, encode
from medsynth.schema.learned import ColumnKind, Learned, LearnedColumn

N = 2000
LEARNING = 0.255  # of the privacy loss of a fit: the rest is the method's
Cells = Callable[[np.random.Generator], Any]


def learned(cells: Cells, seed: int, rows: int = N) -> tuple[Learned, pd.DataFrame]:
    """What a fit at epsilon 3.7 learns of a column next to five usual ones, and the table."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "age": rng.integers(18, 95, N), "sex": rng.choice(["F", "M"], N), "crp": np.round(rng.lognormal(1.5, 1, N), 1),
        "stage": rng.choice([1, 2, 3, 4], N, p=[0.4, 0.3, 0.2, 0.1]), "x": cells(rng),
        "sick": rng.choice(["no", "yes"], N, p=[0.7, 0.3]),
    }).astype(str)  # fmt: skip
    plan = make_plan(
        [*bare_queries(), Charge(label="rest", weight=(1 - LEARNING) ** -0.5)], epsilon=3.7, delta=1e-5, rows=N
    )
    releases = Releases(plan.ledger("t"), SeededEntropy(seed))
    return raw_vault(from_frame(frame), N, releases, "sick").measure_schema(required=False), frame


def written(found: Learned, frame: pd.DataFrame) -> pd.Series:
    """The cells of the column as a sample would write the table's own codes."""
    return csv_cells(encode(from_frame(frame), found.schema), found.schema)["x"]


def codes_with_numbers(word: str, share: float, low: int = 5) -> Cells:
    return lambda rng: np.where(rng.random(N) < share, word, rng.integers(low, 12 * low, N).astype(str))


LONG = ["362969004123456789", "38341003123456781", "22298006123456782", "73211009123456783"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.55, 0.83])
def test_a_majority_of_one_code_keeps_the_numbers(share: float, seed: int) -> None:
    found, frame = learned(codes_with_numbers(">60", share), seed)
    column = found.schema.columns["x"]
    assert column.kind == "count" and ">60" in column.gap_words
    assert (written(found, frame) == frame["x"]).mean() > 0.98


@pytest.mark.parametrize("seed", range(4))
def test_codes_of_many_digits_are_levels(seed: int) -> None:
    found, frame = learned(lambda rng: rng.choice(LONG, N, p=[0.34, 0.33, 0.3, 0.03]), seed)
    assert {*map(str, found.schema.columns["x"].levels)} >= {*LONG[:3]}
    same = written(found, frame) == frame["x"]
    assert same[frame["x"] != LONG[3]].all()


@pytest.mark.parametrize("seed", range(4))
def test_a_column_of_codes_alone_has_no_numbers(seed: int) -> None:
    found, frame = learned(lambda rng: rng.choice(["-7", ""], N, p=[0.05, 0.95]), seed)
    assert found.schema.columns["x"].categorical
    assert {*written(found, frame)} <= {"-7", "", "other"}


@pytest.mark.parametrize("seed", range(4))
def test_a_rare_level_is_not_the_commonest_one(seed: int) -> None:
    words = ["<1:40", "1:40", "1:80", "1:160", "1:320", "1:640"]
    found, frame = learned(lambda rng: rng.choice(words, N, p=[0.6, 0.15, 0.1, 0.08, 0.05, 0.02]), seed)
    turned = written(found, frame)[frame["x"] == "1:640"]
    assert set(turned) in ({"1:640"}, {"other"})
    assert set(turned) == {"1:640"} or any("Rare values were merged in x" in text for text in found.summary())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("word", ["hemolysed", "refused"])
def test_an_unread_cell_is_empty_and_not_the_first_code(word: str, seed: int) -> None:
    """Codes of missing values are frequent; a rare word among the numbers is read as missing."""

    def cells(rng: np.random.Generator) -> Any:
        numbers = np.where(rng.random(N) < 0.2, "n.a.", rng.integers(40, 90, N).astype(str))
        return np.where(np.arange(N) < 4, word, numbers)

    found, frame = learned(cells, seed)
    column = found.schema.columns["x"]
    assert "n.a." in column.gap_words and "" in column.gap_words
    assert set(written(found, frame)[:4]) == {""}


def test_unread_cells_of_declared_columns_are_empty_if_these_may_be() -> None:
    from medsynth.schema import Schema

    schema = Schema.from_yaml("""{name: t, columns: {
        a: {kind: count, bounds: [0, 9], missing: [-9, ""], unknown: missing, out_of_range: missing},
        b: {kind: ordinal, levels: [1, 2], missing: [refused, ""], unknown: missing},
        c: {kind: date, bounds: [2020-01-01, 2021-01-01], missing: [never, ""], unknown: missing},
        d: {kind: count, bounds: [0, 9], missing: [-9], unknown: missing}}}""")
    frame = pd.DataFrame({"a": ["odd", "99", "-9"], "b": ["odd", "1", "refused"], "c": ["odd", "2020-05-01", "never"],
                          "d": ["odd", "3", "-9"]})  # fmt: skip
    cells = csv_cells(encode(from_frame(frame), schema), schema)
    assert cells.to_numpy().tolist() == [
        ["", "", "", "-9"],
        ["", "1", "2020-05-01", "3"],
        ["-9", "refused", "never", "-9"],
    ]


SHAPES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "births": lambda rng, rows: np.clip(np.round(rng.normal(1955, 20, rows)), 1915, 2010),
    "births of all ages": lambda rng, rows: rng.integers(1930, 2010, rows),
    "admissions": lambda rng, rows: rng.integers(2012, 2021, rows),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [500, 800, 2000])
def test_dates_do_not_pile_up_at_the_ends(shape: str, rows: int) -> None:
    """Of 200 simulated columns each: the first and last day have no share, and hardly any date lies outside."""
    rng, few = np.random.default_rng(rows), 0
    for _ in range(200):
        years = SHAPES[shape](rng, rows).astype(int) - inference.FIRST_YEAR
        exact = np.bincount(years, minlength=inference.YEARS).astype(float)
        noisy = exact + rng.normal(0, 8.0, len(exact))
        column, _ = inference.day(noisy, 8.0, ColumnKind(cells="date", form="%Y-%m-%d"), {}, rows=rows)
        assert isinstance(column, Date) and column.out_of_range == "missing"  # so nothing is moved to an end
        first, last = (end.year - inference.FIRST_YEAR for end in column.bounds if isinstance(end, datetime.date))
        few += exact[first : last + 1].sum() >= 0.98 * rows
    assert few >= 185


@pytest.mark.parametrize("rest", [60.0, 90.0])
def test_a_column_with_a_level_other_is_named(rest: float) -> None:
    """Without such a level, a column is named if it has probably lost one."""
    make = partial(LearnedColumn, kind=ColumnKind(cells="word"), kept={"a": 900.0, "b": 800.0}, rest=rest, std=40.0)
    assert make(column=Categorical(levels=("a", "b", "other"), unknown="other")).merged
    assert make(column=Categorical(levels=("a", "b"), unknown="a")).merged == (rest > 66)


@pytest.mark.parametrize("seed", range(3))
def test_an_infinite_number_is_a_word(seed: int) -> None:
    found, _ = learned(codes_with_numbers("inf", 0.1), seed)
    column = found.schema.columns["x"]
    assert column.kind == "count" and column.to_dict()["bounds"][1] < 200  # type: ignore[index]


def test_bytes_of_another_encoding_are_named() -> None:
    found, _ = learned(lambda rng: rng.choice(["m\\xe4nnlich", "weiblich"], N), 0)
    assert any("x contain bytes" in text and "`encoding`" in text for text in found.summary())
    assert not any("contain bytes" in text for text in learned(lambda rng: rng.choice(["m", "w"], N), 0)[0].summary())


@pytest.mark.parametrize("form", ["%d-%b-%Y", "%Y/%m/%d", "%d.%m.%y", "%d-%m-%Y"])
def test_other_forms_of_dates_are_lost_and_named(form: str) -> None:
    days = pd.Timestamp("2019-01-01") + pd.to_timedelta(np.arange(N) % 900, unit="D")
    found, _ = learned(lambda rng: days.strftime(form).to_numpy(), 0)
    said = [text for text in found.summary() if text.about.kind == LOST]
    assert found.columns["x"].lost and len(said) == 1 and "x. Hardly" in said[0]


WIDENED = {"a clear cell far away": (1e6, 6.0), "a neighbour": (200.0, 2.5), "two noises of the code": (888.8, 5.0)}


@pytest.mark.parametrize("noise", WIDENED)
def test_noise_does_not_hide_a_far_code(noise: str) -> None:
    """Each of these cells alone made the code a value, in one fit of forty together."""
    counts = np.zeros(magnitudes.MAGNITUDES)
    for value, count in ((140.0, 1800.0), (888.8, 200.0), WIDENED[noise]):
        counts[magnitudes.magnitude_cell(np.array([value]))] += count
    digits = np.zeros(magnitudes.MOST_DECIMALS + 1)
    digits[1] = N
    column, far = inference.number(
        counts, 1.0, digits, ColumnKind(cells="decimal", short=True), {}, rows=N, levels={"888.8": 200.0}
    )
    assert "888.8" in column.gap_words and far.codes == ("888.8",)


@pytest.mark.parametrize(("low", "named"), [(2_000_000, True), (2000, False)])
def test_large_whole_numbers_are_named(low: int, named: bool) -> None:
    """A key that is missing in some rows is not read as a key: the user decides."""
    found, _ = learned(codes_with_numbers("", 0.2, low), 0)
    assert any("Large whole numbers" in text and "x. If" in text for text in found.summary()) == named


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_numbers_that_come_back_with_fewer_or_more_decimals_are_named(share: float) -> None:
    """Too few decimals among whole numbers are lost; of two kinds of decimals, one comes back as the other."""

    def cells(rng: np.random.Generator) -> Any:
        rest = "{:.2f}" if share > 0.1 else "{:.0f}"
        return [("{:.1f}" if rng.random() < share else rest).format(value) for value in rng.normal(50, 9, N)]

    found, frame = learned(cells, 0)
    assert (written(found, frame) == frame["x"]).mean() > 0.97 or any(
        "x come back in another form" in text for text in found.summary()
    )


def test_a_loss_that_the_noise_hides_is_named() -> None:
    """Twenty counts add up to noise of a few percent of 600 rows."""
    kept = {str(k): 28.0 for k in range(20)}
    column = Categorical(levels=tuple(range(20)), unknown="missing", missing=True)
    numbers = Count(bounds=(0, 99), missing=True, unknown="missing")
    for std, named in ((5.0, False), (20.0, True)):
        levels = LearnedColumn(kind=ColumnKind(cells="whole"), kept=kept, rest=10.0, std=std, column=column)
        rare = LearnedColumn(kind=ColumnKind(cells="whole"), rest=590.0, unread=9.0, std=std, column=numbers)
        made, columns = {"x": levels, "y": rare}, {"x": column, "y": numbers}
        found = Learned(schema=Schema(name="t", columns=columns), columns=made, rows=600).summary()
        words = "rare values of x (up to 6% of the rows), y (up to 6% of the rows):"
        assert any(words in text for text in found) == named
        assert any("rare values of x, y." in text.brief for text in found) == named


def test_a_year_within_the_bounds_is_not_far() -> None:
    """One clear year of births among many that the noise hides."""
    years = np.zeros(inference.YEARS)
    years[70:150] = 12.0
    years[142] = 40.0
    column: Any
    column, far = inference.day(years, 6.0, ColumnKind(cells="date"), {}, rows=1000)
    assert column.bounds[0].year < 1992 < column.bounds[1].year and not far.near
