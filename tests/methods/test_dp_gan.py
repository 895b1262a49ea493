"""dp-GAN: what it plans is what it costs, public streams depend on no lot, public rows stand in the ledger."""

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import medsynth
from medsynth import rng
from medsynth.errors import SchemaError, TableError, UsageError
from medsynth.fitting.planning import plan_fit
from medsynth.fitting.settings import FitSettings
from medsynth.methods import dp_gan
from medsynth.methods.adversarial import TrainingSetup
from medsynth.methods.registry import configured, load
from medsynth.privacy.accounting import accountant
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.networks import Mlp
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.schema import Schema

pytestmark = pytest.mark.usefixtures("quick")
DP_GAN = dp_gan.DpGan()
LABELS = {"one-way marginals", "class marginal", "critic gradient sum"}


def config_of(**settings: Any) -> Any:
    return configured("dp-gan", load("dp-gan"), settings)


def run(cohort: pd.DataFrame, clinic: Schema, **options: Any) -> Any:
    citation = {"citation": "Smith 2020"} if "public" in options else {}
    given = {"epsilon": 3.7, "schema": clinic, "rows": 300, "method": "dp-gan", **citation, **options}
    return medsynth.fit(cohort, **given)


@pytest.mark.nightly
@pytest.mark.nightly_for("fixed")
@pytest.mark.parametrize("bounds", ["fixed", "quantile"])
def test_the_plan_agrees_with_an_independent_accountant(bounds: str) -> None:
    queries = DP_GAN.queries(config_of(bounds=bounds), 4000, 20, 3.7)
    plan = make_plan(queries, epsilon=3.7, delta=1e-5, rows=4000)
    other = accountant.cross_check(plan.events.values(), 1e-5)
    assert other <= plan.epsilon + 0.02 and plan.epsilon <= 1.02 * other + 0.01


@pytest.mark.matrix
@pytest.mark.parametrize("groups", dp_gan.GROUP_COUNTS)
@pytest.mark.parametrize("bounds", ["fixed", "quantile"])
def test_every_grouping_keeps_its_plan(
    groups: Any, bounds: str, cohort: pd.DataFrame, clinic: Schema, other_defaults: Any
) -> None:
    other_defaults("dp-gan", groups=groups, bounds=bounds)
    model = run(cohort, clinic)
    entries = {entry.label: entry for entry in model.ledger.entries}
    k = dp_gan.GROUP_COUNTS[groups]
    assert model.ledger.complete and model.claims and model.epsilon <= 3.7
    assert set(entries) == LABELS | ({"clipping quantiles"} if bounds == "quantile" else set())
    assert entries["critic gradient sum"].sensitivity == pytest.approx(math.sqrt(k))
    if bounds == "quantile":
        assert entries["clipping quantiles"].sensitivity == pytest.approx(math.sqrt(k) / 2)
        assert (
            model.ledger.times_measured("clipping quantiles") == model.ledger.times_measured("critic gradient sum") == 5
        )


def test_grouping_does_not_cheapen_the_noise() -> None:
    """The plan's multiplier is of the whole measurement: each group's own noise is sqrt(k) times it, over its bound."""
    planned = {groups: DP_GAN.queries(config_of(groups=groups), 4000, 20, 3.7) for groups in dp_gan.GROUP_COUNTS}
    assert all(queries == planned["global"] for queries in planned.values())


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match="dp-cgan"):
        configured("dp-gan", load("dp-gan"), {"microbatches": 4})
    with pytest.raises(UsageError, match="weight-bias"):
        configured("dp-gan", load("dp-gan"), {"groups": "magic"})
    with pytest.raises(UsageError, match="quantile"):
        configured("dp-gan", load("dp-gan"), {"bounds": "magic"})


