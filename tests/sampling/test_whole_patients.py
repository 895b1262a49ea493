"""Whole patients, counted; and patients of whom any row meets conditions."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsynth_cli.main import app
from scipy.stats import chi2_contingency
from typer.testing import CliRunner

import medsynth
from medsynth import rng as randomness
from medsynth.artifact import Model
from medsynth.errors import UsageError
from medsynth.patients import training
from medsynth.rng import numpy_stream
from medsynth.sampling import Draw, csv_chunks, frames, pipeline, provenance
from medsynth.sampling.patients import ROWS_PER_PATIENT, SURE, PatientRows, in_chunks, rows_within, sizes_drawn
from medsynth.schema import Schema

COLUMNS = """
columns:
  who: {kind: identifier, shape: "P#####"}
  record: {kind: identifier, shape: "R#####"}
  day: {kind: count, bounds: [0, 60]}
  sex: {kind: binary, levels: [F, M]}
  ill: {kind: binary, levels: ["no", "yes"]}
  ward: {kind: categorical, levels: [a, b, c, none]}
  closed: {kind: binary, levels: ["no", "yes"]}
"""
LOOSE = f"name: t\ntarget: ill\nunit: who\nmax_rows: 3\nconstant: [sex]{COLUMNS}"
ORDERED = LOOSE.replace("max_rows: 3", "max_rows: 3\norder: day").replace(
    "columns:\n", "columns:\n  days: {kind: count, bounds: [0, 200]}\n"
) + """rules:
  - last row implies closed = yes
  - closed = yes implies last row
  - days = cumulative(day)
"""  # fmt: skip
BOTH = pytest.mark.parametrize("name", ["ordered", "loose"])


def table(patients: int = 300) -> pd.DataFrame:
    """Patients with one to three rows, whose last row says that it is; women are ill on ward c alone."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 4, patients)
    who = np.repeat(np.arange(patients), sizes)
    turn = np.arange(len(who)) - (np.cumsum(sizes) - sizes)[who]
    woman, ward = (rng.random(patients) < 0.5)[who], rng.choice(list("abc"), len(who))
    ill = rng.random(len(who)) < np.where(woman, np.where(ward == "c", 0.3, 0.0), 0.4)
    day = 3 * turn + rng.integers(0, 3, len(who))
    found = pd.DataFrame({
        "who": who, "record": np.arange(len(who)), "day": day, "sex": np.where(woman, "F", "M"),
        "ill": np.where(ill, "yes", "no"), "ward": ward, "closed": np.where(turn == sizes[who] - 1, "yes", "no"),
    })  # fmt: skip
    found.insert(0, "days", found.groupby("who")["day"].cumsum())
    return found


@pytest.fixture(scope="module")
def models() -> Iterator[dict[str, Model]]:
    fitted = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomness, "system_entropy", lambda: randomness.SeededEntropy(0))  # models are always the same
        patch.setattr(training, "SIMULATED", 500)
        for name, text in {"ordered": ORDERED, "loose": LOOSE}.items():
            schema = Schema.from_yaml(text)
            frame = table()[list(schema.names)]
            fitted[name] = medsynth.fit(frame, epsilon=30, schema=schema, rows=600, method="mixture", seed=0)
        yield fitted


@pytest.fixture(scope="module")
def thirds() -> Model:
    """Of patients with exactly three rows each."""
    frame = pd.DataFrame({"who": np.repeat(np.arange(50), 3), "day": 1, "x": ["a", "b", "a"] * 50})
    schema = Schema.from_yaml("""
        name: thirds
        unit: who
        max_rows: 3
        columns:
          who: {kind: identifier}
          day: {kind: count, bounds: [1, 9]}
          x: {kind: binary, levels: [a, b]}
    """)
    return medsynth.fit(frame, no_dp=True, schema=schema, rows=150, method="independent", seed=0)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "CHUNK_ROWS", 100)


def together(rows: pd.DataFrame) -> bool:
    """Whether the rows of each patient stand together and keys are those of one patient after another."""
    keys = rows["who"].drop_duplicates()
    return bool((rows["who"] != rows["who"].shift()).sum() == len(keys) and keys.is_monotonic_increasing)


def cut(rows: pd.DataFrame) -> pd.Series:
    """Which patients of the model with an order do not end with the row that closes."""
    return rows.groupby("who", sort=False)["closed"].last() != "yes"


