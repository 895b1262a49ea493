"""Rules that turn noisy counts into columns: no single cell decides, and what noise alone shows is not believed."""

import datetime
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from medsynth.errors import SchemaError
from medsynth.io.table import from_frame
from medsynth.schema import Schema, inference, magnitudes
from medsynth.schema.cells import EITHER, CellKinds
from medsynth.schema.codec import encode
from medsynth.schema.columns.categorical import Categorical
from medsynth.schema.columns.number import Count
from medsynth.schema.inference import FALSE_CODES, FALSE_LEVELS, column_kind, usual_levels
from medsynth.schema.learned import ColumnKind

STD, ROWS = 10.0, 1000
CELLS = CellKinds()
KINDS: dict[str, tuple[dict[str, float], ColumnKind]] = {
    "whole numbers": ({"whole": 1000}, ColumnKind(cells="whole")),
    "one decimal among them": ({"whole": 999, "decimal": 1}, ColumnKind(cells="whole")),
    "one word among them": ({"whole": 999, "word": 1}, ColumnKind(cells="whole")),
    "written with a point": ({"pointed": 900, "whole": 100}, ColumnKind(cells="whole", pointed=True, rewritten=True)),
    "decimals, of which a tenth are whole": ({"whole": 100, "fine": 900}, ColumnKind(cells="decimal", spikes=True)),
    "short decimals": ({"whole": 100, "decimal": 900}, ColumnKind(cells="decimal", short=True)),
    "decimals below two years": (
        {"whole": 850, "decimal": 150},
        ColumnKind(cells="decimal", short=True, mixed=True),
    ),
    "a few decimals": ({"whole": 960, "decimal": 40}, ColumnKind(cells="whole", rewritten=True)),
    "clearly missing": ({"": 200, "whole": 800}, ColumnKind(cells="whole", codes=("",))),
    "not clearly missing": ({"": 29, "whole": 971}, ColumnKind(cells="whole")),
    "question marks": ({"?": 970, "whole": 45}, ColumnKind(cells="whole", codes=("?",))),
    "two codes": ({"-9": 100, "NA": 90, "whole": 800}, ColumnKind(cells="whole", codes=("NA", "-9"))),
    "words among numbers": ({"whole": 800, "word": 200}, ColumnKind(cells="whole", words=200.0)),
    "numbers among words": (
        {"whole": 400, "word": 600},
        ColumnKind(cells="word", beside=ColumnKind(cells="whole", words=600.0)),
    ),
    "booleans": ({"": 70, "true": 930}, ColumnKind(cells="boolean", form="true", codes=("",))),
    "booleans of Python": ({"True": 1000}, ColumnKind(cells="boolean", form="True")),
    "dates": ({"%Y-%m-%d": 990, "word": 10}, ColumnKind(cells="date", form="%Y-%m-%d")),
    "days first": (
        {EITHER: 400, "%d/%m/%Y": 600},
        ColumnKind(cells="date", form="%d/%m/%Y"),
    ),
    "months first": ({EITHER: 400, "%m/%d/%Y": 600}, ColumnKind(cells="date", form="%m/%d/%Y")),
    "timestamps": (
        {"%Y-%m-%d": 50, "%Y-%m-%d %H:%M:%S": 950},
        ColumnKind(cells="date", form="%Y-%m-%d %H:%M:%S"),
    ),
    "timestamps with seconds": (
        {"%Y-%m-%d %H:%M:%S": 100, "%Y-%m-%d %H:%M:%S and seconds": 900},
        ColumnKind(cells="date", form="%Y-%m-%d %H:%M:%S", seconds=True),
    ),
    "signs": (
        {"odd": 600, "decimal": 330, "pointed": 70},
        ColumnKind(cells="decimal", short=True, pointed=True, rewritten=True, unsure=True),
    ),
    "a few exponents": ({"odd": 30, "fine": 970}, ColumnKind(cells="decimal", unsure=True)),
    "zeros at the end": (
        {"decimal": 800, "decimal zeros": 100, "pointed": 100},
        ColumnKind(cells="decimal", short=True, pointed=True, zeros=True),
    ),
    "prices": ({"pointed zeros": 1000}, ColumnKind(cells="decimal", short=True, zeros=True)),
    "days in two forms": (
        {"%Y-%m-%d": 600, "%d.%m.%Y": 400},
        ColumnKind(cells="date", form="%Y-%m-%d", rewritten=True),
    ),
    "midnights among moments": (
        {"%Y-%m-%d %H:%M": 700, "%Y-%m-%d 00:00": 300},
        ColumnKind(cells="date", form="%Y-%m-%d %H:%M"),
    ),
    "more midnights than moments": (
        {"%Y-%m-%d %H:%M": 300, "%Y-%m-%d 00:00": 700},
        ColumnKind(cells="date", form="%Y-%m-%d %H:%M"),
    ),
    "days among moments": (
        {"%Y-%m-%d %H:%M": 700, "%Y-%m-%d": 300},
        ColumnKind(cells="date", form="%Y-%m-%d %H:%M", rewritten=True),
    ),
    "midnights": ({"%Y-%m-%dT00:00": 950, "%Y-%m-%d": 45}, ColumnKind(cells="date", form="%Y-%m-%dT00:00")),
    "hours of one digit": ({"%H:%M": 700, "%-H:%M": 300}, ColumnKind(cells="date", form="%-H:%M")),
    "codes with zeros in front": ({"padded": 850, "whole": 150}, ColumnKind(cells="word")),
    "hours, of which some start with a zero": ({"whole": 580, "padded": 420}, ColumnKind(cells="word")),
    "one that starts with a zero among numbers": ({"whole": 999, "padded": 1}, ColumnKind(cells="whole")),
    "free text": ({"text": 800, "word": 200}, ColumnKind(cells="text")),
    "nothing but noise": ({"whole": 12, "decimal": 8, "true": -20, "%Y-%m-%d": 25}, ColumnKind(cells="word")),
    "nothing at all": ({"": 1000}, ColumnKind(cells="word", codes=("",))),
}


