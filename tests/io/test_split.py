"""The hold-out: drawn in secret, anew each time."""

from pathlib import Path

import pandas as pd
import pytest

from medsynth.io.split import split
from medsynth.io.table import read


@pytest.mark.statistical
def test_who_is_held_out_is_drawn_anew_each_time(tmp_path: Path) -> None:
    """Whoever could repeat the draw would know who was trained on. Two draws agree with a chance of 2^-200."""
    path = tmp_path / "t.csv"
    pd.DataFrame({"key": range(200), "y": ["a", "b"] * 100}).to_csv(path, index=False)
    held = []
    for k in range(2):
        _, out = split(read(path), 0.5, tmp_path / f"train{k}.csv", tmp_path / f"held{k}.csv", force=False)
        held.append(set(out.cells["key"]))
    assert held[0] != held[1] and held[0] & held[1]
