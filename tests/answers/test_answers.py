"""Answers from a model file: formulas, statistics against other libraries, noisy tables, estimates, both commands."""

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from medsynth_cli.main import app
from scipy.stats import binom, chi2
from typer.testing import CliRunner

import medsynth
from medsynth.answers.estimate import BASES, _Asked, _basis, _of_replicates, estimate
from medsynth.answers.noisy import noisy_tables
from medsynth.answers.questions import Rows, question
from medsynth.artifact import Model
from medsynth.errors import MedsynthError, UsageError
from medsynth.io.table import from_frame
from medsynth.methods.regressions import Regression, check_columns
from medsynth.mixture.constants import COARSE, CROSSED, PAIRS
from medsynth.sampling.replicates import RELEASED
from medsynth.schema import Schema
from medsynth.schema.codec import encode, parse
from tests.benchmarks.estimates import DECLARED, NULL, QUESTIONS, SCHEMA, simulated, truth

ODD = Schema.from_dict({
    "name": "odd",
    "columns": {
        "t4:t3": {"kind": "count", "bounds": [0, 9]},
        "age": {"kind": "count", "bounds": [18, 100], "missing": True},
        "crp": {"kind": "continuous", "bounds": [0.1, 500], "decimals": 1, "scale": "log"},
        "sex": {"kind": "binary", "levels": ["F", "M"]},
        "ward": {"kind": "categorical", "levels": ["a", "b", "c, d"], "missing": True},
    },
})  # fmt: skip