def kind_of(counts: dict[str, float], *, target: bool = False) -> ColumnKind:
    found = np.array([counts.get(name, 0.0) for name in CELLS.names])
    return column_kind(found, STD, CELLS, rows=ROWS, columns=10, target=target)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_what_most_cells_clearly_are(name: str) -> None:
    counts, kind = KINDS[name]
    assert kind_of(counts) == kind


@pytest.mark.parametrize("name", ["whole numbers", "decimals, of which a tenth are whole", "booleans", "dates"])
@pytest.mark.parametrize("cell", ["", "?", "-9", "whole", "pointed", "decimal", "True", "%d.%m.%Y", "text", "word"])
def test_one_cell_more_or_less_leaves_the_kind(name: str, cell: str) -> None:
    counts, kind = KINDS[name]
    for change in (-1, 1):
        assert kind_of({**counts, cell: counts.get(cell, 0) + change}) == kind


def test_missing_labels_need_more_than_missing_cells() -> None:
    """A count that shows a code elsewhere does not show one in the target, whose labels are never invented."""
    counts = {"": 52.0, "whole": 948.0}
    assert kind_of(counts).codes == ("",) and kind_of(counts, target=True).codes == ()


@pytest.mark.statistical
def test_noise_alone_shows_no_code_of_missing_values() -> None:
    """2,000 columns of noise in tables of twenty: by the rule at most 5 % of the tables show one. False alarm 1e-4."""
    draw, false = np.random.default_rng(5), 0
    for _ in range(100):
        found = draw.normal(0, STD, (20, len(CELLS.names)))
        found[:, CELLS.names.index("whole")] += ROWS
        false += any(column_kind(counts, STD, CELLS, rows=ROWS, columns=20).codes for counts in found)
    assert stats.binomtest(false, 100, FALSE_CODES, alternative="greater").pvalue > 1e-4


def shown(counts: dict[str, dict[str, float]], kinds: dict[str, ColumnKind], needed: float = 0.0) -> dict[str, str]:
    """The usual levels of each column, by counts of those that it has; of all others none is counted."""
    all_of = {name: dict.fromkeys(CELLS.usual, 0.0) | own for name, own in counts.items()}
    found = usual_levels(all_of, STD, 60.0, kinds, dict.fromkeys(counts, needed))
    return {name: " ".join(own) for name, own in found.items()}