@pytest.mark.statistical
def test_public_streams_do_not_depend_on_the_lot(
    cohort: pd.DataFrame, clinic: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all measurements blinded, fits whose secret lots differ generate the same rows at every step.

    Five binomial lots of 300 rows are equal twice with a chance below 4e-8: the false-alarm rate.
    """
    from medsynth.privacy import clipping
    from medsynth.privacy.queries import gradients, query

    pools: list[torch.Tensor] = []
    lots: list[int] = []
    true_pool, true_sum = dp_gan.GanTraining.pool, clipping.clipped_pair_sum

    def pool(game: Any) -> Any:
        pools.append(true_pool(game))
        return pools[-1]

    def summed(critic: Any, loss: Any, real: Any, fake: Any, mix: Any, *rest: Any) -> Any:
        lots.append(len(real))
        return true_sum(critic, loss, real, fake, mix, *rest)

    monkeypatch.setattr(dp_gan.GanTraining, "pool", pool)
    monkeypatch.setattr(gradients, "clipped_pair_sum", summed)
    monkeypatch.setattr(query, "noised", lambda values, std, entropy: np.ones_like(values))
    for _ in range(2):
        run(cohort, clinic, seed=1)
    half = len(pools) // 2
    assert lots[:5] != lots[5:] and half > 5
    assert all(torch.equal(a, b) for a, b in zip(pools[:half], pools[half:], strict=True))


def game(clinic: Schema, cohort: pd.DataFrame) -> Any:
    from medsynth.io.table import from_frame
    from medsynth.schema.codec import encode

    plan = make_plan(DP_GAN.queries(config_of(), 300, 9, 50.0), epsilon=50.0, delta=1e-5, rows=300)
    codes = encode(from_frame(cohort), clinic.core)
    vault = Vault(codes, clinic.core.names, Releases(plan.ledger("x"), rng.SeededEntropy(0)))
    setup = TrainingSetup.measure(clinic.core, vault, plan, "cpu")
    return dp_gan.GanTraining(setup, 0), setup.encode(codes)


@pytest.mark.nightly
def test_a_row_meets_a_generated_row_of_its_own_class(clinic: Schema, cohort: pd.DataFrame) -> None:
    made, rows = game(clinic, cohort)
    pool, classes = made.pool(), made.setup.classes
    parts = pool.reshape(len(pool), classes, -1)
    assert torch.equal(parts[:, :, -classes:], torch.eye(classes).expand(len(pool), -1, -1))
    w = torch.randn(classes * made.setup.width, generator=torch.Generator().manual_seed(0))
    for row in rows[:20]:
        c = int(row[-classes:].argmax())
        own, slope = parts[0, c], w.reshape(classes, -1)[c, :-classes].norm()
        gap = w @ made.setup.by_class(own) - w @ made.setup.by_class(row)
        expected = made.pair_loss.weights[c] * (gap + 10 * (slope - 1).clamp(min=0).square())
        found = made.pair_loss(lambda x: x @ w, row, pool[0], torch.tensor(0.3))
        assert float(found) == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.nightly
def test_a_step_of_the_critic_follows_the_gradient_of_its_parameters(clinic: Schema, cohort: pd.DataFrame) -> None:
    made, _ = game(clinic, cohort)
    sizes = [p.numel() for p in made.critic.parameters()]
    gradient = torch.arange(float(sum(sizes)))
    made.critic_step(gradient)
    assert torch.equal(torch.cat([p.grad.flatten() for p in made.critic.parameters()]), gradient)


def test_clusters_hold_parameters_of_like_gradients() -> None:
    critic = Mlp([20, 30, 1])
    count = sum(p.numel() for p in critic.parameters())
    level = torch.arange(count) % 3
    gradients = (10.0 ** -level.float())[None] * torch.tensor([[1.0], [-1.0]])
    of = dp_gan.groups_of("clustered", critic, gradients)
    assert len(set(of.tolist())) == 3 and all(len(set(of[level == j].tolist())) == 1 for j in range(3))
    parts = torch.split(dp_gan.groups_of("weight-bias", critic, gradients), [600, 30, 30, 1])
    assert [sorted(set(part.tolist())) for part in parts] == [[0], [1], [0], [1]]


@pytest.mark.statistical
def test_a_noised_quantile_finds_the_median() -> None:
    """Bounds far off on either side come to the median of the norms, under noise of a tenth.

    The seed is fixed: it cannot fail by chance.
    """
    draw = np.random.default_rng(0)
    norms = draw.lognormal(size=5000)
    bounds: tuple[float, ...] = (100.0, 0.01)
    for _ in range(150):
        below = [float((norms <= bound).mean() + 0.1 * draw.standard_normal()) for bound in bounds]
        bounds = dp_gan.next_bounds(bounds, below)
    assert all(0.7 < bound < 1.4 for bound in bounds)


@pytest.fixture
def public(tmp_path: Path, cohort: pd.DataFrame, other_defaults: Any) -> Any:
    other_defaults("dp-gan", size={"warm": 3})
    path = tmp_path / "public.csv"
    cohort.iloc[:40].to_csv(path, index=False)
    return path


@pytest.mark.nightly
def test_public_rows_stand_in_the_ledger_and_cost_nothing(
    public: Any, cohort: pd.DataFrame, clinic: Schema, other_defaults: Any, tmp_path: Path
) -> None:
    other_defaults("dp-gan", bounds="quantile", groups="weight-bias")
    model = run(cohort, clinic, public=public)
    digest = hashlib.sha256(public.read_bytes()).hexdigest()
    kept = medsynth.load(model.save(tmp_path / "m.medsynth"))
    assert any(digest in note and "40 rows" in note and "public" in note for note in kept.ledger.notes)
    assert {entry.label for entry in kept.ledger.entries} == LABELS and kept.config["public"] is True
    assert len(medsynth.sample(kept, 20)) == 20
    plan, *_ = plan_fit(300, FitSettings(epsilon=3.7, method="dp-gan", public=public, citation="Smith 2020"))
    assert set(plan.events) == LABELS


def test_public_rows_are_refused_where_nothing_learns_from_them(
    public: Any, cohort: pd.DataFrame, clinic: Schema
) -> None:
    for more in ({"method": "gs-wgan"}, {"preset": "thyroid-study"}):
        with pytest.raises(UsageError, match="`public` belongs to mixture or independent or margins or dp-gan"):
            medsynth.fit(cohort, epsilon=3.7, schema=clinic, public=public, citation="Smith 2020", **more)


def test_public_rows_need_a_declared_schema(public: Any) -> None:
    frame = pd.DataFrame({"magnitude": [1, 2, 3] * 20, "kind": ["a", "b", "c"] * 20})
    with pytest.raises(UsageError, match="declared schema"):
        medsynth.fit(frame, epsilon=3.7, method="dp-gan", public=public, citation="Smith 2020")


def test_a_bad_public_file_is_named_without_a_cell(
    public: Any, cohort: pd.DataFrame, clinic: Schema, tmp_path: Path
) -> None:
    with pytest.raises(TableError, match=r"none\.csv"):
        run(cohort, clinic, public=tmp_path / "none.csv")
    frame = pd.read_csv(public, dtype=str, keep_default_na=False)
    frame.drop(columns="diagnosis").to_csv(public, index=False)
    with pytest.raises(SchemaError, match=r"public\.csv.*'diagnosis'"):
        run(cohort, clinic, public=public)
    frame.loc[3, "diagnosis"] = "CANARY7431"
    frame.to_csv(public, index=False)
    with pytest.raises(SchemaError, match=r"public\.csv.*'diagnosis', row 4") as refused:
        run(cohort, clinic, public=public)
    assert "CANARY7431" not in str(refused.value)


@pytest.mark.nightly
def test_another_public_file_is_another_fit(public: Any, cohort: pd.DataFrame, clinic: Schema, tmp_path: Path) -> None:
    options = {"public": public, "checkpoint": tmp_path / "c"}
    run(cohort, clinic, **options)
    assert run(cohort, clinic, resume=True, **options).ledger.complete
    public.write_text(public.read_text() + public.read_text().splitlines()[-1] + "\n")
    with pytest.raises(UsageError, match="another fit"):
        run(cohort, clinic, resume=True, **options)


@pytest.mark.nightly
@pytest.mark.statistical
def test_public_rows_are_read_at_the_levels_that_were_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeded_entropy: None
) -> None:
    """Codes in a hierarchy: the levels come from noisy measurements, and the public rows go to those.

    The seed is fixed: it cannot fail by chance.
    """
    rng = np.random.default_rng(0)
    columns = {"icd": {"kind": "categorical", "hierarchy": "icd10", "unknown": "other"},
               "y": {"kind": "binary", "levels": [0, 1]}}  # fmt: skip
    schema = medsynth.Schema.from_dict({"name": "t", "target": "y", "columns": columns})
    frame = pd.DataFrame({"icd": rng.choice(["E11.9", "I10", "J45.9"], 900), "y": rng.integers(0, 2, 900)})
    frame[:50].to_csv(tmp_path / "open.csv", index=False)
    reports: list[tuple[Any, ...]] = []
    caught: list[Any] = []
    true = dp_gan.DpGan.fit

    def fit(*args: Any, **options: Any) -> Any:
        caught.append(options["public"])
        return true(*args, **options)

    monkeypatch.setattr(dp_gan.DpGan, "fit", fit)
    model = medsynth.fit(frame, epsilon=8, schema=schema, rows=900, method="dp-gan", public=tmp_path / "open.csv",
                         citation="Smith 2020", settings={"lots": 4},
                         progress=lambda *facts: reports.append(facts))  # fmt: skip
    levels = model.schema.columns["icd"].levels
    assert (
        {levels[code] for code in caught[0][:, 0]} == {"E11.9", "I10", "J45.9"}
        and model.config["lots"] == 4
        and len(reports) == 4
    )
    assert "50 rows were declared public" in " ".join(model.ledger.notes)
