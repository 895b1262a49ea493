"""Public rows centre the prior of a fit, and split noise decides how far: the releases stay what they are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from medsynth.arrays import Codes
from medsynth.mixture import constants as k
from medsynth.mixture import public
from medsynth.mixture.constants import UNKNOWN
from medsynth.mixture.estimate import CentredPrior, Prior
from medsynth.mixture.fit import blank
from medsynth.mixture.measurement import Measured, Measurement, RuleMeasurement
from medsynth.mixture.model import MixtureModel
from medsynth.mixture.public import (
    ALONE,
    AS_TODAY,
    CANDIDATES,
    PublicCounts,
    informed,
    informed_shares,
    informed_sizes,
    split,
)
from medsynth.mixture.stages import Stages
from medsynth.rng import NoNoise, SeededEntropy, numpy_stream
from tests.mixture.test_estimate import ORDERED, SIZES, mixture
from tests.mixture.test_stages import SCHEMA, counts, stages, table

Floats = NDArray[np.float64]
NAMES = SCHEMA.names


def own_stages(epsilon: float = 1.0, seed: int = 0) -> tuple[Stages, list[Measured]]:
    own = stages(table(), SeededEntropy(seed), epsilon)
    return own, own.measured()


def fitted(codes: Codes, epsilon: float = 1.0, steps: int = 60) -> tuple[Stages, Stages, MixtureModel, Any]:
    own, measured = own_stages(epsilon)
    found, model, trust = informed(own, measured, codes, blank(own, 8, 0), steps, lambda done, of: None)
    return own, found, model, trust


def turned(codes: Codes) -> Codes:
    """The rows with the opposite values in every column but the classes."""
    found = codes.copy()
    for place, most in enumerate((99, 1, 11)):
        found[:, place] = np.where(codes[:, place] > most, codes[:, place], most - codes[:, place])
    return found


def public_of(counted: PublicCounts, measured: Sequence[Measured]) -> list[Measured]:
    return [own for one in measured if (own := counted.of_public(one)) is not None]


# Split noise


def test_split_releases_add_up_to_the_release_and_are_independent() -> None:
    own, measured = own_stages()
    g = k.SPLIT
    first, second = split(measured, np.random.default_rng(0))
    for one, a, b in zip(measured, first, second, strict=True):
        assert np.allclose((a.values + g**2 * b.values) / (1 + g**2), one.values)
        assert np.allclose(a.std, np.asarray(one.std) * np.sqrt(1 + g**2))
        assert np.allclose(b.std, np.asarray(one.std) * np.sqrt(1 + g**-2))
    noise = 3 * np.random.default_rng(1).standard_normal(100_000)
    release: Any = [Measurement(columns=("age",), values=noise[None], std=np.full((1, 100_000), 3.0))]
    (a,), (b,) = split(release, np.random.default_rng(2))
    pair = np.stack([a.values[0], b.values[0]])
    assert np.allclose(pair.std(1), [float(np.mean(a.std)), float(np.mean(b.std))], rtol=0.02)
    assert abs(np.corrcoef(pair)[0, 1]) < 4 / np.sqrt(100_000)  # false alarms: 6e-5; the seeds are fixed


def test_a_candidate_is_fitted_to_one_half_and_scored_by_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last fit sees the release itself. The extra noise comes from the public stream of its own name."""
    own, measured = own_stages()
    halves: dict[str, list[Measured]] = {}
    drawn, seen = list[float](), list[str]()
    true_split, true_estimate, true_loss = public.split, public.estimate, public.Loss

    def of(some: Sequence[Measured]) -> str:
        if found := [name for name, half in halves.items() if some is half]:
            return found[0]
        return "release" if some is measured else "covered" if some[0] is measured[0] else "public"

    def halved(some: Sequence[Measured], rng: Any) -> Any:
        assert some is measured
        halves["first"], halves["second"] = true_split(some, rng)
        drawn.append(float(rng.standard_normal()))
        return halves["first"], halves["second"]

    def estimated(model: Any, some: Any, *rest: Any, **more: Any) -> None:
        seen.append(f"fit {of(some)}")
        true_estimate(model, some, *rest, **more)

    def loss(model: Any, some: Any) -> Any:
        seen.append(f"score {of(some)}")
        return true_loss(model, some)

    for name, function in (("split", halved), ("estimate", estimated), ("Loss", loss)):
        monkeypatch.setattr(public, name, function)
    informed(own, measured, table(1), blank(own, 4, 0), 3, lambda done, of: None)
    trials = len(CANDIDATES) - 1  # public rows alone need no fit
    expected = ["fit public", *["fit first"] * trials, *["score second"] * len(CANDIDATES), "score covered"]
    assert seen[: len(expected)] == expected and seen[len(expected) :] in ([], ["fit release"])
    stream = numpy_stream(own.seed, "split noise")
    for one in measured:
        stream.standard_normal(np.shape(one.values))
    assert drawn == [float(stream.standard_normal())]


