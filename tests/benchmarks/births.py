"""Dates of birth in bare fits of 500 to 2,000 rows: how often the first and the last day stay nearly empty.

Each run follows a fit of the default method at epsilon 3.7 up to its one-way counts: its plan, the questions about open
columns with the plan's noise, codes of all cells, and the counts of the date's cells, from which days are drawn. Later
measurements do not change how often an end of the bounds is drawn.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from medsynth.fitting import expectation
from medsynth.fitting.planning import plan_fit
from medsynth.fitting.settings import FitSettings
from medsynth.io.table import from_frame
from medsynth.privacy.accounting.calibration import Plan
from medsynth.privacy.partition_selection import RawVault
from medsynth.rng import SeededEntropy
from medsynth.schema import open_schema
from medsynth.schema.codec import encode
from tests.benchmarks.common import options

EPSILON, MOST = 3.7, 0.02  # the share of the rows that both ends together may have


def patients(rows: int, seed: int) -> pd.DataFrame:
    """Return a simulated table: births next to five usual columns."""
    rng = np.random.default_rng(seed)
    days = np.clip(rng.normal(-5500, 7000, rows), -20_000, 14_000).round()  # since 1970: the mean is in 1954
    return pd.DataFrame({
        "age": rng.integers(18, 95, rows), "sex": rng.choice(["F", "M"], rows),
        "crp": np.round(rng.lognormal(1.5, 1, rows), 1),
        "stage": rng.choice([1, 2, 3, 4], rows, p=[0.4, 0.3, 0.2, 0.1]),
        "born": (pd.Timestamp("1970-01-01") + pd.to_timedelta(days, unit="D")).strftime("%Y-%m-%d"),
        "sick": rng.choice(["no", "yes"], rows, p=[0.7, 0.3]),
    }).astype(str)  # fmt: skip


def of_fit(plan: Plan, rows: int, seed: int) -> tuple[float, float]:
    """Return the share of both ends together, coded or drawn, and the share of the rows whose date is lost."""
    frame, entropy = patients(rows, seed), SeededEntropy(seed)
    table = from_frame(frame)
    releases = expectation.OfPublicRows(plan.ledger(entropy.source), entropy)
    raw = RawVault(table, rows, releases, open_schema([*frame], "sick"), rows_std=0.0)
    schema = raw.measure_schema(required=False).schema
    column = schema.columns["born"]
    if column.kind != "date":
        return 0.0, 1.0
    codes = encode(table, schema)[:, schema.names.index("born")]
    one = expectation._scaled(plan.events, plan.delta, rows, 6, rows, 1)
    small = expectation._shrunk(codes, column)[:, None]
    drawn = expectation._drawn(one, small, [expectation._size(column)], seed)[0]
    days = expectation._grown(drawn, column)
    ends = [float(((one == 0) | (one == column.size - 1)).mean()) for one in (codes, days)]
    return max(ends), float((codes >= column.size).mean())


def main(words: list[str]) -> None:
    """Print, by number of rows, in how many runs both ends together have less than 2 %, and lose less than 2 %."""
    parser = options("births", __doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 800, 1200, 2000])
    given = parser.parse_args(words)
    for rows in given.rows:
        plan = plan_fit(patients(rows, 0), FitSettings(epsilon=EPSILON, target="sick", rows=rows))[0]
        found = np.array([of_fit(plan, rows, seed) for seed in range(given.runs)])
        few = (found < MOST).sum(0)
        print(f"{rows} rows: ends below 2 % in {few[0]} of {len(found)} runs, lost dates in {few[1]}", flush=True)
