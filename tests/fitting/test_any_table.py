"""A matrix of what real files hold: each kind of column in each kind of file, read without a schema.

The noise is small and its seed is fixed, so that no case fails by chance. A column's cells are encoded by the learned
schema and decoded again: what comes back is what a perfect generator would draw.
"""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from open_tables import queries as bare_queries
from open_tables import raw_vault

from medsynth.io.reader import read
from medsynth.io.table import Table, from_frame, is_number
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.release import Releases
from medsynth.rng import SeededEntropy
from medsynth.schema.codec import csv_cells, encode
from medsynth.schema.learned import Learned

N = 2000
Texts = np.ndarray[Any, np.dtype[np.object_]]


class Case(NamedTuple):
    """A column: its texts by a random generator, and what must be learned.

    Attributes:
        texts: N cells of text.
        kind: The kind of the learned column.
        gaps: Codes that are read as missing values, and come back as such.
        same: The least share of cells that come back as they were.
        most: What the upper bound does not exceed.
        typed: Whether the same is asked of files whose columns have types.
    """

    texts: Callable[[np.random.Generator], Any]
    kind: str = "continuous"
    gaps: tuple[str, ...] = ()
    same: float = 0.99
    most: float = np.inf
    typed: bool = True


def some(values: Any, code: str, share: float, draw: np.random.Generator) -> Texts:
    """Cells of which a share is replaced by a code."""
    return np.where(draw.random(N) < share, code, np.array(values, dtype=object))


def one_decimal(draw: np.random.Generator, mean: float = 140.0, spread: float = 4.0) -> list[str]:
    return [f"{x:.1f}" for x in draw.normal(mean, spread, N)]


def whole(draw: np.random.Generator, low: int = 30, high: int = 90) -> list[str]:
    return [str(x) for x in draw.integers(low, high, N)]


def fine(draw: np.random.Generator, scale: float = 1.0) -> list[str]:
    return [f"{scale * x:.4f}" for x in draw.lognormal(0, 0.5, N)]


def days(draw: np.random.Generator, form: str, first: str = "2019-03-01", count: int = 700) -> list[str]:
    return [day.strftime(form) for day in pd.Timestamp(first) + pd.to_timedelta(draw.integers(0, count, N), unit="D")]


def moments(draw: np.random.Generator, form: str) -> list[str]:
    minutes = pd.to_timedelta(draw.integers(1, 700 * 1440, N), unit="min")
    return [moment.strftime(form) for moment in pd.Timestamp("2019-03-01") + minutes]


def few(values: str, draw: np.random.Generator) -> Texts:
    words = values.split()
    return np.asarray(draw.choice(words, N, p=np.arange(len(words), 0, -1) / sum(range(1, len(words) + 1))), object)


def iso_days(draw: np.random.Generator) -> list[str]:
    return days(draw, "%Y-%m-%d")


def with_code(values: Callable[[np.random.Generator], Any], code: str, share: float) -> Callable[..., Any]:
    return lambda draw: some(values(draw), code, share, draw)


FAR_DECIMALS = ["-9999.9", "999999", "888.8", "9998.5", "-999.9", "99999.99"]
FAR_WHOLES = ["999999", "-32768", "65535", "9998", "-9997", "2147483647"]
FAR_DAYS = ["9999-12-31", "1900-01-01", "1899-12-30", "2999-12-31", "1753-01-01", "0001-01-01", "2099-12-31"]
WORDS = ["#VALUE!", "hemolysed", "ongoing", "inf", "-inf", "clotted", "see note", "#DIV/0!", "TNP", "<LLOQ"]
FORMS = [
    "%-d.%-m.%Y",
    "%-d/%-m/%Y",
    "%-m/%-d/%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%Y-%m-%d 00:00:00",
    "%Y-%m-%d 00:00:00.000",
    "%Y-%m-%d",
    "%Y%m%d",
    "%d.%m.%Y",
]
DECLARED = ["%Y-%-m-%-d", "%Y/%m/%d", "%d.%m.%y", "%d-%m-%Y", "%d-%b-%Y", "%d %b %Y"]  # never learned
TIMED = [
    "%-m/%-d/%Y %H:%M",
    "%d/%m/%Y %H:%M",
    "%H:%M",
    "%H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%d.%m.%Y %H:%M",
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%d %H:%M:%S.000",
    "%Y-%m-%dT%H:%M:%S.000",
    "%Y-%m-%dT%H:%M:%S.000Z",
]

