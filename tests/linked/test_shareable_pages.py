"""Pages on several tables: shareable without any real row, and written whatever a real column holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pandas as pd
import pytest

import medsynth
from medsynth.errors import SchemaError
from medsynth.report.build import INTERNAL, build
from medsynth.report.several_tables import reports

from .conftest import simulated

Frames = dict[str, pd.DataFrame]


def texts(frames: Frames) -> Frames:
    """The cells of tables as texts, in no index's order."""
    gone = {"NaT": "", "nan": "", "None": ""}
    return {name: frame.astype(str).replace(gone).reset_index(drop=True) for name, frame in frames.items()}


def real_rows(letter: str, seed: int) -> Frames:
    """Tables of other patients."""
    return texts({n: f.replace({f"K{k}": f"{letter}{k}" for k in range(300)}) for n, f in simulated(150, seed).items()})


@pytest.mark.nightly
def test_pages_are_internal_with_any_real_rows(
    model: medsynth.Model, drawn: Frames, some_sections: Callable[..., None]
) -> None:
    """Held-out rows or training rows, each by itself or both: all pages of a folder are of one kind."""
    some_sections("tables", "source")
    synthetic = texts({name: frame.head(400) for name, frame in drawn.items()})
    for real, train in itertools.product((None, real_rows("H", 9)), (None, real_rows("T", 8))):
        pages = reports(model, synthetic, real, train, make=partial(build, drawn_by_model=True))
        any_real = real is not None or train is not None
        assert len(pages) == 3
        assert all(report.shareable is not any_real for report in pages.values())
        assert all((report.banner == INTERNAL) is any_real for report in pages.values())


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.usefixtures("few_trees")
def test_odd_columns_of_several_tables(model: medsynth.Model, drawn: Frames) -> None:
    """Columns without a value. An infinity is refused as a fit refuses it: the error names the row, and the cure."""
    synthetic = texts({name: frame.head(400) for name, frame in drawn.items()})
    held, train = real_rows("H", 9), real_rows("T", 8)
    held["patients"]["height"] = ""
    train["tests"]["done"] = ""
    pages = reports(model, synthetic, held, train, make=partial(build, drawn_by_model=True))
    assert list(pages) == ["", "stays", "tests"]
    held["tests"].loc[3, "value"] = "inf"
    with pytest.raises(SchemaError, match="column 'value', row 4: not a number. Correct the cell"):
        reports(model, synthetic, held, make=partial(build, drawn_by_model=True))
