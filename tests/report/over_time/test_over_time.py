"""The section on patients over time: what it finds, what it leaves out, what a shareable page may say."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.report.build import build
from medsynth.report.data.columns import cells_of
from medsynth.report.data.over_time import sequences
from medsynth.report.data.tables import Cells
from medsynth.report.data.verdict import Estimate, Threshold, Thresholds
from medsynth.report.page import charts
from medsynth.report.page.render import page
from medsynth.report.sections import over_time as curves
from medsynth.report.sections import over_time_models as slopes
from medsynth.report.sections.over_time import OVER_TIME, OverTime, over_time
from medsynth.schema import Schema

pytestmark = pytest.mark.statistical  # each seed is fixed: none can fail by chance


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slopes, "MOST_PATIENTS", 30)
    monkeypatch.setattr(slopes, "MOST_COLUMNS", 1)


def record(found: Any, schema: Schema, **left: Any) -> OverTime:
    made = over_time(found, schema, "flare", np.random.default_rng(0))
    assert made is not None
    return made


@pytest.fixture(scope="module")
def model(parts: Any, schema: Schema) -> Any:
    return medsynth.fit(parts[0], epsilon=3.7, schema=schema, rows=len(parts[0]), method="independent")


def test_real_patients_score_as_a_second_real_sample(found: Any, parts: Any, schema: Schema) -> None:
    made = record(found(parts[2]), schema)
    assert made.lagged is not None and made.lagged_ceiling is not None and made.across is not None
    gap = made.lagged_gap
    assert gap.value == pytest.approx(made.lagged_ceiling - made.lagged) and (gap.low or 0) < 0 < (gap.high or 0)
    assert abs(made.lagged - made.lagged_ceiling) < 0.02 and abs(made.across - (made.across_ceiling or 0)) < 0.02
    for one in made.columns:
        assert (one.kind == "number") == (one.autocorrelation_real is not None) == (one.transitions is None)
        if one.autocorrelation_real is not None:
            assert one.autocorrelation_synthetic == pytest.approx(one.autocorrelation_real, abs=0.15)
        assert one.unchanged_synthetic == pytest.approx(one.unchanged_real, abs=0.12)
    assert (made.rows.distance or 0) < 0.1 and made.gaps is not None and (made.gaps.distance or 0) < 0.15
    assert [line.outcome for line in OVER_TIME.verdicts(made, Thresholds())][0] == "within"  # type: ignore[misc]


def test_independent_rows_are_found(found: Any, shuffled: pd.DataFrame, schema: Schema) -> None:
    made = record(found(shuffled), schema)
    assert made.lagged is not None and made.lagged_ceiling is not None
    assert made.lagged < made.lagged_ceiling - 0.1
    kept = {one.name: one for one in made.columns}
    assert abs(kept["weight_kg"].autocorrelation_synthetic or 0) < 0.15 < (kept["weight_kg"].autocorrelation_real or 0)
    assert (kept["severity"].transitions or 0) > 3 * (kept["severity"].transitions_second or 1) / 2
    lines = list(OVER_TIME.verdicts(made, Thresholds()))  # type: ignore[misc]
    assert [line.key for line in lines] == ["lagged_gap", "later_relations_lost", "next_row_auroc_loss"]
    assert lines[0].outcome == "beyond"


def test_without_a_training_table_held_out_patients_are_halved(found: Any, parts: Any, schema: Schema) -> None:
    samples = curves.Compared(found(parts[2], train=False), np.random.default_rng(0))
    assert samples.real is not None and samples.second is not None
    assert not set(samples.real.patient) & set(samples.second.patient)
    assert abs(len(samples.real.sizes) - 200) <= 1 and len(samples.second.sizes) == len(samples.made.sizes) == 200


def test_a_cell_of_few_real_patients_is_left_out(
    found: Any, parts: Any, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every real cell that is shown stands for so many patients; the others are None, here counted by hand."""
    fewest = 60
    assert curves.FEWEST == 20
    monkeypatch.setattr(curves, "FEWEST", fewest)
    made = record(found(parts[2]), schema)
    frame = parts[1].assign(place=parts[1].groupby("patient_id").cumcount())
    size = frame.groupby("patient_id").size().value_counts()
    assert made.rows.real is not None and None in made.rows.real
    assert [share is not None for share in made.rows.real] == [size.get(k + 1, 0) >= fewest for k in range(5)]
    known = frame.dropna(subset="haemoglobin_g_l").groupby("place").size()
    bands = next(t for t in made.trajectories if t.name == "haemoglobin_g_l")
    assert bands.real is not None and None in bands.real and None not in bands.synthetic
    assert [band is not None for band in bands.real] == [known.get(k, 0) >= fewest for k in range(5)]
    died = next(t for t in made.transitions if t.name == "died")
    assert died.real is not None and died.real[0] is not None and died.real[1] is None  # nobody comes after death


