"""Critics on shards train in float32: one shard's rows, whatever they are, leave all else the same, bit for bit.

One shard's rows are no numbers, infinite, huge, too small for a normal number, alternating, of another class or absent.
All other critics, their optimisers and their answers are compared bit for bit. What the odd shard adds to an answer is
within the sensitivity that is charged, exactly, in whole numbers.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from held import Answer, ExactAnswers, critics_of

from medsynth.privacy.accounting.events import Event, Gaussian, PublicOrderGaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.release import Releases
from medsynth.privacy.shards import CriticConfig, Shards, unit_of
from medsynth.rng import SeededEntropy

CLASSES, BOUND = 2, 0.7
ODD, FIRST = 1, 3  # the shard that differs, and how many shards are measured one by one
VALUES = {
    "no number": math.nan, "infinite": math.inf, "minus infinity": -math.inf, "huge": 3e38, "far below": -1e30,
    "subnormal": 1e-42, "zero": 0.0,
}  # fmt: skip
KINDS = (*VALUES, "alternating", "another class", "absent", "many")
SMALL = (3, 5, CriticConfig(width=8))
SHAPES = [  # shards, features, critics: of these sizes products take other paths
    (20, 65, CriticConfig()), (150, 101, CriticConfig(width=8)), (30, 101, CriticConfig(batch=16)),
    (4, 513, CriticConfig(width=64, batch=8)),
]  # fmt: skip


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> ExactAnswers:
    return ExactAnswers(monkeypatch)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def rows_of(shards: int, width: int, kind: str | None) -> tuple[torch.Tensor, Any]:
    """Six rows a shard, and the shard of each."""
    place = np.arange(6 * shards) // 6
    rows = torch.rand(len(place), width + CLASSES, generator=torch.Generator().manual_seed(0))
    rows[:, width:] = torch.eye(CLASSES)[torch.arange(len(place)) % CLASSES]
    own = torch.from_numpy(place == ODD)
    if kind in VALUES:
        rows[own, :width] = VALUES[kind]
    elif kind == "alternating":
        rows[own, :width] = 1e4 * (-1.0) ** torch.arange(width) * (-1.0) ** torch.arange(6)[:, None]
    elif kind == "another class":
        rows[own, width:] = torch.eye(CLASSES)[:1]
    elif kind == "absent":
        return rows[~own], place[~own.numpy()]
    elif kind == "many":
        return torch.cat([rows, *[rows[own]] * 9]), np.append(place, np.full(54, ODD))
    return rows, place


def fit(
    exact: ExactAnswers, shape: Any, kind: str | None, loss: Any, device: str
) -> tuple[list[torch.Tensor], list[Answer]]:
    """Critics after some steps, and all kinds of answers; the critics train on in between."""
    count, width, size = shape
    config = CriticConfig(width=size.width, batch=size.batch, rate=0.05, loss=loss)
    order = PublicOrderGaussian(multiplier=1.0, shards=count)
    events: dict[str, tuple[Event, int]] = {"row by row": (order, FIRST), "joint": (order, FIRST)}
    events |= {label: (Gaussian(multiplier=1.0), 2) for label in ("sum", "joint sum", "votes", "slopes")}
    ledger = Ledger(delta=1e-5, accountant="prv", random_source="t", allowance=events)
    rows, place = rows_of(count, width, kind)
    shards = Shards(rows.to(device), place, count, CLASSES, config, Releases(ledger, SeededEntropy(3)))
    draw, along = torch.Generator().manual_seed(5), torch.randn(width, 3, generator=torch.Generator().manual_seed(6))
    pool = torch.rand(CLASSES, 8, width + CLASSES, generator=draw)
    pool[..., width:] = torch.eye(CLASSES)[:, None]
    pool, along = pool.to(device), along.to(device)
    exact.next()
    for _ in range(2):
        for _ in range(5):
            shards.train(pool)
        fakes = pool[:, :2].flatten(0, 1)
        shards.measure_upstream_sum("sum", fakes, BOUND)
        shards.measure_upstream_sum("joint sum", fakes, BOUND, joint=True)
        shards.measure_votes("votes", fakes)
        shards.measure_gradient_votes("slopes", fakes, along, BOUND, 5)
    for label, joint in (("row by row", False), ("joint", True)):
        for _ in range(FIRST):
            shards.measure_upstream_gradient(label, fakes, BOUND, joint=joint)
    return critics_of(shards), exact.answers


def check(exact: ExactAnswers, shape: Any, loss: Any, kinds: Any = KINDS, device: str = "cpu") -> None:
    critics, answers = fit(exact, shape, None, loss, device)
    others = torch.arange(shape[0] * CLASSES, device=device) // CLASSES != ODD
    moved = 0.0
    for kind in kinds:
        found, odd = fit(exact, shape, kind, loss, device)
        for one, two in zip(critics, found, strict=True):
            assert torch.equal(one[others], two[others]), (kind, "another critic")
        turns = dict.fromkeys(("row by row", "joint"), 0)
        for one, two in zip(answers, odd, strict=True):  # type: ignore[assignment]
            assert isinstance(one, Answer) and isinstance(two, Answer)
            distance = one.distance(two)
            moved = max(moved, distance)
            assert distance <= 1 + 1e-12, (kind, one.label)
            if one.label in turns:
                shard, turns[one.label] = turns[one.label], turns[one.label] + 1
                assert shard == ODD or distance == 0, (kind, "another shard's answer")
                if shard == ODD:
                    within_bound(two.arrays[0][0], joint=one.label == "joint")
    assert moved > 0.1


def within_bound(whole: Any, *, joint: bool) -> None:
    """The norm of a clipped gradient, or of each row of it, is at most the bound: in whole numbers."""
    for part in [whole.ravel()] if joint else whole:
        assert sum(int(number) ** 2 for number in part) * Fraction(unit_of(BOUND)) ** 2 <= Fraction(BOUND) ** 2


@pytest.mark.parametrize("loss", ["wasserstein", "cross-entropy"])
def test_one_odd_shard_is_one_odd_shard(loss: Any, exact: ExactAnswers) -> None:
    check(exact, SMALL, loss)


OF_OTHER_SIZES = ("no number", "infinite", "huge", "subnormal", "absent")


@pytest.mark.nightly
@pytest.mark.parametrize("loss", ["wasserstein", "cross-entropy"])
@pytest.mark.parametrize("shape", SHAPES, ids=[f"{count} shards of {width}" for count, width, _ in SHAPES])
def test_whatever_the_size_of_products(shape: Any, loss: Any, exact: ExactAnswers) -> None:
    check(exact, shape, loss, OF_OTHER_SIZES)


@pytest.mark.nightly
def test_whatever_the_number_of_threads(two_threads: None, exact: ExactAnswers) -> None:
    """A fit computes on one thread. On two the critics are equal too."""
    check(exact, SHAPES[0], "wasserstein", OF_OTHER_SIZES)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("loss", ["wasserstein", "cross-entropy"])
@pytest.mark.parametrize(
    "shape", [SMALL, *SHAPES], ids=[f"{count} shards of {width}" for count, width, _ in [SMALL, *SHAPES]]
)
def test_on_a_gpu(shape: Any, loss: Any, exact: ExactAnswers) -> None:
    check(exact, shape, loss, device="cuda")