# Counts of public rows


def test_public_rows_are_counted_as_a_release_without_noise_would_be() -> None:
    own = stages(table(), NoNoise())
    measured, codes = own.measured(), table(1)
    found = public_of(PublicCounts.of(own, codes), measured)
    assert len(found) == len(measured)
    for one, made in zip(measured, found, strict=True):
        table_of = counts(own, codes, one.columns, 1 if isinstance(one, Measurement) and len(one.values) == 1 else 3)
        if isinstance(one, RuleMeasurement):
            inputs = one.map.reshape(-1, one.map.shape[-1])
            assert np.allclose(made.values, table_of.reshape(3, -1) @ inputs)
        elif one.maps:
            assert np.allclose(made.values, np.einsum("ia,cab,jb->cij", one.maps[0], table_of, one.maps[1]))
        else:
            assert np.allclose(made.values, table_of)


def test_cells_that_are_not_known_are_left_out() -> None:
    own = stages(table(), NoNoise())
    measured, codes = own.measured(), table(1)
    codes[:, NAMES.index("ward")] = UNKNOWN
    codes[::2, NAMES.index("sex")] = UNKNOWN
    own_counts = PublicCounts.of(own, codes)
    found = public_of(own_counts, measured)
    assert {name for one in found for name in one.columns} == {"age", "sex"}
    of_sex = next(one for one in found if one.columns == ("sex",) and len(one.values) == 1)
    assert np.allclose(of_sex.values, 2 * counts(own, codes[1::2], ("sex",), 1))
    known = own_counts.known(blank(own, 8, 0))
    layout = blank(own, 8, 0).layout
    assert not known[0][layout.spans["ward"]].any() and known[0][layout.spans["sex"]].all()
    codes[:, NAMES.index("ill")] = UNKNOWN
    without = PublicCounts.of(own, codes)
    assert {len(one.values) for one in public_of(without, measured)} == {1}
    base, by_class, common, latent = without.known(blank(own, 8, 0))
    assert base.any() and common.any() and not by_class.any() and not latent.any()


def test_a_level_and_a_class_without_a_public_row_are_not_known() -> None:
    own, _ = own_stages()
    codes = table(1)
    codes = codes[(codes[:, 2] != 1) & (codes[:, 3] != 2)]
    model = blank(own, 8, 0)
    base, by_class, _, _ = PublicCounts.of(own, codes).known(model)
    ward = model.layout.spans["ward"]
    assert not base[ward.start + 1] and base[ward.start] and base[model.layout.spans["age"]].all()
    assert by_class[:, 0].any() and not by_class[:, 2].any()


def test_rows_that_know_one_column_each_determine_no_relation() -> None:
    """So does a Table 1. Figures of all patients determine no differences between classes."""
    own, measured = own_stages()
    parts = []
    for place, name in enumerate(NAMES[:3]):
        part = table(1)
        part[:, [other for other in range(3) if other != place]] = UNKNOWN
        part[:, 3] = UNKNOWN if name == "age" else part[:, 3]
        parts.append(part)
    codes = np.concatenate(parts)
    counted, model = PublicCounts.of(own, codes), blank(own, 8, 0)
    found = public_of(counted, measured)
    assert {len(one.columns) for one in found} == {1}
    for one in found:
        whole = counts(own, table(1), one.columns, len(one.values))
        assert np.allclose(one.values * len(table(1)) / len(codes), whole)
    base, by_class, common, latent = counted.known(model)
    age = model.layout.spans["age"]
    assert base.all() and not by_class[age].any() and by_class[model.layout.spans["ward"]].all()
    assert not common.any() and not latent.any()
    _, _, fit, trust = fitted(codes, epsilon=0.3, steps=20)
    assert trust[0] < 3 and all(bool(np.isfinite(p).all()) for p in fit.parameters())


