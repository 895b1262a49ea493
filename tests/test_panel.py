"""The panel's own figures: total variation against a written-out oracle, grids that lose no code, runs that resume."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.schema import Schema
from tests.benchmarks import common, panel
from tests.benchmarks.bins import coded, decoded, grids, with_cut_points
from tests.benchmarks.figures import TRIPLES, groups, propensity, similarity
from tests.benchmarks.inside import mirror_descent

SCHEMA = Schema.from_dict(
    {
        "name": "panel",
        "target": "ill",
        "columns": {
            "age": {"kind": "continuous", "bounds": [0, 100], "decimals": 1},
            "dose": {"kind": "continuous", "bounds": [0, 500], "decimals": 2, "scale": "log", "missing": True},
            "visits": {"kind": "count", "bounds": [0, 6]},
            "ill": {"kind": "binary", "levels": ["no", "yes"]},
        },
    }
)


def rows(seed: int, count: int = 400) -> pd.DataFrame:
    """Skewed rows of the schema."""
    rng = np.random.default_rng(seed)
    dose = np.round(np.minimum(rng.lognormal(1, 1, count), 500), 2)
    dose[rng.random(count) < 0.2] = np.nan
    age, visits = np.round(rng.beta(2, 5, count) * 100, 1), rng.integers(0, 7, count)
    return pd.DataFrame({"age": age, "dose": dose, "visits": visits, "ill": np.where(age > 40, "yes", "no")})


def test_similarity_is_one_less_total_variation() -> None:
    rng = np.random.default_rng(0)
    tables = [rng.integers(0, 4, (90, 5)), rng.integers(0, 3, (70, 5))]
    for order in (1, 2, 3):
        wanted = []
        for group in itertools.combinations(range(5), order):
            seen = [Counter(tuple(row[k] for k in group) for row in table.tolist()) for table in tables]
            cells = set(seen[0]) | set(seen[1])
            wanted.append(1 - sum(abs(seen[0][c] / 90 - seen[1][c] / 70) for c in cells) / 2)
        assert similarity(tables[0], tables[1], groups(5, order)) == pytest.approx(np.mean(wanted), abs=1e-12)


def test_the_same_table_scores_one_and_a_disjoint_one_nothing() -> None:
    one = np.zeros((10, 3), np.int64)
    assert similarity(one, one, groups(3, 2)) == 1
    assert similarity(one, one + 1, groups(3, 2)) == 0


def test_triples_are_the_same_for_all_tools() -> None:
    assert len(groups(30, 3)) == TRIPLES == len(set(groups(30, 3)))
    assert groups(30, 3) == groups(30, 3)


@pytest.mark.parametrize("quantiles", [False, True])
def test_codes_come_back_from_values(quantiles: bool) -> None:
    train = rows(0)
    by = grids(SCHEMA, train if quantiles else None)
    codes = coded(train, by)
    made = decoded(codes, by, np.random.default_rng(1))
    pd.testing.assert_frame_equal(coded(made, by), codes)
    assert all(codes[name].between(0, grid.size - 1).all() for name, grid in by.items())
    assert made["age"].between(0, 100).all() and made["dose"].dropna().between(0, 500).all()
    assert (made["dose"].isna() == train["dose"].isna()).all() and (made["visits"] == train["visits"]).all()


def test_the_public_grid_is_the_same_whatever_the_rows_are() -> None:
    assert np.allclose(grids(SCHEMA)["age"].edges, np.arange(21) * 1001 / 20)
    by = grids(SCHEMA, rows(0))["age"]
    shares = np.bincount(by.codes(rows(0)["age"]), minlength=by.size) / 400
    assert by.size == 20 and shares.max() < 0.08


def test_cut_points_of_a_schema_are_the_edges_of_the_public_grid() -> None:
    """Values fall into the same parts by the schema's cut points as by the grid's bins, on both scales."""
    known, frame = with_cut_points(SCHEMA), rows(5)
    for name, grid in grids(SCHEMA).items():
        if name in ("visits", "ill"):  # of few values, each of which is a bin
            assert known.columns[name] == SCHEMA.columns[name]
            continue
        cuts = known.columns[name].cut_codes
        values = frame[name].dropna()
        codes = np.rint(values / grid.step).astype(int).to_numpy() - grid.low
        bins = grid.codes(values)
        parts = np.searchsorted(np.array(cuts), codes, side="right")
        assert len(cuts) > 10
        assert len({*zip(parts, bins, strict=True)}) == len({*parts}) == len({*bins})


def test_ten_bins_are_each_two_of_the_twenty_and_others_are_not() -> None:
    table = rows(8, 3000)
    twenty, ten, fifteen = (coded(table, grids(SCHEMA, bins=bins)) for bins in (20, 10, 15))
    for name in ("age", "dose"):
        seen = table[name].notna()
        assert (ten[name][seen] == twenty[name][seen] // 2).all()
        assert fifteen.groupby(twenty[name])[name].nunique().max() > 1  # some of the twenty lie in two of the fifteen
        assert 10 <= fifteen[name][seen].max() <= 14


def test_rows_spread_over_bins_are_right_in_those_bins_and_not_in_others() -> None:
    """What `panel --bins` measures: a tool that knows a lumpy column by its bins alone scores one there alone."""
    rng = np.random.default_rng(9)
    table = rows(9, 4000).assign(age=rng.choice([4.5, 19.5, 24.8, 39.9, 55.2, 79.9], 4000))
    by = grids(SCHEMA)
    spread = decoded(coded(table, by), by, rng)
    found = {bins: (one, two) for bins, one, two in panel.similarities(table, spread, SCHEMA)}
    assert list(found) == list(panel.BINS)
    assert found[20] == found[10] == (1.0, 1.0)
    assert max(found[17] + found[23]) < 0.96


def test_a_level_that_is_not_declared_is_refused() -> None:
    with pytest.raises(ValueError, match="not declared"):
        coded(rows(0).replace({"ill": {"yes": "perhaps"}}), grids(SCHEMA))


def given(tmp_path: Path, **more: Any) -> Any:
    """Arguments of the panel."""
    return SimpleNamespace(tables=["clinic-4k"], methods=["bootstrap"], epsilons=[1.0, 3.7], runs=1, own_runs=2,
                           data=None, environments=tmp_path, cap=1.0, **more)  # fmt: skip


def test_a_bootstrap_has_no_epsilon_and_the_first_runs_come_first(tmp_path: Path) -> None:
    wanted = given(tmp_path)
    assert panel.jobs(wanted) == [("clinic-4k", "bootstrap", 0.0, 0), ("clinic-4k", "bootstrap", 0.0, 1)]
    wanted.methods = ["medsynth", "pgm-aim"]
    assert [job[1:] for job in panel.jobs(wanted)] == [
        ("medsynth", 1.0, 0), ("pgm-aim", 1.0, 0), ("medsynth", 3.7, 0), ("pgm-aim", 3.7, 0), ("medsynth", 1.0, 1),
        ("medsynth", 3.7, 1)]  # fmt: skip


def test_what_was_run_is_not_run_again(tmp_path: Path) -> None:
    place, asked = tmp_path / "panel.csv", []

    def one(table: str, method: str, epsilon: float, seed: int) -> dict[str, Any]:
        asked.append((table, method, epsilon, seed))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return {"mean": 0.5, "state": "done"}

    wanted = panel.jobs(given(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        common.resume(wanted, one, place, panel.FIELDS, 1.0)
    runs, left = common.resume(wanted, one, place, panel.FIELDS, 1.0)
    assert asked == [wanted[0], wanted[1], wanted[1]] and not left and len(runs) == 2
    assert len(common.read(place, panel.FIELDS)) == 2


def test_a_bootstrap_is_hardly_told_apart_and_a_shuffled_column_is() -> None:
    train, by = rows(0), grids(SCHEMA)
    drawn = train.sample(frac=1, replace=True, random_state=0).reset_index(drop=True)
    shuffled = drawn.assign(age=drawn["age"].sample(frac=1, random_state=1).to_numpy())
    codes = [coded(frame, by).to_numpy() for frame in (train, drawn, shuffled)]
    same = [[similarity(codes[0], codes[k], groups(4, order)) for k in (1, 2)] for order in (1, 2, 3)]
    assert same[0][0] == same[0][1] and same[1][0] > same[1][1] and same[2][0] > same[2][1]
    assert propensity(train, drawn, SCHEMA) < 0.6 < propensity(train, shuffled, SCHEMA)


def test_the_table_of_the_page(tmp_path: Path) -> None:
    runs = [{"table": "t", "method": "pgm-aim", "epsilon": "3.7", "seed": str(k), "mean": mean, "state": state}
            for k, (mean, state) in enumerate([("0.9", "done"), ("0.8", "done"), ("", "time-out")])]  # fmt: skip
    line = panel.summary(runs).splitlines()[-1]
    assert line.startswith("| pgm-aim | 3.7 | 2, 1 time-out | 0.850 (0.800 to 0.900) |")


class OneTable:
    """One table of counts to fit, with the parts of private-pgm's inference that its mirror descent uses."""

    iters = 1000

    def __init__(self, counts: Any, noise: float) -> None:
        self.counts, self.noise = counts, noise

    def _setup(self, measurements: Any, total: Any) -> None:
        self.model = SimpleNamespace(
            total=self.counts.sum(), potentials=np.zeros(len(self.counts)), belief_propagation=self.table
        )

    def table(self, potentials: Any) -> Any:
        """The counts that potentials stand for."""
        shares = np.exp(potentials - potentials.max())
        return shares / shares.sum() * self.counts.sum()

    def _marginal_loss(self, table: Any) -> Any:
        away = (table - self.counts) / self.noise
        return away @ away / 2, away / self.noise


@pytest.mark.parametrize("noise", [5.0, 30.0, 200.0])
def test_mirror_descent_does_not_stop_before_it_began(noise: float) -> None:
    """However small its first steps are: with much noise the first twenty move nothing."""
    counts = np.array([3000.0, 800, 150, 40, 10])
    engine = OneTable(counts, noise)
    loss = mirror_descent(engine, [1])
    assert abs(engine.model.marginals - counts).sum() < 0.02 * counts.sum()
    assert loss == pytest.approx(engine._marginal_loss(engine.model.marginals)[0])