CASES: dict[str, Case] = {
    **{f"decimals with {code}": Case(with_code(one_decimal, code, 0.08), gaps=(code,), most=400)
       for code in FAR_DECIMALS},
    **{f"whole numbers with {code}": Case(with_code(whole, code, 0.08), "count", (code,), most=400)
       for code in FAR_WHOLES},
    **{f"fine numbers with {code}": Case(with_code(fine, code, 0.08), gaps=(code,), most=60, same=0.98)
       for code in ("9999", "-555", "888888")},
    **{f"days with {code}": Case(with_code(iso_days, code, 0.08), "date", (code,))
       for code in FAR_DAYS},
    **{f"decimals with {word}": Case(with_code(one_decimal, word, 0.07), gaps=(word,), most=400)
       for word in WORDS},
    **{f"whole numbers with {word}": Case(with_code(whole, word, 0.07), "count", (word,))
       for word in WORDS[:4]},
    **{f"days with {word}": Case(with_code(iso_days, word, 0.07), "date", (word,))
       for word in ("open", "TBD")},
    **{f"days as {form}": Case(partial(days, form=form), "date") for form in FORMS},
    **{f"moments as {form}": Case(partial(moments, form=form), "date") for form in TIMED},
    **{f"periods as {form}": Case(partial(days, form=form), "categorical") for form in ("%Y-%m", "%G-W%V", "%b %Y")},
    **{f"days as {form}": Case(partial(days, form=form), "categorical", same=0.0) for form in DECLARED},
    "two far codes": Case(lambda d: some(some(one_decimal(d), "888.8", 0.08, d), "999.9", 0.08, d),
                          gaps=("888.8", "999.9"), most=400),
    "rare words of many kinds": Case(lambda d: np.where(d.random(N) < 0.08, [f"note {k}" for k in range(N)],
                                                        np.array(one_decimal(d), dtype=object)), gaps=("",), same=0.9),
    **{f"{kind} with a rare {word!r}": Case(with_code(values, word, 0.003), kind, same=0.99)
       for word in WORDS for kind, values in (("continuous", one_decimal), ("count", whole), ("date", iso_days))},
    **{f"{kind} {values} with a rare {word!r}": Case(with_code(partial(few, values), word, 0.003), kind, same=0.99)
       for word in WORDS for kind, values in (
           ("binary", "0 1"), ("categorical", "1 2 3 4"), ("ordinal", "0.5 1.0 1.5"), ("binary", "True False"),
           ("ordinal", "08:00 14:00 20:00"))},
    **{f"{kind} {values} with {word!r}": Case(with_code(partial(few, values), word, 0.07), kind, (word,))
       for word in ("#VALUE!", "hemolysed") for kind, values in (
           ("binary", "0 1"), ("categorical", "1 2 3 4"), ("ordinal", "0.5 1.0 1.5"), ("binary", "True False"),
           ("ordinal", "08:00 14:00 20:00"))},
    "stages with letters": Case(partial(few, "1 2 3a 3b"), "categorical"),
    "a rare nine among zero and one": Case(with_code(partial(few, "0 1"), "9", 0.0005), "binary"),
    "concentrations of 1e-8": Case(lambda d: [f"{x:.2e}" for x in d.lognormal(-18, 0.5, N)], same=0.0, most=1e-6),
    "concentrations of 1e-4": Case(lambda d: [f"{x:.7f}" for x in d.lognormal(-9, 0.5, N)], most=1e-2),
    "two decimals, zeros kept": Case(lambda d: [f"{x:.2f}" for x in d.normal(5, 1, N)]),
    "one decimal, zeros kept": Case(lambda d: one_decimal(d, 37.0, 0.5)),
    "decimals, zeros dropped": Case(lambda d: [f"{x:.1f}".removesuffix(".0") for x in d.normal(37, 1, N)]),
    "three decimals, zeros kept": Case(lambda d: [f"{x:.3f}" for x in d.normal(5, 1, N)]),
    "whole numbers with a point": Case(lambda d: [f"{x}.0" for x in d.integers(30, 90, N)], "count"),
    "zero spike": Case(lambda d: some(whole(d, 0, 900), "0", 0.08, d), "count"),
    "zero spike among fine numbers": Case(lambda d: some(fine(d), "0", 0.08, d), same=0.9, typed=False),
    "changes around zero": Case(lambda d: [f"{x:.1f}" for x in d.normal(0, 12, N)]),
    "negative numbers": Case(lambda d: [f"{x:.1f}" for x in d.normal(-60, 9, N)]),
    "heavy tail": Case(lambda d: [f"{x:.0f}" for x in d.lognormal(4, 1.5, N)], "count", same=0.97),
    "ages with months": Case(lambda d: np.where(d.random(N) < 0.2, [f"{k % 23 / 12:.2f}" for k in range(N)],
                                                np.array(whole(d), dtype=object)), same=0.95),
    "zero and one": Case(lambda d: d.choice(["0", "1"], N, p=[0.93, 0.07]), "binary"),
    "zero and one with a rare code": Case(lambda d: some(d.choice(["0", "1"], N), "-9", 0.06, d), "categorical"),
    "scores of four": Case(lambda d: d.choice(["1", "2", "3", "4"], N, p=[0.4, 0.3, 0.2, 0.1]), "categorical"),
    "halves": Case(lambda d: d.choice(["0.5", "1.0", "1.5"], N), "ordinal"),
    "yes and no": Case(lambda d: d.choice(["yes", "no"], N), "binary"),
    "True and False": Case(lambda d: d.choice(["True", "False"], N), "binary"),
    "words with blanks": Case(lambda d: d.choice(["mild pain", "no pain", "severe pain"], N), "categorical"),
    "words in other alphabets": Case(lambda d: d.choice(["жен", "муж", "näk"], N), "categorical"),
    "codes with zeros in front": Case(lambda d: d.choice(["007", "011", "120"], N), "categorical", typed=False),
    "empty cells": Case(lambda d: some(one_decimal(d), "", 0.2, d), gaps=("",)),
    "NA": Case(lambda d: some(whole(d), "NA", 0.2, d), "count", ("NA",), typed=False),
    "nothing": Case(lambda d: np.full(N, ""), "categorical", same=0.0),
    "one value": Case(lambda d: np.full(N, "1"), "categorical", same=0.0),
    "free text": Case(lambda d: [f"patient {k} came in with a cough and some fever since {k} days" for k in range(N)],
                      "categorical", same=0.0),
}  # fmt: skip