def test_patients_and_not_rows_are_counted_for_a_cell() -> None:
    """One patient with many rows is one patient."""
    rows = [("p", f"2020-01-{k + 1:02}") for k in range(28)] + [(f"q{k}", "2020-01-01") for k in range(19)]
    table = pd.DataFrame(rows, columns=["patient_id", "visit_date"]).assign(flare="yes", x=1.0)
    content = {"name": "t", "target": "flare", "unit": "patient_id", "max_rows": 40, "order": "visit_date", "columns": {
        "patient_id": {"kind": "identifier"}, "visit_date": {"kind": "date", "bounds": ["2019-01-01", "2021-01-01"]},
        "flare": {"kind": "binary", "levels": ["no", "yes"]}, "x": {"kind": "count", "bounds": [0, 9]}}}  # fmt: skip
    own = sequences(cells_of(table), cells_of(table), None, Schema.from_dict(content))["real"]
    assert curves.patients_by(own, own.last, np.zeros(27, np.int64), 2).tolist() == [1, 0]
    assert curves.kept([0.5, 0.25], np.array([curves.FEWEST, curves.FEWEST - 1])) == [0.5, None]
    made = curves.transitions("flare", Cells({}, {"flare": ["no", "yes"]}), own, own)
    assert made is not None and made.real == [None, None] and made.synthetic == [None, [0.0, 1.0]]
    assert curves.transitions("flare", Cells({}, {"flare": [str(k) for k in range(13)]}), own, own) is None
    gaps, curve = curves.gap_bars(own, own, own), curves.waiting(own, own)
    assert gaps is not None and gaps.real == [None] and gaps.labels == ["any"]
    assert curve is not None and set(curve.real or []) == {None}


def test_figures_of_few_patients_are_left_out(found: Any, parts: Any, schema: Schema) -> None:
    """Of nineteen real patients with several rows no figure of their successive rows is shown."""
    several = parts[1][parts[1].groupby("patient_id")["sex"].transform("size") > 1]
    for count, shown in ((19, False), (20, True)):
        some = several[several["patient_id"].isin(several["patient_id"].unique()[:count])]
        tables = cells_of(some), cells_of(parts[2]), cells_of(parts[0])
        made = record(sequences(*tables, schema), schema)
        assert (made.lagged is not None) is (made.lagged_ceiling is not None) is shown
        for one in made.columns:
            assert (one.unchanged_real is not None) is shown and one.unchanged_synthetic is not None
            assert shown or one.autocorrelation_real is one.transitions is one.similarity is None


def test_the_shortest_and_the_longest_gap_are_not_shown(found: Any, parts: Any, schema: Schema) -> None:
    own = found(parts[2])
    bars = curves.gap_bars(own["real"], own["train"], own["synthetic"])
    assert bars is not None and bars.labels[0].startswith("below ") and bars.labels[-1].endswith(" and more")
    gaps = own["real"].time[own["real"].now] - own["real"].time[own["real"].last]
    ends = [
        float(word) for label in bars.labels for word in label.replace("below", "").replace("and more", "").split("to")
    ]
    assert min(ends) > gaps.min() and max(ends) < gaps.max() and len(bars.labels) == 8
    assert bars.real is not None and sum(share or 0 for share in bars.real) == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