def test_a_usual_level_needs_less_beside_one_that_it_comes_with() -> None:
    """35 is three and a half standard deviations of the noise."""
    counts = {"f": {"F": 900.0, "M": 35.0, "yes": 35.0}, "n": {"1": 900.0, "0": 35.0, "2": 45.0, "3": 45.0, "5": 59.0}}
    word, whole = ColumnKind(cells="word"), ColumnKind(cells="whole")
    assert shown(counts, {"f": word, "n": whole}) == {"f": "F M", "n": "0 1 2 3"}
    assert shown(counts, {"f": word, "n": whole}, 901.0) == {"f": "F M", "n": "1"}  # better read as numbers
    assert shown(counts, {"f": word, "n": ColumnKind(cells="decimal", short=True)})["n"] == "1"
    assert shown({"f": {"F": 59.0, "M": 59.0}}, {"f": word}) == {"f": ""}
    more = {name: {"1": 900.0, "0": 35.0} for name in map(str, range(2000))}
    assert set(shown(more, dict.fromkeys(more, whole)).values()) == {"1"}  # of so many, noise alone shows some


def test_usual_levels_that_a_user_names_as_missing_are_none() -> None:
    assert set(CELLS.usual) - set(CellKinds(("no", "9")).usual) == {"no", "9"}
    assert not set(CELLS.usual) & set(CELLS.codes)


@pytest.mark.statistical
def test_noise_alone_shows_no_usual_level() -> None:
    """2,000 tables of twenty constant columns, of numbers and words: at most 1 % of the tables get a level that no row
    has, and more than a tenth of that do. False alarm 1e-4 either way.
    """
    draw, false, usual = np.random.default_rng(6), 0, CELLS.usual
    constant = ["0", "1", "no", "F", "low"] * 4
    kinds = {f"{k}": ColumnKind(cells="whole" if level.isdigit() else "word") for k, level in enumerate(constant)}
    for _ in range(2000):
        noise = draw.normal(0, STD, (len(constant), len(usual))).tolist()
        counts = {name: dict(zip(usual, own, strict=True)) for name, own in zip(kinds, noise, strict=True)}
        for name, level in zip(kinds, constant, strict=True):
            counts[name][level] += ROWS
        found = usual_levels(counts, STD, 55.0, kinds, dict.fromkeys(kinds, 0.0))
        false += any(len(own) > 1 for own in found.values())
    assert stats.binomtest(false, 2000, FALSE_LEVELS, alternative="greater").pvalue > 1e-4
    assert stats.binomtest(false, 2000, FALSE_LEVELS / 10, alternative="less").pvalue > 1e-4


@pytest.mark.parametrize(
    ("text", "name"),
    [("?", "?"), ("NA", "NA"), ("-9", "-9"), ("-9.0", "-9"), ("8.0", "pointed"), ("8.25", "decimal"), ("8.125", "fine"),
     ("1e-9", "odd"), ("+8.0", "odd"), (".5", "odd"), ("8.", "odd"), ("08.5", "padded"), ("8.00", "pointed zeros"),
     ("9:05", "%-H:%M"), ("2020-02-29T00:00", "%Y-%m-%dT00:00"), ("FALSE", "TRUE"), ("2020-02-30", "word"),
     ("29.02.2020 13:45", "%d.%m.%Y %H:%M"),
     ("2020-02-29T13:45:07", "%Y-%m-%dT%H:%M:%S and seconds"), ("2020-02-29 00:00:00", "%Y-%m-%d 00:00:00"),
     ("31/12/2020", "%d/%m/%Y"), ("12/31/2020", "%m/%d/%Y"), ("01/02/2020", EITHER), ("2020-02-29 25:00", "word"),
     ("a b c d e f g h i", "text"), ("x" * 61, "text"), ("٣", "word")],
)  # fmt: skip
def test_a_cell_is_what_its_own_text_says(text: str, name: str) -> None:
    assert CELLS.names[CELLS.places([text])[0]] == name


def test_codes_are_added() -> None:
    more = CellKinds(("n.d.", "-5.0"))
    assert [more.names[k] for k in more.places(["n.d.", "-5", "-5.0"])] == ["n.d.", "-5", "-5"]
    assert set(CELLS.codes) < set(more.codes)