def as_csv(frame: pd.DataFrame, folder: Path) -> Table:
    frame.to_csv(folder / "t.csv", index=False)
    return read(folder / "t.csv")


def as_semicolons(frame: pd.DataFrame, folder: Path) -> Table:
    frame.to_csv(folder / "t.csv", index=False, sep=";")
    return read(folder / "t.csv")


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(frame.to_csv(index=False)))


def as_parquet(frame: pd.DataFrame, folder: Path) -> Table:
    typed(frame).to_parquet(folder / "t.parquet")
    return read(folder / "t.parquet")


def as_frame(frame: pd.DataFrame, folder: Path) -> Table:
    return from_frame(typed(frame))


FILES = {"csv": as_csv, "semicolons": as_semicolons, "parquet": as_parquet, "frame": as_frame}
INPUTS = [(name, file) for name, case in CASES.items() for file in FILES if case.typed or "r" not in file[:2]]


def table_of(names: list[str]) -> pd.DataFrame:
    draw = np.random.default_rng(11)
    columns = {"age": whole(draw), **{f"x{k}": CASES[name].texts(draw) for k, name in enumerate(names)}}
    return pd.DataFrame({**columns, "label": draw.choice(["ill", "well"], N)}).astype(object)


def learn(table: Table) -> Learned:
    """The schema at a budget under which noise is small; the seed is fixed."""
    plan = make_plan(bare_queries(), epsilon=20.0, delta=1e-5, rows=table.rows)
    releases = Releases(plan.ledger("t"), SeededEntropy(0))
    return raw_vault(table, table.rows, releases, "label").measure_schema()


def plain(text: str) -> str:
    return repr(float(text)) if is_number(text) else text


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "file"), INPUTS, ids=lambda word: str(word))
def test_a_column_comes_back(name: str, file: str, tmp_path: Path) -> None:
    case = CASES[name]
    table = FILES[file](table_of([name]), tmp_path)
    schema = learn(table).schema
    column = schema.columns["x0"]
    assert column.kind == case.kind, column
    if file in ("csv", "semicolons"):
        assert set(case.gaps) <= set(column.gap_words), column
    if isinstance(bounds := column.to_dict().get("bounds"), list) and isinstance(bounds[1], float | int):
        assert bounds[1] <= case.most
    again = csv_cells(encode(table, schema), schema)["x0"]
    real = table.cells["x0"]
    # However rare a word is, it is missing, and no value is invented for it.
    words = real.isin(WORDS)
    if not column.categorical:
        words |= ~real.map(is_number) if column.kind != "date" else ~real.str.match(r"\d")
    assert set(again[words]) <= set(column.gap_words)
    if file in ("parquet", "frame"):  # Their cells are numbers: 1.0 is 1.
        again, real = again.map(plain), real.map(plain)
    assert (again == real).mean() >= case.same