@pytest.mark.matrix
@BOTH
@pytest.mark.parametrize("count", [1, 70, 333])
def test_so_many_whole_patients(name: str, count: int, models: dict[str, Model], small_chunks: None) -> None:
    """Through chunks of some 50 patients: each is whole, and no key comes twice."""
    model = models[name]
    found = medsynth.sample(model, patients=count, seed=3)
    assert list(found["who"].unique()) == [f"P{k:05}" for k in range(1, count + 1)] and together(found)
    assert list(found["record"]) == [f"R{k:05}" for k in range(1, len(found) + 1)]
    if name == "ordered":
        assert not cut(found).any() and (found["closed"].eq("yes").groupby(found["who"]).sum() == 1).all()
    else:
        first = min(count, 40)  # of the first chunk, by its own stream
        sizes = sizes_drawn(model.tensors[ROWS_PER_PATIENT].astype(np.float64), first, numpy_stream(3, "patients"))
        assert found.groupby("who", sort=False).size().tolist()[:first] == sizes.tolist()


@pytest.mark.nightly_for("ordered")
@BOTH
def test_one_seed_draws_one_table_in_every_form(name: str, models: dict[str, Model], small_chunks: None) -> None:
    model, draw = models[name], Draw(patients=150, seed=5, where_any="ill=yes")
    whole = medsynth.sample(model, patients=150, seed=5, where_any="ill=yes")
    parts = [one for part in frames(model, draw) for one in part.values()]
    assert len(parts) > 2 and max(map(len, parts)) <= 3 * 100
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), whole, check_dtype=False)
    assert len({key for part in parts for key in part["who"].unique()}) == sum(p["who"].nunique() for p in parts) == 150
    contents = [part.drop(columns=["who", "record"]).head(20).to_csv(index=False) for part in parts if len(part) >= 20]
    assert len(contents) > 1 and len(set(contents)) == len(contents)  # a chunk's rows are not those of another
    texts = ["".join(csv_chunks(model, draw)) for _ in range(2)]
    assert texts[0] == texts[1] != "".join(csv_chunks(model, Draw(patients=150, seed=6, where_any="ill=yes")))
    pd.testing.assert_frame_equal(whole, model.sample(patients=150, seed=5, where_any={"ill": "yes"}))