def test_bounds_of_a_small_table_come_from_a_range_of_magnitudes() -> None:
    """No single cell is clear; four together are."""
    values = np.geomspace(4.0, 15.9, 400)
    counts = np.bincount(magnitudes.magnitude_cell(values), minlength=magnitudes.MAGNITUDES).astype(np.float64)
    low, high = magnitudes.bounds(counts, 40.0, 400)
    assert 1 <= low <= 4 and 15.9 <= high <= 64
    assert magnitudes.bounds(counts, 1000.0, 400) == (0.0, 1.0) and magnitudes.bounds(counts, 1.0, 400) == (4.0, 16.0)


def test_bounds_of_a_change_hold_both_signs() -> None:
    """Half of the rows lie on either side of the many empty cells around zero, and no single cell is clear."""
    values = np.random.default_rng(3).normal(0, 3, 1000)
    counts = np.bincount(magnitudes.magnitude_cell(values), minlength=magnitudes.MAGNITUDES).astype(np.float64)
    for seed in range(20):
        noisy = counts + np.random.default_rng(seed).normal(0, 20, counts.shape)
        low, high = magnitudes.bounds(noisy, 20.0, 1000)
        assert (values < low).mean() < 0.05 and (values > high).mean() < 0.05 and high - low < 60


@pytest.mark.parametrize(("std", "holds"), [(2.0, False), (20.0, True)])
def test_a_narrow_range_far_from_zero_gets_room_where_noise_hides_a_tail(std: float, holds: bool) -> None:
    """400 rows from 4 to 8, and a few beyond either end."""
    counts = np.bincount(magnitudes.magnitude_cell(np.linspace(4, 7.9, 400)), minlength=magnitudes.MAGNITUDES)
    column: Any
    column, _ = inference.number(counts.astype(np.float64), std, None, ColumnKind(cells="whole"), {}, rows=400)
    low, high = column.bounds
    assert (low < 4 and high > 8) is holds


def test_years_of_dates() -> None:
    days = [datetime.date.fromisoformat(day).toordinal() for day in ("2019-03-01", "2020-03-01", "1066-10-14")]
    cells = inference.year_cell(np.array([*days, np.nan]))
    assert cells.tolist() == [2019 - 1850, 2020 - 1850, inference.YEARS - 1, inference.YEARS - 1]
    counts = np.zeros(inference.YEARS)
    counts[[169, 170]] = 500
    recent: Any
    recent, _ = inference.day(counts, STD, ColumnKind(cells="date"), {"": 200.0}, rows=1200)
    assert recent.bounds == (datetime.date(2018, 1, 1), datetime.date(2021, 12, 31)) and recent.unknown == "missing"
    thin = np.zeros(inference.YEARS)
    thin[70:150] = 30  # births: no year is clear, every decade is
    spread: Any
    spread, _ = inference.day(thin, STD, ColumnKind(cells="date"), {}, rows=2400)
    assert spread.bounds[0].year <= 1920 and spread.bounds[1].year >= 1999 and spread.size < 200 * 366
    assert spread.out_of_range == "missing"
    none: Any
    none, _ = inference.day(np.zeros(inference.YEARS), STD, ColumnKind(cells="date"), {}, rows=100)
    assert none.bounds == (datetime.date(1850, 1, 1), datetime.date(2109, 12, 31))


def test_levels_of_booleans_and_of_mixed_columns() -> None:
    make = partial(inference.levels, {"true": 60.0, "false": 40.0}, {}, 0.0, 1.0, ColumnKind(cells="boolean"), rows=100)
    boolean: Any = make()
    assert boolean.levels == (False, True) and boolean.unknown == "missing" and boolean.missing is True
    target: Any = make(target=True)
    assert target.unknown is True and not target.missing
    mixed: Any = inference.levels({"1": 50.0, "2": 40.0, "3+": 10.0}, {}, 0.0, 1.0, ColumnKind(cells="whole"), rows=100)
    assert mixed.levels == ("1", "2", "3+")
    assert inference.levels({"1": 50.0}, {}, 50.0, 1.0, ColumnKind(cells="whole"), rows=100) is None