def test_what_is_not_known_starts_as_without_public_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    own, measured = own_stages()
    codes, start = table(1), blank(own, 8, 0)
    codes[:, 1:3] = UNKNOWN
    begun: list[Any] = []
    monkeypatch.setattr(public, "estimate", lambda model, *rest, **more: begun.append((model.copy(own.sizes), more)))
    informed(own, measured, codes, start, 3, lambda done, of: None)
    for model, more in begun[1:]:
        assert np.array_equal(model.common, start.common)
        if more.get("prior") is not None:
            assert not any(bool(centre.any()) for centre in more["prior"]._centre[2:])


# The prior


def by_loops(model: MixtureModel, centre: MixtureModel, known: Any, main: float) -> float:
    """Half the squared deviations of logits, one at a time."""
    total = 0.0
    for part, (own, middle) in enumerate(((model.base, centre.base), (model.by_class, centre.by_class))):
        off = own - middle
        for name, span in model.layout.spans.items():
            for bin_, c in itertools.product(range(SIZES[name]), range(off.shape[1])):
                at, sure = span.start + bin_, known[part][span.start + bin_, c]
                if bin_ + 1 < ORDERED[name]:
                    std = main if sure else [np.inf, k.CLASS_STD][part]
                    total += ((off[at + 1, c] - off[at, c]) / std) ** 2
                if bin_ >= ORDERED[name] or (part == 0 and not sure):
                    std = main if sure else [k.RIDGE_STD, k.CLASS_STD][part]
                    total += (off[at, c] / std) ** 2
    return total / 2


def zeros(model: MixtureModel) -> list[Any]:
    return [np.zeros_like(parameter) for parameter in model.parameters()]


def masks(model: MixtureModel, *, sure: bool) -> list[Any]:
    shapes = model.base.shape, model.by_class.shape, (len(model.common),), (len(model.own),)
    found: list[Any] = [np.full(shape, sure) for shape in shapes]
    return found


@pytest.mark.parametrize("sure", [False, True, None])
def test_the_centred_prior_equals_loops(sure: bool | None) -> None:
    model, centre = mixture(4), mixture(4, seed=5)
    known = masks(model, sure=bool(sure))
    if sure is None:
        known[0][model.layout.spans["age"]] = True
        known[1][model.layout.spans["ward"]] = True
    prior = CentredPrior(model, centre, known, 0.3, 1.0)
    latent = prior.add(model, zeros(model)) - by_loops(model, centre, known, 0.3)
    pairs = zip(model.parameters()[2:], centre.parameters()[2:], strict=True)
    squares = sum(float(np.square(own - one).sum()) for own, one in pairs)
    assert latent == pytest.approx(k.LATENT_WEIGHT / (2 * k.LATENT_FLOOR) * squares / model.points / 2, rel=1e-3)
    assert prior.add(centre, zeros(centre)) == 0


def test_what_public_rows_do_not_know_is_as_free_as_without_them() -> None:
    model, centre = mixture(4), mixture(4)
    for parameter in centre.parameters():
        parameter[:] = 0
    usual, centred = Prior(model), CentredPrior(model, centre, masks(model, sure=False), 0.1, 128.0)
    for _ in range(2):
        assert centred.add(model, zeros(model)) == pytest.approx(usual.add(model, zeros(model)), rel=1e-5)
        usual.learn(model)
        centred.learn(model)


# Single columns and classes


def test_class_sizes_follow_the_noise() -> None:
    true = np.array([700.0, 200.0, 100.0])
    noisy = np.array([650.0, 260.0, 90.0])
    near = informed_sizes(noisy, 60.0, 5 * true)
    assert np.abs(near - true).sum() < np.abs(noisy - true).sum() / 2 and near.sum() == pytest.approx(1000)
    assert np.allclose(informed_sizes(noisy, 0.01, 5 * true), noisy, atol=0.1)
    wrong = informed_sizes(noisy, 10.0, 5 * true[::-1])
    assert np.abs(wrong - noisy).sum() < 20
    assert np.array_equal(informed_sizes(noisy, 60.0, np.zeros(3)), noisy)


