"""With all releases held, whole fits of every method on neighbouring tables release the same bytes.

A table is fitted, and every release is recorded. Then its neighbours are fitted with the same entropy: a row of
extremes, a row of missing cells, the last row gone, and the same of a patient's rows. Each draws every release from its
own rows and continues with the recorded one. Four things are compared.

- What a fit releases: model file, ledger, notices, progress, log, output and sampled rows. They must be equal.
- The exact answers behind the releases. They differ by at most the sensitivity that is charged, or twice that for a row
  that is replaced by another row.
- The critics on shards. One shard's rows differ, so all other critics and their optimisers are equal, bit for bit.
- The answers of single shards. Only those of the shard that differs may differ.

The class `c` is that of one row alone, the last one. Its class and its part of a shard are empty without it.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from held import Answer, ExactAnswers, FixedReleases, critics_of

import medsynth
from medsynth.methods.registry import CLAIMING, METHODS
from medsynth.privacy.accounting.events import PublicOrderGaussian, ShardSampledGaussian, Thresholded
from medsynth.sampling import Draw, sample_csv
from medsynth.schema import Schema

pytestmark = pytest.mark.usefixtures("quick", "fixed_entropy")

ROWS, MOST, EPSILON = 60, 3, 200.0  # a budget under which releases depend on the rows and not on noise alone
PLAIN: dict[str, dict[str, Any]] = {
    "age": {"kind": "count", "bounds": [0, 120]},
    "dose": {"kind": "continuous", "bounds": [0, 100], "decimals": 1, "scale": "log"},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
    "y": {"kind": "categorical", "levels": ["a", "b", "c"]},
}
MIXED: dict[str, dict[str, Any]] = {name: {**column, "missing": True} for name, column in PLAIN.items()} | {
    "site": {"kind": "categorical", "levels": ["n", "e", "s", "w"], "missing": True},
}


def schema_of(columns: dict[str, Any], **more: Any) -> Schema:
    return Schema.from_dict({"name": "t", "target": "y", "columns": columns, **more})


def table() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": draw.integers(18, 90, ROWS),
            "dose": np.round(draw.uniform(0.1, 80, ROWS), 1),
            "sick": draw.choice(["no", "yes"], ROWS),
            "y": draw.choice(["a", "b"], ROWS),
            "site": draw.choice(["n", "e", "s"], ROWS),
            "who": [f"p{k // 2}" for k in range(ROWS)],
            "day": [f"2020-{k % 12 + 1:02}-{k % 27 + 1:02}" for k in range(ROWS)],
        }
    )
    frame.loc[ROWS - 1, "y"] = "c"
    return frame.astype(object)


EXTREME: dict[str, Any] = {"age": 120, "dose": 100.0, "sick": "yes", "y": "c", "site": "w"}


@dataclass(frozen=True)
class Case:
    """A method, its options, and the columns of its table."""

    method: str
    preset: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Any] = field(default_factory=lambda: MIXED)
    more: dict[str, Any] = field(default_factory=dict)  # options of the fit
    public: bool = False


CASES = {
    # So many steps that gradients exceed the threshold below which the generator stays at its start.
    "gs-wgan": Case("gs-wgan", settings={"steps": 8}),
    "gs-wgan joint": Case("gs-wgan", settings={"steps": 8, "joint": True}),
    "gs-wgan public-order": Case("gs-wgan", "public-order", {"steps": 8}),
    "gs-wgan all-critics": Case("gs-wgan", "all-critics", {"steps": 16}),
    "gs-wgan all-critics joint": Case("gs-wgan", "all-critics", {"steps": 16, "joint": True}),
    "gs-wgan one shard": Case("gs-wgan", settings={"steps": 8, "shards": 1}),
    "pate-gan": Case("pate-gan"),
    "g-pate": Case("g-pate"),
    "dp-gan": Case("dp-gan"),
    "dp-gan weight-bias": Case("dp-gan", settings={"groups": "weight-bias", "rate": 1.0}),
    "dp-gan clustered fixed": Case("dp-gan", settings={"groups": "clustered", "bounds": "fixed"}),
    "dp-gan public": Case("dp-gan", settings={"groups": "weight-bias", "rate": 1.0}, public=True),
    "dp-gan federated-averaging": Case("dp-gan", "federated-averaging", {"groups": "weight-bias"}),
    "dp-cgan": Case("dp-cgan"),
    "dp-cgan microbatches": Case("dp-cgan", more={"microbatches": 4}),
    "dp-cgan random-features": Case("dp-cgan", "random-features"),
    "dp-cgan random-features microbatches": Case("dp-cgan", "random-features", more={"microbatches": 4}),
    "dp-cgan thyroid-study": Case("dp-cgan", "thyroid-study", {"steps": 6}, PLAIN),
    "dp-cgan thyroid-study microbatches": Case("dp-cgan", "thyroid-study", {"steps": 6}, PLAIN, {"microbatches": 4}),
    "dp-merf": Case("dp-merf"),
    "independent": Case("independent"),
    "margins": Case("margins"),
    "mixture": Case("mixture"),
    "mixture public": Case("mixture", public=True),
    "mixture products": Case("mixture", settings={"products": 0.05}),
    "mixture inference": Case("mixture", more={"inference": ["y ~ age + dose"]}),
}
PRIVATE = [name for name, case in CASES.items() if not case.public]
BARE = [name for name, case in CASES.items() if not (case.public and METHODS[case.method].whole_public_rows)]
OF_PATIENTS = [name for name, case in CASES.items() if "inference" not in case.more]  # it needs one row per patient


def test_every_method_and_preset_has_a_case() -> None:
    wanted = {(name, preset) for name in CLAIMING for preset in (None, *METHODS[name].presets)}
    assert wanted == {(case.method, case.preset) for case in CASES.values()}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> tuple[FixedReleases, ExactAnswers]:
    return FixedReleases(monkeypatch), ExactAnswers(monkeypatch)


@pytest.fixture
def released(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Callable[..., dict[str, Any]]:
    """Everything that a fit gives away."""
    caplog.set_level(logging.DEBUG)

    def fit(case: Case, frame: pd.DataFrame, **options: Any) -> dict[str, Any]:
        caplog.clear()
        told: list[Any] = []
        if case.public:
            table()[[*frame]][::3].to_csv(tmp_path / "public.csv", index=False)
            options |= {"public": tmp_path / "public.csv", "citation": "Smith 2020"}
        model = medsynth.fit(
            frame, epsilon=EPSILON, anyway=True, method=case.method, preset=case.preset, settings=case.settings,
            rows=ROWS, seed=1, notice=told.append, progress=lambda plan, *facts: told.append(facts), phase=told.append,
            **case.more, **options,
        )  # fmt: skip
        return {
            "facts": json.dumps(model.describe()),
            "model": model.save(tmp_path / "m.medsynth", force=True).read_bytes(),
            "told": told,
            "log": [record.getMessage() for record in caplog.records],
            "output": capsys.readouterr(),
            "rows": sample_csv(model, Draw(rows=40, seed=2)),
        }

    return fit


Neighbours = dict[str, tuple[pd.DataFrame, int, int]]  # the table, one of the rows that differ, emptied records


def neighbours(frame: pd.DataFrame, columns: dict[str, Any], who: str | None = None) -> Neighbours:
    """Neighbouring tables. Where patients are the unit, `who` is their column; the last of them differs."""
    last = [ROWS - 1] if who is None else np.flatnonzero(frame[who] == frame[who].iloc[-1]).tolist()
    odd = [7] if who is None else last
    extreme, empty = frame.copy(), frame.copy()
    for name, column in columns.items():
        extreme.loc[odd, name] = EXTREME.get(name, frame[name].iloc[-1])
        if column.get("missing"):
            empty.loc[odd, name] = None
    return {
        "extreme": (extreme, 7 if who is None else -1, 2),
        "empty": (empty, 7 if who is None else -1, 2),
        "gone": (frame.drop(index=last).reset_index(drop=True), -1, 1),
    }


def compare(
    held: tuple[FixedReleases, ExactAnswers], fit: Callable[[pd.DataFrame], dict[str, Any]], frame: pd.DataFrame,
    others: Neighbours,
) -> float:  # fmt: skip
    """Fit a table and its neighbours. Returns the largest distance of two answers over the claim."""
    fixed, exact = held
    one, answers, shards = fit(frame), exact.answers, exact.shards
    critics = [critics_of(made) for made, _ in shards]
    most = 0.0
    for name, (other, changed, records) in others.items():
        fixed.again()
        exact.next()
        two = fit(other)
        for part in one:
            assert two[part] == one[part], (name, part)
        assert fixed.at == len(fixed.known)
        odd = [int(place[changed]) for _, place in shards]
        for (made, _), before, (same, _), own in zip(shards, critics, exact.shards, odd, strict=True):
            keep = torch.arange(made._count * made._classes) // made._classes != own
            for p, q in zip(before, critics_of(same), strict=True):
                assert torch.equal(p[keep], q[keep]), (name, "another shard's critic")
        most = max(most, *distances(answers, exact.answers, records, odd))
    return most


def distances(one: list[Answer], two: list[Answer], records: int, odd: list[int]) -> list[float]:
    """How far apart answers lie, over what is charged. A shard changes in whatever way, and others not at all."""
    assert [answer.label for answer in one] == [answer.label for answer in two]
    found, turn = [], 0
    for a, b in zip(one, two, strict=True):
        if isinstance(a.event, Thresholded):
            continue  # of texts, which differ: those that are released are on record
        of_shard = isinstance(a.event, ShardSampledGaussian | PublicOrderGaussian) or "votes" in a.label
        found.append(a.distance(b) / (1 if of_shard else records))
        assert found[-1] <= 1 + 1e-12, a.label
        if isinstance(a.event, PublicOrderGaussian):
            assert turn % a.event.shards == odd[0] or found[-1] == 0, "another shard's answer"
            turn += 1
    return found


QUICK = ("gs-wgan joint", "mixture public", "pate-gan", "dp-gan weight-bias", "dp-cgan microbatches", "dp-merf")


@pytest.mark.matrix
@pytest.mark.nightly_for(*(name for name in CASES if name not in QUICK))
@pytest.mark.parametrize("name", CASES)
def test_one_row(name: str, held: Any, released: Callable[..., dict[str, Any]]) -> None:
    case = CASES[name]
    frame, schema = table()[[*case.columns]], schema_of(case.columns)
    most = compare(held, lambda some: released(case, some, schema=schema), frame, neighbours(frame, case.columns))
    assert most > 0.3  # the neighbours do differ


def of_patients(columns: dict[str, Any]) -> pd.DataFrame:
    """Patients of two rows but for the last three, who have five, of whom three stay."""
    frame = table()[["who", "day", *columns]]
    for k, who in enumerate(("p27", "p28", "p29")):
        frame.loc[[*range(3 * k, 3 * k + 3)], "who"] = who
    return frame.sort_values("who", key=lambda names: names.str[1:].astype(int), kind="stable").reset_index(drop=True)


@pytest.mark.nightly
@pytest.mark.parametrize("name", OF_PATIENTS)
def test_one_patient(name: str, held: Any, released: Callable[..., dict[str, Any]]) -> None:
    case = CASES[name]
    frame = of_patients(case.columns).drop(columns="day")
    schema = schema_of({"who": {"kind": "identifier"}, **case.columns}, unit="who", max_rows=MOST)
    compare(held, lambda some: released(case, some, schema=schema), frame, neighbours(frame, case.columns, "who"))


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in BARE if CASES[name].preset != "thyroid-study"])
def test_one_row_of_a_bare_table(name: str, held: Any, released: Callable[..., dict[str, Any]]) -> None:
    case = CASES[name]
    frame = table()[[*case.columns]]
    target = None if METHODS[case.method].ignores_target else "y"
    compare(held, lambda some: released(case, some, target=target), frame, neighbours(frame, case.columns))


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in PRIVATE if name in OF_PATIENTS])
def test_one_patient_over_time(name: str, held: Any, released: Callable[..., dict[str, Any]]) -> None:
    case = CASES[name]
    frame = of_patients(case.columns)
    columns = {"who": {"kind": "identifier"}, "day": {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]}}
    schema = schema_of({**columns, **case.columns}, unit="who", max_rows=MOST, order="day")
    compare(held, lambda some: released(case, some, schema=schema), frame, neighbours(frame, case.columns, "who"))