READ: dict[str, tuple[tuple[Any, ...], dict[str, object]]] = {  # what becomes of cells that are not levels
    "few whole numbers": ((0, 1, 3), {"2": 1, "2.4": 3, "5": 3, "-9": "", "99": "", "13": "", "x": "", "inf": ""}),
    "zero and one": ((0, 1), {"2": 1, "0.2": 0, "9": "", "-1": "", "#VALUE!": "", "1e308": "", "true": ""}),
    "negative numbers": ((-2, -1, 0, 1), {"-3": -2, "-9": "", "5": "", "4": 1}),
    "halves": (("0.5", "1.0", "1.5"), {"2": "1.5", "0.7": "0.5", "77": "", "<1": ""}),
    "numbers and words": (("1", "2", "3a"), {"3": "2", "99": "", "3b": ""}),
    "booleans": ((False, True), {"yes": "", "1": "", "0": "", "TRUE": True}),
    "words": (("no", "yes"), {"maybe": "", "1": ""}),
    "a level called missing": (("here", "missing"), {"x": "missing", "5": "missing"}),
}


@pytest.mark.parametrize("name", READ)
def test_cells_that_are_not_levels_are_missing_or_the_nearest_number(name: str) -> None:
    levels, read = READ[name]
    column = Categorical(levels=levels, missing=("", "NA"), unknown="missing")
    codes = column.read(np.array([*read, *map(str, levels)], dtype=object)).codes
    assert [*codes] == [*((*levels, "").index(value) for value in read.values()), *range(len(levels))]


def test_unknown_levels_are_missing_only_where_that_may_be() -> None:
    with pytest.raises(ValueError, match="needs `missing: true`"):
        Categorical(levels=("a", "b"), unknown="missing")


def test_usual_codes_far_outside_the_bounds_are_missing_and_never_clipped() -> None:
    age: Any = {"kind": "count", "bounds": (0, 130), "missing": True}
    texts = np.array(["-9", "999", "-1.0", "99", "131", "1000", "-3"], dtype=object)
    assert [*Count(**age, unknown="missing").read(texts).codes] == [131, 131, 131, 99, 130, 130, 0]
    assert [*Count(**age, unknown=5).read(texts).codes] == [0, 130, 0, 99, 130, 130, 0]


COLUMNS: dict[str, Any] = {
    "count": {"kind": "count", "bounds": [0, 9], "unknown": 3},
    "dose": {"kind": "continuous", "bounds": [0, 9], "decimals": 1, "missing": True, "unknown": "missing"},
    "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "unknown": "2020-01-03"},
    "word": {"kind": "binary", "levels": ["a", "b"], "unknown": "b"},
}


def test_unknown_is_what_an_unreadable_cell_is_read_as() -> None:
    schema = Schema.from_dict({"name": "t", "columns": COLUMNS})
    assert Schema.from_yaml(schema.to_yaml()) == schema
    frame = pd.DataFrame({"count": ["5", "x", ""], "dose": ["1.5", "x", ""], "day": ["2020-01-02", "x", ""],
                          "word": ["a", "x", ""]})  # fmt: skip
    assert encode(from_frame(frame), schema).T.tolist() == [[5, 3, 3], [15, 91, 91], [1, 2, 2], [0, 1, 1]]
    for cell in ("inf", "1e999", "1e308"):
        encode(from_frame(frame.assign(count=["5", cell, "1"], dose=["5", cell, "1"])), schema)


def test_bounds_that_are_errors_stay_errors_beside_unknown() -> None:
    schema = Schema.from_dict({"name": "t", "columns": {"x": {**COLUMNS["count"], "out_of_range": "error"}}})
    with pytest.raises(SchemaError, match="outside"):
        encode(from_frame(pd.DataFrame({"x": ["5", "77"]})), schema)


@pytest.mark.parametrize(
    ("name", "unknown"),
    [("count", 10), ("count", "missing"), ("count", "x"), ("count", "2020-01-01"), ("dose", float("inf")),
     ("day", 5), ("day", "2021-01-01"), ("dose", 9.2)],
)  # fmt: skip
def test_what_cannot_be_unknown(name: str, unknown: Any) -> None:
    with pytest.raises(SchemaError):
        Schema.from_dict({"name": "t", "columns": {"x": {**COLUMNS[name], "unknown": unknown}}})