def odd(rows: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age = rng.integers(18, 100, rows).astype(float)
    crp = np.round(np.exp(rng.normal(1, 1, rows)).clip(0.1, 500), 1)
    t4 = np.clip(np.round(age / 20 + np.log(crp) + rng.normal(0, 1, rows)), 0, 9).astype(int)
    return pd.DataFrame({
        "t4:t3": t4, "age": np.where(rng.random(rows) < 0.1, np.nan, age), "crp": crp,
        "sex": rng.choice(["F", "M"], rows), "ward": rng.choice(["a", "b", "c, d", None], rows),
    })  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> Rows:
    return Rows(ODD, encode(from_frame(odd()), ODD))


@pytest.fixture(scope="module")
def model() -> Model:
    return medsynth.fit(simulated(400, 1), schema=SCHEMA, epsilon=5, delta=1e-5, rows=400, inference=DECLARED,
                        settings={"steps": 12})  # fmt: skip


def test_products_of_columns_are_named() -> None:
    """A line for every two columns and every three, by the features that were multiplied; counts follow the rows."""
    found = medsynth.fit(simulated(400, 1), schema=SCHEMA, epsilon=50, delta=1e-5, rows=400,
                         settings={"steps": 60, "products": 0.05})  # fmt: skip
    (tables,) = noisy_tables(found, CROSSED)
    names = [name for name in SCHEMA.names if name != SCHEMA.target]
    signs = [f"sign of {name}" for name in names]
    wanted = [*itertools.combinations(names, 2), *itertools.combinations(signs, 3)]
    assert list(tables.lines["table"]) == [" × ".join(own) for own in wanted]
    counts = tables.lines.set_index("table")["count"]
    assert counts["age × pulse"] > 4 * tables.lines["noise_std"][0]  # simulated so
    assert abs(counts["pulse × ward"]) < counts["age × pulse"]


@pytest.fixture(scope="module")
def saved(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model.save(tmp_path_factory.mktemp("alone") / "small.medsynth")


@pytest.mark.parametrize(
    "text, printed",
    [
        ("y ~ a", "y ~ a"),
        ("y~a+1", "y ~ a"),
        ("y ~ a * b", "y ~ a + b + a:b"),
        ("y ~ I(a**2)", "y ~ a + I(a**2)"),
        ("y ~ a + I( a ** 2 ) + C(b)", "y ~ a + C(b) + I(a**2)"),
        ("`t4:t3` ~ `a b` + C(`w~`)", "`t4:t3` ~ a b + C(`w~`)"),
        ("y ~ `1`", "y ~ `1`"),
    ],
)
def test_a_formula_prints_what_it_means(text: str, printed: str) -> None:
    """And what it prints means the same."""
    found = Regression.parse(text)
    assert str(found) == printed and Regression.parse(printed) == found


@pytest.mark.parametrize("text", ["y ~ a - 1", "y ~ 0 + a", "y ~ a + a", "y ~ y", "y ~ a:b:c", "~ a", "y ~ I(a**2):b",
                                  "y ~ 1"])  # fmt: skip
def test_other_formulas_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Regression.parse(text)
        question(text, SCHEMA)


@pytest.mark.parametrize("text, words", [("pulse ~ I(age**2)", "moments of a square"), ("pulse ~ C(age)", "as levels")])
def test_what_moments_cannot_measure_is_not_declared(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_columns([Regression.parse(text)], SCHEMA.columns, "ill")


def test_statistics_are_those_of_pandas(rows: Rows) -> None:
    frame = odd()
    men, wards = frame["sex"] == "M", frame["ward"].dropna()
    expected = {
        "mean(age)": frame["age"].mean(), "sd(age)": frame["age"].std(), "median(crp)": frame["crp"].median(),
        "quantile(`t4:t3`, .9)": frame["t4:t3"].quantile(0.9), "share(sex=M)": men.mean(),
        "share(ward=c, d)": (wards == "c, d").mean(), "share(ward=a,b)": wards.isin(["a", "b"]).mean(),
        "share(ward=)": frame["ward"].isna().mean(), "share(age=40..)": (frame["age"].dropna() >= 40).mean(),
        "difference(age, sex=M)": frame["age"][men].mean() - frame["age"][~men].mean(),
        "difference(ward=a, sex=M)": (wards[men] == "a").mean() - (wards[~men] == "a").mean(),
        "correlation(crp, age)": np.log(frame["crp"]).corr(frame["age"]),
    }  # fmt: skip
    for text, value in expected.items():
        asked = question(text, ODD)
        (found,) = asked.answer(rows)
        assert asked.back(found.estimate) == pytest.approx(value, rel=1e-9), text
    (ratio,) = question("odds_ratio(ward=a, sex=M)", ODD).answer(rows)
    table = pd.crosstab(frame["ward"].dropna() == "a", frame["sex"]).to_numpy() + 0.5
    assert ratio.estimate == pytest.approx(math.log(table[1, 1] * table[0, 0] / (table[1, 0] * table[0, 1])))
    assert ratio.variance == pytest.approx((1 / table).sum())


def test_regressions_are_those_of_statsmodels(rows: Rows) -> None:
    frame = odd().rename(columns={"t4:t3": "t4"})
    frame["log_crp"] = np.log(frame["crp"])
    found = question("`t4:t3` ~ age * sex + I(age**2) + C(ward) + crp + 1", ODD).answer(rows)
    fit = smf.ols("t4 ~ age * sex + I(age**2) + C(ward) + log_crp", frame.dropna()).fit()
    names = {"sex=M": "sex[T.M]", "ward=b": "C(ward)[T.b]", "ward=c, d": "C(ward)[T.c, d]", "log(crp)": "log_crp",
             "age:sex=M": "age:sex[T.M]", "I(age**2)": "I(age ** 2)"}  # fmt: skip
    for value in found:
        term = names.get(value.term, value.term)
        assert value.estimate == pytest.approx(fit.params[term], rel=1e-5), value.term
        assert math.sqrt(value.variance) == pytest.approx(fit.bse[term], rel=1e-5)
    (logit,) = question("sex ~ age", ODD).answer(rows)
    frame["male"] = (frame["sex"] == "M").astype(float)
    fit = smf.logit("male ~ age", frame.dropna(subset="age")).fit(disp=0)
    assert logit.estimate == pytest.approx(fit.params["age"], rel=1e-4)


@pytest.mark.parametrize(
    "text, words",
    [
        ("mean(bmi)", "not a column"), ("mean(ward)", "Ask for a share"), ("share(age)", "COLUMN=VALUE"),
        ("hello", "not a question"), ("quantile(age, 2)", "between 0 and 1"), ("difference(age)", "two arguments"),
        ("age ~ C(crp)", "at most 20"), ("age ~ I(ward**2)", "has levels"), ("age ~ bmi", "not a column"),
        ("correlation(age, bmi)", "not a column"), ("share(ward=x)", "ward"),
    ],
)  # fmt: skip
def test_what_is_not_a_question_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        question(text, ODD)


def test_tables_are_what_was_released(model: Model) -> None:
    """Every number of the file comes back with its noise; what was not measured is added only to centred tables."""
    listed = noisy_tables(model)
    assert [one.label for one in listed] == [entry.label for entry in model.ledger.entries]
    for k, one in enumerate(listed):
        noisy, std = (model.tensors[f"{RELEASED}{k:02}.{part}"] for part in ("noisy", "std"))
        # The file keeps no frequent value if noise explains all counts.
        assert set(one.lines["noise_std"].astype(np.float32).round(3)) in (set(np.round(std, 3)), set())
        if "without their margins" not in one.asked:
            found = np.sort(np.abs(one.lines["count"]))
            assert found == pytest.approx(np.sort(np.abs(noisy[noisy != 0] if len(noisy) > len(found) else noisy)),
                                          abs=1e-3)  # fmt: skip
    pairs = next(one.lines for one in listed if one.label == PAIRS)
    by_age = pairs[pairs["table"] == "ill by age by pulse"].groupby("cell_1")["consistent"].sum()
    whole = pairs[pairs["table"] == "ill by weight by ward"].groupby("cell_1")["consistent"].sum()
    assert by_age.to_numpy() == pytest.approx(whole.to_numpy(), abs=0.1)
    # Only the noise of the released parts keeps the sums from the model's: six standard deviations, 2e-9 per table.
    for _, table in pairs.groupby("table"):
        most = 6 * table["noise_std"].iloc[0] * math.sqrt(len(table))
        assert abs(table["count"].sum() - table["consistent"].sum()) < most < 300 < table["consistent"].sum()
    assert (pairs["consistent"] >= 0).all() and (pairs["std_error"] >= pairs["noise_std"]).all()


def test_a_level_that_no_replicate_has_is_not_certainly_absent() -> None:
    codes = np.zeros((100, 6), np.int32)
    asked = question("share(ward=d)", SCHEMA)
    same = [_Asked(asked, "all rows", 100, asked.answer(Rows(SCHEMA, codes))) for _ in range(5)]
    found = _of_replicates(same, 0, "counted", 0.95)
    assert found.estimate == found.low == 0 and 0.01 < (found.high or 0) < 0.1


@pytest.mark.nightly
def test_counts_are_exact_counts_plus_noise_of_the_stated_size() -> None:
    """The words of cells are read, and real rows counted: squared errors over variances follow chi-square (1e-5)."""
    real = simulated(400, 1)
    model = medsynth.fit(real, schema=SCHEMA, epsilon=5, delta=1e-5, rows=400, settings={"steps": 2})
    squares = []
    for one in noisy_tables(model):
        if one.label not in (COARSE, PAIRS):
            continue
        for _, line in one.lines.iterrows() if one.label == COARSE else []:
            ends = [int(word) for word in line["cell_1"].split(" to ")]
            exact = real[line["column_1"]].between(ends[0], ends[-1]).sum()
            squares.append(((line["count"] - exact) / line["noise_std"]) ** 2)
    assert len(squares) > 60
    low, high = chi2.ppf([5e-6, 1 - 5e-6], len(squares))
    assert low < sum(squares) < high


def test_estimates_repeat_and_cost_nothing(model: Model) -> None:
    before = model.ledger.to_json()
    one, again = (model.estimate("mean(age)", "share(ward=d)", by="treated", replicates=2) for _ in range(2))
    assert one == again and model.ledger.to_json() == before
    assert [(own.question, own.group) for own in one] == [
        (text, f"treated={level}") for text in ("mean(age)", "share(ward=d)") for level in ("no", "yes")
    ]
    for own in one:
        assert own.low <= own.estimate <= own.high and own.rows < 400 and own.p_value is None  # type: ignore[operator]
    assert list(one.frame["term"]) == [own.term for own in one] and str(one).count("mean(age)") == 2


def test_what_the_releases_cannot_answer(model: Model) -> None:
    """Two replicates at a level of 1 - 1e-9 have intervals wider than anything; a group without rows has none."""
    wide, gone = (*model.estimate("pulse ~ weight", replicates=2, level=1 - 1e-9),
                  *model.estimate("mean(age)", where="age=18..18", replicates=2))  # fmt: skip
    assert not wide.answered and "cannot answer" in str(wide)
    assert gone.answered or "cannot answer" in str(gone)


@pytest.mark.parametrize(
    "text, given, basis",
    [
        ("pulse ~ age + treated", {}, "declared"), ("ill ~ age", {}, "declared"), ("mean(age)", {}, "counted"),
        ("difference(age, treated=yes)", {}, "declared"), ("correlation(age, pulse)", {}, "declared"),
        ("difference(age, ill=yes)", {}, "declared"), ("difference(pulse, ill=yes)", {}, "counted"),
        ("mean(age)", {"by": "ill"}, "counted"), ("mean(age)", {"by": "ward"}, "pairs"),
        ("weight ~ age", {}, "declared"), ("weight ~ ward", {}, "pairs"), ("pulse ~ I(age**2)", {}, "pairs"),
        ("pulse ~ age * ward", {}, "assumed"), ("correlation(age, weight)", {"where": "ward=a"}, "assumed"),
        ("odds_ratio(pulse=90.., treated=yes)", {}, "pairs"), ("ill ~ ward + weight", {}, "pairs"),
    ],
)  # fmt: skip
def test_an_answer_says_what_it_rests_on(model: Model, text: str, given: dict[str, str], basis: str) -> None:
    if text == "weight ~ age":  # the declared outcome is another
        basis = "pairs"
    columns = {*parse(given.get("where", ()), SCHEMA), *filter(None, [given.get("by")])}
    assert _basis(model, question(text, SCHEMA), columns) == basis and basis in BASES


def test_settings_that_do_not_exist_are_refused(model: Model) -> None:
    for wrong in ({"replicates": 1}, {"level": 2}, {"by": "bmi"}, {"by": "age"}, {"bye": "sex"}):
        with pytest.raises(UsageError):
            model.estimate("mean(age)", **wrong)
    with pytest.raises(UsageError, match="sample"):
        model.sample(10, replicate=3)
    with pytest.raises(UsageError):
        estimate(model, [])


def test_a_model_draws_its_own_replicates_and_combine_takes_a_frame(model: Model) -> None:
    found = model.sample(30, seed=1, replicates=2)
    assert list(found["replicate"].value_counts()) == [30, 30]
    lines = pd.DataFrame([("age", k, own["age"].mean()) for k, own in found.groupby("replicate")],
                         columns=["term", "replicate", "estimate"])  # fmt: skip
    both = medsynth.combine(lines)
    assert both.loc["age", "estimate"] == medsynth.combine(lines["estimate"].tolist()).estimate
    with pytest.raises(UsageError, match="Run the analysis on the rows of each replicate"):
        medsynth.combine(found)
    with pytest.raises(UsageError, match="numbers"):
        medsynth.combine(["a", "b"])  # type: ignore[list-item]


@pytest.mark.nightly
def test_both_commands(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved.parent)
    run = CliRunner()
    words = ["estimate", "mean(age)", "pulse ~ age", "--replicates", "2", "--json"]
    done = run.invoke(app, words)
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert [one["term"] for one in content["answers"]] == ["mean(age)", "age"] and len(content["sentences"]) == 2
    made = run.invoke(app, ["tables", saved.name, "--replicates", "2"])
    assert made.exit_code == 0, made.output
    names = {path.name for path in Path("small.noisy").iterdir()}
    assert {"index.html", "table-one.html", "table-one.csv", "pairs-of-columns-by-class.csv"} <= names
    page = Path("small.noisy/table-one.html").read_text()
    assert "ill=yes" in page and "age, mean (SD)" in page and "<script" not in page
    assert run.invoke(app, ["tables", saved.name, "--replicates", "0"]).exit_code != 0
    again = run.invoke(app, ["tables", saved.name, "--replicates", "0", "--force", "--json"])
    assert again.exit_code == 0 and json.loads(again.stdout)["tables"] > 10
    for words in (["estimate", saved.name], ["estimate", saved.name, "mean(bmi)"]):
        assert run.invoke(app, words).exit_code == 2


@pytest.mark.nightly
def test_a_sample_and_its_folder_warn(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved.parent)
    done = CliRunner().invoke(app, ["sample", saved.name, "-n", "50", "--force"])
    assert "--replicates 20 -o small.replicates.csv" in done.stderr and "medsynth estimate" in done.stderr
    assert CliRunner().invoke(app, ["metadata", saved.name, "--force"]).exit_code == 0
    first = Path("small.package/README.md").read_text().splitlines()[2]
    assert first.startswith("**P-values") and "treated=" in first and "ill=no and ill=yes" in first


def test_a_model_without_releases_is_refused() -> None:
    exact = medsynth.fit(simulated(100, 1), schema=SCHEMA, rows=100, no_dp=True, settings={"steps": 2})
    for ask in (noisy_tables, lambda model: model.estimate("mean(age)")):
        with pytest.raises(MedsynthError, match="without noise"):
            ask(exact)  # type: ignore[operator]


def test_a_plan_says_what_it_can_find() -> None:
    """Less noise finds weaker effects; real rows find the weakest; without regressions nothing is said."""

    def least(rows: int, epsilon: float) -> list[float]:
        (note,) = [n for n in medsynth.plan(rows, epsilon=epsilon, inference=["y ~ a + b"]).notes if "power" in n]
        return [float(number) for number in re.findall(r"0\.\d\d", note)]

    assert least(20_000, 3.7)[0] < least(4_000, 3.7)[0] < least(4_000, 1)[0]
    assert not any("power" in note for note in medsynth.plan(4_000, epsilon=1).notes)


@pytest.mark.nightly
def test_intervals_cover() -> None:
    """Ten small tables: of about 200 intervals, as many cover as if each did with probability .9, but for 1 in 10,000.

    Of the relations that do not exist, few have p < .05: a probability of .1 each, but for 1 in 10,000.
    """
    covered, wrong = list[bool](), list[bool]()
    for run in range(10):
        made = medsynth.fit(simulated(500, 100 + run), schema=SCHEMA, epsilon=3.7, rows=500, inference=DECLARED,
                            settings={"steps": 100})  # fmt: skip
        for one in made.estimate(*QUESTIONS, replicates=8, seed=run):
            if one.basis not in ("declared", "counted"):
                continue
            key = one.question, one.term
            covered.append(bool(one.low is None or one.low <= truth()[key] <= (one.high or 0.0)))
            wrong += [bool(one.p_value and one.p_value < 0.05)] * (key in NULL)
    assert sum(covered) >= binom.ppf(1e-4, len(covered), 0.9)
    assert sum(wrong) <= binom.ppf(1 - 1e-4, len(wrong), 0.1)