def test_a_shareable_page_tells_of_synthetic_patients_alone(found: Any, parts: Any, schema: Schema, model: Any) -> None:
    made = medsynth.sample(model, 400, seed=1)
    report = build(synthetic=made, real=None, model=model, drawn_by_model=True, title="visits")
    own = report.sections["over_time"]
    assert isinstance(own, OverTime)
    assert [own.lagged, own.across, own.rows.real, own.rows.distance, own.next_row, own.slopes] == [None] * 6
    assert own.waiting is not None and own.waiting.real is None and own.gaps is not None and own.gaps.real is None
    assert {t.real is None for t in own.transitions} == {t.real is None for t in own.trajectories} == {True}
    for one in own.columns:
        values = (one.similarity, one.ceiling, one.autocorrelation_real, one.autocorrelation_second,
                  one.transitions, one.transitions_second, one.unchanged_real)  # fmt: skip
        assert values == (None,) * 7 and one.unchanged_synthetic is not None
    html = page(report)
    assert 'id="over_time"' in html and "No real row was read for this page." in html
    assert "second real sample" not in html.split('id="over_time"')[1].split("<section")[0]
    assert not [line for line in report.verdicts if line.key == "lagged_gap"]


def test_the_page_shows_the_section_and_every_number_stands_in_the_twin(parts: Any, model: Any) -> None:
    train = parts[0].assign(patient_id="t" + parts[0]["patient_id"]).head(300)
    real, synthetic = parts[1].head(300), parts[2].head(300)
    report = build(synthetic=synthetic, real=real, train=train, model=model, drawn_by_model=False, title="visits")
    html = page(report)
    body = html.split('id="over_time"')[1].split("</section>")[0]
    twin = json.loads(report.model_dump_json())["sections"]["over_time"]

    def numbers(value: Any) -> set[float]:
        if isinstance(value, dict | list):
            inside = value.values() if isinstance(value, dict) else value
            return set().union(*(numbers(part) for part in inside))
        return {float(value)} if isinstance(value, int | float) and not isinstance(value, bool) else set()

    shown = {float(v) for v in re.findall(r'<data value="([^"]+)"', body)}
    assert len(shown) > 150 and shown <= numbers(twin)
    assert body.count("<svg") == 2 + 1 + 4 + 5 and "What comes next?" in body and "Change with time" in body
    attacks: Any = report.sections["attacks"]
    assert [m.name for m in attacks.membership][-2:] == ["nearest patient", "nearest patient against reference"]


def test_tables_without_an_order_have_no_such_section(model: Any, parts: Any, schema: Schema) -> None:
    assert over_time({}, schema, "flare", np.random.default_rng(0)) is None
    report = build(synthetic=parts[2], real=None, title="visits")
    assert report.sections["over_time"] is None and 'id="over_time"' not in page(report)
    assert OVER_TIME.verdicts is not None and list(OVER_TIME.verdicts(None, Thresholds())) == []


def test_a_gain_in_what_comes_next_is_not_judged(found: Any, parts: Any, schema: Schema) -> None:
    made = record(found(parts[2]), schema)
    assert made.next_row is not None and OVER_TIME.verdicts is not None
    better = made.next_row.model_copy(update={"loss": Estimate(value=-0.2, low=-0.3, high=-0.1)})
    lines = OVER_TIME.verdicts(made.model_copy(update={"next_row": better}), Thresholds())
    assert lines[-1].outcome == "not judged"
    alone = OVER_TIME.verdicts(made.model_copy(update={"next_row": None}),
                             Thresholds({"lagged_gap": Threshold(limit=-1, source="a test")}))  # fmt: skip
    assert [(line.key, line.outcome) for line in alone] == [
        ("lagged_gap", "beyond"),
        ("later_relations_lost", "within"),
    ]


def test_patients_with_one_row_each_have_no_figures_of_pairs(found: Any, parts: Any, schema: Schema) -> None:
    firsts = [frame.drop_duplicates("patient_id") for frame in parts]
    own = sequences(cells_of(firsts[1]), cells_of(firsts[2]), None, schema)
    made = record(own, schema)
    assert made.lagged is None and made.gaps is None and made.waiting is None and made.next_row is None
    assert made.slopes is not None and made.slopes.mean_overlap is None and made.slopes.columns[0].real.value is None
    assert all(one.autocorrelation_synthetic is None for one in made.columns)
    assert made.rows.real == [1.0, None, None, None, None]
    made_alone = record({"synthetic": own["synthetic"]}, schema)
    drawn = charts.bands(made_alone.trajectories[0].model_copy(update={"synthetic": [None, None]}))
    assert drawn.description == "no values" and charts.steps("rows", made.rows).elements