@pytest.mark.nightly_for(*map(str, range(10, 40)))
@pytest.mark.parametrize("seed", range(40))
def test_a_column_can_be_made_of_any_noisy_counts(seed: int) -> None:
    """Whatever the noise shows after it was paid for, a column comes of it, and none of its codes is a value."""
    draw = np.random.default_rng(seed)
    words = ["hemolysed", "0", "0.5", "1", "1.0", "99", "-9", "888.8", "999999", "1e308", "-0.001", "0.69", "12", "50",
             "07", "1_0", "other", "+3", "5."]  # fmt: skip
    for _ in range(25):
        std = float(draw.choice([1.0, 20.0, 200.0]))
        counts = draw.normal(0, std, magnitudes.MAGNITUDES)
        some = draw.integers(0, magnitudes.MAGNITUDES, draw.integers(0, 8))
        counts[some] += draw.exponential(500, len(some))
        levels = {str(word): float(draw.exponential(300)) for word in draw.choice(words, draw.integers(0, 6))}
        for level, count in levels.items():
            if level not in ("hemolysed", "other"):
                counts[magnitudes.magnitude_cell(np.array([float(level)]))] += count
        kind = ColumnKind(cells="decimal", pointed=bool(draw.random() < 0.5), words=bool(draw.random() < 0.2))
        digits = draw.normal(0, std, magnitudes.digit_cells(mixed=False)) + draw.exponential(300, 13)
        codes = {str(code): float(draw.exponential(200)) for code in draw.choice(["-9", "999", "99", "", "?"], 2)}
        for decimals in (None, digits):
            found, _ = inference.number(counts, std, decimals, kind, codes, rows=2000, levels=levels)
            assert found.size >= 1
        years = draw.normal(0, std, inference.YEARS)
        years[draw.integers(0, inference.YEARS, 3)] += draw.exponential(500, 3)
        days = {str(day): float(draw.exponential(300)) for day in draw.choice(["1900-01-01", "9999-12-31", "open"], 2)}
        found, _ = inference.day(years, std, ColumnKind(cells="date", form="%Y-%m-%d"), codes, days, rows=2000)
        assert found.size >= 2


def test_decimals_far_from_zero_are_as_many_as_floats_hold() -> None:
    """Numbers of a billion or more are clipped to a billion, and their decimals are those that were counted."""
    counts, digits = np.zeros(magnitudes.MAGNITUDES), np.zeros(magnitudes.digit_cells(mixed=False))
    counts[-2], digits[12] = 400, 1000
    for more in (0, 600):  # these beyond, and others near
        counts[magnitudes.magnitude_cell(np.array([9e8]))] = more
        assert inference.number(counts, 5.0, digits, ColumnKind(cells="decimal"), {}, rows=1000)[0].size >= 1


@pytest.mark.parametrize(("kept", "cells", "classes"), [
    ({"1": 900.0}, "whole", True),  # two rare classes are lost, and stay classes
    ({"0": 400.0, "1": 300.0, "2": 150.0}, "whole", True),
    ({str(k): 100.0 for k in range(7)}, "whole", False),  # a score up to ten, of which few have more than six
    ({f"6.{k}": 80.0 for k in range(9)}, "decimal", False),
    ({"0.5": 500.0, "1.5": 200.0}, "decimal", False),
    ({"0.5": 600.0, "1.5": 380.0}, "decimal", True),
])  # fmt: skip
def test_a_target_of_numbers_keeps_them(kept: dict[str, float], cells: str, classes: bool) -> None:
    """Its values of few rows do not become a class called "other"."""
    kind: Any = ColumnKind(cells=cells, short=cells == "decimal")  # type: ignore[arg-type]
    found = inference.levels(kept, {}, 1000 - sum(kept.values()), 5.0, kind, rows=1000, target=True)
    assert (found is not None) == classes


def test_levels_of_any_numbers_make_a_column() -> None:
    """A level that a float cannot hold, such as 7e400, is written as it was."""
    for pointed in (False, True):
        kind = ColumnKind(cells="decimal", short=True, pointed=pointed)
        kept = {"7e400": 60.0, "1": 20.0, "0.5": 10.0, "1e308": 10.0}
        column: Any = inference.levels(kept, {}, 0.0, 5.0, kind, rows=100)
        assert {"7e400", "1e308", "0.5"} <= set(column.levels)