def test_rows_are_of_whole_patients_in_chunks_too(
    models: dict[str, Model], thirds: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred rows of patients with three each end within a patient, who goes on: only the last one may be cut."""
    monkeypatch.setattr(pipeline, "CHUNK_ROWS", 100)
    for rows, last in ((450, 3), (451, 1), (100, 1), (2, 2)):
        sizes = medsynth.sample(thirds, rows, seed=1).groupby("who").size()
        assert sizes.sum() == rows and set(sizes[:-1]) <= {3} and sizes.iloc[-1] == last
    found = medsynth.sample(models["ordered"], 450, seed=1)
    assert len(found) == 450 and together(found) and not cut(found)[:-1].any()
    found = medsynth.sample(models["loose"], 450, seed=1)
    assert len(found) == 450 and together(found) and found["who"].nunique() == int(found["who"].iloc[-1][1:])


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 60))
def test_rows_within_leave_patients_whole(sizes: list[int], rows: int) -> None:
    """As many rows as asked for, or all; at most one patient is cut, and then only where nobody left fits."""
    own = np.array(sizes, np.int64)
    stay = rows_within(own, rows)
    assert stay.sum() == min(rows, own.sum()) and ((stay >= 0) & (stay <= own)).all()
    cut = np.flatnonzero((stay > 0) & (stay < own))
    assert len(cut) <= 1 and all(stay[k] not in own[k:] and (stay[:k] == own[:k]).all() for k in cut)


@BOTH
@pytest.mark.parametrize("counted", [{"patients": 120}, {"n": 250}])
def test_some_row_of_every_patient_meets_all_conditions(
    name: str, counted: dict[str, Any], models: dict[str, Model], small_chunks: None
) -> None:
    """In one row together, not each in another; a patient who is cut to fit the rows may lose that row."""
    found = medsynth.sample(models[name], **counted, seed=2, where_any=["ill=yes", "ward=b,c"])
    assert found["who"].nunique() == 120 if "patients" in counted else len(found) == 250
    meets = (found["ill"] == "yes") & found["ward"].isin(["b", "c"])
    whole = meets.groupby(found["who"]).any()
    if name == "ordered":  # the last one may be cut, where no patient has just as many rows as are lacking
        whole = whole[~cut(found)]
        assert not cut(found)[:-1].any() and (len(whole) == found["who"].nunique() or "n" in counted)
    assert whole.all() and not meets.all() and together(found)


def test_both_conditions_hold_and_defined_columns_may_be_conditions(models: dict[str, Model]) -> None:
    drawn = medsynth.sample(models["ordered"], patients=60, seed=2, where="sex=M", where_any={"days": (12, None)})
    assert set(drawn["sex"]) == {"M"} and (drawn.groupby("who")["days"].max() >= 12).all()
    assert drawn["who"].nunique() == 60
    drawn = medsynth.sample(models["loose"], patients=60, seed=2, where="sex=F", where_any="ward=a")
    assert set(drawn["sex"]) == {"F"} and (drawn["ward"] == "a").groupby(drawn["who"]).any().all()


@pytest.mark.statistical
@BOTH
def test_those_kept_have_the_distribution_given_the_condition(name: str, models: dict[str, Model]) -> None:
    """As among patients drawn without it: rows a patient, sex, and ill rows. Three tests at 1e-5 a model: together they
    have a false-alarm rate of 6e-5. Seeds are fixed besides, so that nothing changes from run to run."""

    def facts(rows: pd.DataFrame) -> pd.DataFrame:
        by_patient = rows.assign(ill=rows["ill"] == "yes", c=rows["ward"] == "c").groupby("who")
        facts = {"rows": by_patient.size(), "sex": by_patient["sex"].first(), "ill": by_patient["ill"].sum()}
        return pd.DataFrame({**facts, "c": by_patient["c"].any()})

    every = facts(medsynth.sample(models[name], patients=8000, seed=11))
    assert 0.2 < every["c"].mean() < 0.9  # a condition that chooses
    one, other = every[every["c"]], facts(medsynth.sample(models[name], patients=3000, seed=12, where_any="ward=c"))
    for fact in ("rows", "sex", "ill"):
        counts = pd.DataFrame({"one": one[fact].value_counts(), "other": other[fact].value_counts()}).fillna(0)
        counts = counts[counts.sum(axis=1) >= 20]
        assert chi2_contingency(counts).pvalue > 1e-5, fact
    before = pd.DataFrame({"one": every["rows"].value_counts(), "other": one["rows"].value_counts()})
    assert chi2_contingency(before).pvalue < 1e-5  # the condition changes something: the test has power


@pytest.mark.parametrize("asked, message", [
    ({"n": 5, "patients": 5}, "`n` counts rows"),
    ({"patients": 0}, "`patients` must be one or more"),
    ({"n": -1}, "`n` must be one or more"),
    ({"patients": 5, "where_any": "ill=yes", "balance": True}, "undo"),
    ({"patients": 5, "where_any": "ward=z"}, "`where_any` ward: no such level"),
    ({"patients": 5, "where_any": ["ward=a", "ward=b"]}, "`where_any` names 'ward' twice"),
    ({"patients": 5, "where_any": "wards=a"}, "not a column of the model. Did you mean"),
    ({"patients": 5, "where_any": "who=P00001"}, "identifier"),
    ({"patients": 5, "where": "who=P00001"}, "not a column"),
    ({"patients": 5, "replicates": 2}, "several rows per patient"),
])  # fmt: skip
@BOTH
def test_what_cannot_be_asked(name: str, asked: dict[str, Any], message: str, models: dict[str, Model]) -> None:
    with pytest.raises(UsageError, match=message):
        medsynth.sample(models[name], **asked)


@pytest.mark.nightly_for("ordered")
@BOTH
def test_conditions_that_hardly_a_patient_meets_end_in_an_error(name: str, models: dict[str, Model]) -> None:
    """Of rows and patients alike, after a bounded number of patients drawn in vain."""
    asked: list[dict[str, Any]] = [{"patients": 3}, {"n": 3}]
    for counted in asked:
        with pytest.raises(UsageError, match="Fewer than one patient in 1000 has a row that meets"):
            medsynth.sample(models[name], **counted, seed=0, where_any=["sex=F", "ward=none", "ill=yes", "day=59.."])


def test_one_patient_in_five_hundred_is_enough_and_one_in_two_thousand_is_not() -> None:
    """Patients of one row each, numbered as they are drawn."""
    tried = 0

    def drawn(count: int, seed: int | None, most_rows: int | None) -> PatientRows:
        nonlocal tried
        tried += count
        return PatientRows(np.arange(tried - count, tried)[:, None].astype(np.int32), np.arange(count))

    parts = list(in_chunks(drawn, Draw(patients=80), 1.0, 1000, lambda codes: codes[:, 0] % 500 == 499))
    assert np.concatenate([part.codes[:, 0] for part in parts]).tolist() == list(range(499, 40_000, 500))
    assert tried < 42_000 and max(len(part.codes) for part in parts) < 10
    tried = 0
    with pytest.raises(UsageError, match="Fewer than one patient in 1000"):
        list(in_chunks(drawn, Draw(patients=80), 1.0, 1000, lambda codes: codes[:, 0] % 2000 == 0))
    assert tried < SURE + 1000


def test_rules_that_leave_nobody_end_in_an_error_and_draws_are_bounded() -> None:
    nobody = PatientRows(np.zeros((0, 1), np.int32), np.zeros(0, np.int64))
    asked: list[int] = []

    def drawn(count: int, seed: int | None, most_rows: int | None) -> PatientRows:
        asked.append(count)
        return nobody

    for draw in (Draw(patients=4000), Draw(patients=1), Draw(rows=1)):
        asked.clear()
        with pytest.raises(UsageError, match="rules"):
            list(in_chunks(drawn, draw, 2.0, 1000, None))
        assert SURE <= sum(asked) < SURE + 500 and max(asked) == 500 and len(asked) < 40


def test_models_without_patients_count_rows(fitted_patients: Path) -> None:
    run = CliRunner().invoke
    for words, cure in ((["--patients", "5"], "Use -n for rows"), (["--where-any", "x=1"], "Use --where for rows")):
        done = run(app, ["sample", *words])
        assert done.exit_code == 2 and cure in done.stderr and "--unit" in done.stderr
        assert not Path("patients.synthetic.csv").exists()
    texts = [run(app, ["sample", way, "7", "--seed", "1", "-o", "-"]).stdout for way in ("-n", "--rows")]
    assert texts[0] == texts[1] and texts[0].count("\n") == 8


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_their_provenance_is_proven(ending: str, models: dict[str, Model], tmp_path: Path, small_chunks: None) -> None:
    model, path = models["ordered"], tmp_path / "m.medsynth"
    model.save(path)
    rows = tmp_path / f"rows.{ending}"
    draw = Draw(patients=80, where="sex=M", where_any={"ill": "yes"})
    drawn = provenance.write_sample(model, path, rows, draw)
    assert drawn.patients == 80 and drawn.rows is None and provenance.drawn_by(model, rows)
    file = provenance.beside(rows)
    content = json.loads(file.read_text())
    assert content["where_any"] == ["ill=yes"] and content["where"] == ["sex=M"]
    forgeries: list[dict[str, object]] = [
        {"patients": 81}, {"patients": None}, {"rows": 80}, {"patients": "80"}, {"patients": -1}, {"where_any": []},
        {"where_any": [1]}, {"where_any": 1}, {"where_any": ["ill=no"]},
    ]  # fmt: skip
    for forged in forgeries:
        file.write_text(json.dumps(content | forged))
        assert not provenance.drawn_by(model, rows), forged


def test_a_provenance_file_of_before_still_proves(thirds: Model, tmp_path: Path) -> None:
    """One that names rows alone."""
    path, rows = thirds.save(tmp_path / "m.medsynth"), tmp_path / "rows.csv"
    provenance.write_sample(thirds, path, rows, Draw(rows=30, seed=1))
    file = provenance.beside(rows)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({key: value for key, value in content.items() if key not in ("patients", "where_any")}))
    assert provenance.drawn_by(thirds, rows)


def test_the_command(models: dict[str, Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    models["ordered"].save("visits.medsynth")
    run = CliRunner().invoke
    words = ["sample", "--patients", "1e2", "--where", "sex=F", "--where-any", "ill=yes", "--where-any", "ward=c"]
    done = run(app, [*words, "--seed", "4", "--json"])
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["patients"] == 100 and told["rows"] is None and told["seed"] == 4
    rows = pd.read_csv("visits.synthetic.csv")
    pd.testing.assert_frame_equal(
        rows, medsynth.sample(models["ordered"], patients=100, seed=4, where="sex=F", where_any=["ill=yes", "ward=c"]),
        check_dtype=False,
    )  # fmt: skip
    done = run(app, [*words, "--force"])
    assert done.exit_code == 0 and done.stdout == "Wrote visits.synthetic.csv, 100 patients.\n"
    for more, text in ((["-n", "5"], "-n counts rows, --patients whole patients"), (["--balance"], "--where-any")):
        done = run(app, [*words, *more, "--force"])
        assert done.exit_code == 2 and text in done.stderr
    help_text = run(app, ["sample", "--help"]).stdout
    assert "--where-any" in help_text and "--rows" in help_text and "--patients" in help_text