def test_a_density_is_believed_if_the_counts_allow_it() -> None:
    own, _ = own_stages(epsilon=0.3)
    survey, fine = own.numbers.surveys["age"], own.numbers.grids["age"]
    counted, std = own.numbers.counts["age"], own.numbers.std["age"]

    def of(codes: Codes) -> Floats | None:
        cells = np.bincount(fine.cell_of(codes[:, 0]), minlength=fine.cells).astype(float)
        return informed_shares(survey, fine, counted, std, own.rows, cells)

    true = np.bincount(fine.cell_of(table()[:, 0]), minlength=fine.cells) / len(table())
    found = of(table(1))
    assert found is not None and found.sum() == pytest.approx(1)
    assert np.abs(found - true).sum() < np.abs(own.numbers.shares["age"] - true).sum()
    spiked = table(1)
    spiked[:, 0] = np.where(np.arange(len(spiked)) % 2, 3, 96)
    assert of(spiked) is None and of(table(1)[:0]) is None


# All of it


@pytest.mark.nightly
def test_public_rows_of_the_same_population_are_trusted_and_help() -> None:
    """The seeds are fixed: it cannot fail by chance."""
    own, found, model, trust = fitted(table(1), epsilon=0.1)
    _, plain, usual, _ = fitted(turned(table(1)), epsilon=0.1)
    assert trust[0] > 0 and 0.5 < trust[1] < 1.5 and plain is not found
    true = table()
    far = []
    for one in (model, usual):
        shares = one.shares().mean(-1)  # (bins, classes)
        far.append(sum(
            np.abs(shares[span] @ (own.sizes / own.sizes.sum()) - counts(own, true, (name,), 1)[0] / len(true)).sum()
            for name, span in one.layout.spans.items()
        ))  # fmt: skip
    assert far[0] < 0.6 * far[1]


def test_a_wrong_public_table_is_refused_and_changes_nothing() -> None:
    own, found, model, trust = fitted(turned(table(1)), epsilon=3.7)
    assert trust[0] == 0 and trust[1] > 3 and found is own
    same, measured = own_stages(3.7)
    plain = blank(same, 8, 0)
    public.estimate(plain, measured, 60, lambda done, of: None)
    assert all(np.array_equal(a, b) for a, b in zip(model.parameters(), plain.parameters(), strict=True))


def test_the_cuts_and_the_asked_pairs_do_not_depend_on_public_rows() -> None:
    own, found, _, _ = fitted(table(1), epsilon=0.3)
    assert found is not own and found.chosen == own.chosen and found.cut is own.cut
    assert all(np.array_equal(found.bins[name].place, own.bins[name].place) for name in own.bins)
    assert not np.array_equal(found.sizes, own.sizes)
    assert not np.array_equal(found.bins["age"].shares, own.bins["age"].shares)


def test_candidates_include_the_usual_fit_first_and_public_rows_alone() -> None:
    assert CANDIDATES[0] == AS_TODAY and CANDIDATES[-1] == ALONE
    assert {one[0] for one in CANDIDATES} == set(range(len(k.TRUST_WORDS)))


@pytest.mark.parametrize("kept", [["age"], ["ill"], ["sex", "ward"], ["age", "sex", "ward"]])
def test_public_rows_with_some_columns_or_without_the_target(kept: list[str]) -> None:
    codes = table(1)
    for place, name in enumerate(NAMES):
        if name not in kept:
            codes[:, place] = UNKNOWN
    _, _, model, trust = fitted(codes, epsilon=0.3, steps=20)
    assert np.isfinite(trust).all() and all(bool(np.isfinite(p).all()) for p in model.parameters())


def test_public_rows_in_which_nothing_is_known_are_refused() -> None:
    _, _, _, trust = fitted(np.full((50, 4), UNKNOWN, np.int32), steps=10)
    assert list(trust) == [0, 0]


def test_public_rows_of_some_columns_are_never_used_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that they lack would start from the release before its split."""
    own, measured = own_stages()
    codes = table(1)
    codes[:, 2] = UNKNOWN
    scored: list[Any] = []
    true = public.Loss

    def loss(model: Any, some: Any) -> Any:
        scored.append(some)
        return true(model, some)

    monkeypatch.setattr(public, "Loss", loss)
    informed(own, measured, codes, blank(own, 8, 0), 5, lambda done, of: None)
    assert len(scored) == len(CANDIDATES)  # without one candidate, and with the misfit of what public rows have
    assert all("ward" not in one.columns for one in scored[-1]) and 0 < len(scored[-1]) < len(measured)
