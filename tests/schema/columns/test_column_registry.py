"""A kind of column is one class: what a test registers alone is read, coded, modelled, sampled and described."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.errors import SchemaError
from medsynth.io.table import from_frame
from medsynth.report.sections.plausibility import plausibility
from medsynth.schema import Schema
from medsynth.schema.codec import csv_cells, decode, encode
from medsynth.schema.columns.column import Column, Description, Reading
from medsynth.schema.columns.number import Quantity
from medsynth.schema.columns.registry import KINDS, register


class Clock(Quantity):
    """A time of day to the minute, such as 07:45."""

    kind: Literal["clock"] = "clock"
    bounds: ClassVar[tuple[int, int]] = (0, 24 * 60 - 1)
    scale: ClassVar[Literal["linear"]] = "linear"

    @property
    def units(self) -> tuple[int, int]:
        """Minutes after midnight."""
        return self.bounds

    def read_values(self, texts: Any) -> Reading:
        """Minutes after midnight."""
        parts = [text.split(":") for text in texts]
        return self.coded(np.array([60 * int(p[0]) + int(p[1]) if len(p) == 2 else np.nan for p in parts], float))

    def decode_values(self, codes: Any, related: Any, dtype: Any) -> pd.Series:
        """Texts."""
        words = pd.Series([self.value_text(int(code)) for code in codes], dtype=object)
        return words.mask(codes >= self.size, None)

    def value_text(self, code: Any) -> str:
        """A time as a text."""
        return f"{code // 60:02}:{code % 60:02}"

    def cell_values(self, cells: Any) -> Any:
        """Minutes after midnight."""
        return np.array([60 * int(cell[:2]) + int(cell[3:]) for cell in cells], float)

    def compared(self, cells: Any) -> pd.Series:
        """Hours."""
        return pd.Series(self.cell_values(cells) / 60, index=cells.index)

    def validate_cells(self, cells: Any) -> Any:
        """Nothing to break."""
        return {}

    def describe(self) -> Description:
        """In words."""
        return Description("a time of day", self.describe_missing(), "minutes")


@pytest.fixture
def clock() -> Iterator[Any]:
    register(Clock)
    yield Clock
    del KINDS["clock"]


COLUMNS: Mapping[str, object] = {
    "taken": {"kind": "clock"},
    "age": {"kind": "count", "bounds": [0, 99]},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
}


def declared() -> Any:
    return Schema.from_dict({"name": "t", "target": "sick", "columns": COLUMNS, "rules": ["taken < 1200"]})


def visits(rows: int = 400) -> Any:
    rng = np.random.default_rng(0)
    minutes = rng.integers(300, 1100, rows)
    return pd.DataFrame({
        "taken": [f"{m // 60:02}:{m % 60:02}" for m in minutes],
        "age": rng.integers(0, 99, rows),
        "sick": np.where(rng.random(rows) < 0.5, "yes", "no"),
    })  # fmt: skip


def test_a_kind_comes_by_its_registration_alone(clock: Any, quick: None) -> None:
    schema, frame = declared(), visits()
    assert Schema.from_yaml(schema.to_yaml()) == schema
    codes = encode(from_frame(frame), schema.core)
    assert csv_cells(codes, schema.core)["taken"].tolist() == frame["taken"].tolist()
    assert decode(codes, schema.core)["taken"].tolist() == frame["taken"].tolist()
    model = medsynth.fit(frame, epsilon=5, schema=schema, rows=400)
    drawn = medsynth.sample(model, 200, where=["taken=600..660"])
    assert drawn["taken"].between("10:00", "11:00").all()
    assert plausibility(schema, None, from_frame(drawn).cells).broken == 0
    with pytest.raises(SchemaError, match="'taken', row 2: not a number"):
        encode(from_frame(frame.assign(taken=["07:45", "noon", *frame["taken"][2:]])), schema.core)


def test_an_unknown_kind_is_one_error_that_names_the_known_ones() -> None:
    with pytest.raises(
        SchemaError, match="columns.taken: there is no kind 'clock'; the kinds are: binary, categorical"
    ):
        declared()
    for content, message in (("count", "mapping with a kind"), ({"kind": ["count"]}, "no kind")):
        with pytest.raises(SchemaError, match=rf"columns\.x: .*{message}"):
            Schema.from_dict({"name": "t", "columns": {"x": content}})


def test_what_is_wrong_inside_a_column_is_named_by_its_place() -> None:
    with pytest.raises(SchemaError, match=r"columns\.x\.shape: Input should be a valid string"):
        Schema.from_dict({"name": "t", "columns": {"x": {"kind": "identifier", "shape": 3}}})


def test_every_kind_declares_its_facts() -> None:
    from medsynth.schema import Binary, Categorical, Continuous, Count, Date, Identifier

    examples: list[Column] = [
        Binary(levels=(0, 1)),
        Categorical(levels=("a", "b", "c")),
        Categorical(kind="ordinal", levels=("a", "b")),
        Continuous(bounds=(0, 1), decimals=2),
        Count(bounds=(3, 9)),
        Date(bounds=("2020-01-01", "2020-12-31")),
        Identifier(),
    ]
    for column in examples:
        low, high = column.units
        assert high - low + 1 == column.size and column.gaps == 0
        assert column.categorical == bool(column.levels) and column.scale == "linear"
        assert column.modelled == column.may_be_target == (column.kind != "identifier")
        assert len(column.bounds) == 2 and isinstance(column.describe(), Description)
        assert column.places == (2 if column.kind == "continuous" else 0)
        assert column.ordered == (column.kind in ("ordinal", "continuous", "count", "date"))


def test_no_other_room_asks_for_a_kind() -> None:
    """What a kind means is in its class: no ladder of kinds stands anywhere else."""
    kinds = "Binary|Categorical|Continuous|Count|Date|Identifier"
    ladder = re.compile(rf"isinstance\([^\n]*\b({kinds})\b|case ({kinds})\(|columns?(\[\w+\])?\.kind (==|!=|in) ")
    rooms = Path(medsynth.__file__).parent
    others = [path for path in rooms.rglob("*.py") if path.parent.name != "columns"]
    found = {path.name for path in others if ladder.search(path.read_text())}
    assert len(others) > 50 and found <= {
        "charts.py",
        "facts.py",
    }  # of the report's columns; types in the words of other formats
