"""Rows and critics of many shards behind noise: whoever reads this file has read every way in which they influence it.

Critics train freely on their own shard's rows, and are as private as these. What leaves is one tensor. GS-WGAN (Chen,
Orekondy, Fritz 2020): the clipped, noised gradient of one critic, sampled afresh and in secret, at generated rows; or,
where nothing can be kept secret, the noised sum of all critics' clipped gradients. PATE-GAN (Jordon, Yoon, van der
Schaar 2019) and G-PATE (Long et al. 2021): noised counts of all critics' votes.

One unit's rows are in one shard, so one critic changes, in whatever way, and all else is public or a function of other
rows and earlier releases. All critics train at every step, whichever is sampled, and a resumed fit keeps the placement
of rows. Why votes and sums are bounded, and why sampling amplifies: docs/proofs/shards.md, docs/proofs/votes.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..errors import BudgetError
from ..rng import torch_secret
from .accounting.events import Event, Gaussian, PublicOrderGaussian, ShardSampledGaussian
from .clipping import BOUNDS, factors
from .exact_sums import norms
from .noise import noised
from .queries.noising import Noising, WholeNoise
from .queries.query import PrivateQuery, Scale
from .queries.rows import Floats, Sealed, Whole
from .release import Release, Releases

UNIT_BITS = 32  # of the clipping norm, in the unit of a clipped gradient


@dataclass(frozen=True, eq=False)
class UpstreamSum(PrivateQuery[Tensor]):
    """The sum over all shards of their critics' gradients at generated rows, each shard's clipped to `bound`.

    fakes: (rows, width), public, of which the last `classes` columns indicate the class. The result is (rows, width -
    classes): of minus the critics' outputs. Each row of a shard's gradient is clipped, or all together with `joint`.
    Raises BudgetError for a bound that is not a positive number from 2^-64 to 2^64, and for generated rows that are not
    finite, or without a row, a class or a column that a generator sets.
    """

    fakes: Tensor
    classes: int
    bound: float
    joint: bool = False

    def __post_init__(self) -> None:
        _check_bound(self.bound)
        shaped = self.fakes.dim() == 2 and len(self.fakes) > 0 and 1 <= self.classes < self.fakes.shape[1]
        if not shaped or not self.fakes.is_floating_point() or not bool(torch.isfinite(self.fakes).all()):
            raise BudgetError("Critics are asked at generated rows of finite numbers, with classes and columns.")

    def sensitivity(self, max_rows: int | None) -> float:
        """2 bound sqrt(rows), or 2 bound with `joint`: one unit, of however many rows, changes one shard's gradient."""
        return 2 * self.bound * (1.0 if self.joint else math.sqrt(len(self.fakes)))

    def scales(self, std: float) -> Sequence[Scale]:
        """Clipped gradients are whole multiples of the unit."""
        return [Scale(std, unit_of(self.bound))]

    def result(self, arrays: list[Floats]) -> Tensor:
        """The noised sum."""
        return torch.from_numpy(arrays[0]).to(self.fakes)


class Shards(Sealed):
    """Encoded rows, (rows, width), in `count` shards with a critic each.

    place: (rows,) shard of each row. The last `classes` columns of a row indicate its class; the columns before them
    are those that a generator sets. A shard's critic is one network a class: in shared layers the class with the
    largest gradients dominated the others. A class's row weighs alike whatever else is in its shard. `noising` is that
    of the rows' vault, for sums over all shards.
    """

    __slots__ = (
        "__critics",
        "__noising",
        "__releases",
        "__rows",
        "__sizes",
        "__starts",
        "__stream",
        "_classes",
        "_count",
        "_steps",
    )

    def __init__(
        self,
        rows: Tensor,
        place: NDArray[np.int64],
        count: int,
        classes: int,
        config: CriticConfig,
        releases: Releases,
        noising: Noising | None = None,
    ) -> None:
        self.__noising = noising or WholeNoise()
        self._count, self._classes, self.__releases = count, classes, releases
        self._steps = Counter[str]()  # measurements so far, by label: each has an order of its own
        self.__stream = torch_secret(releases.entropy, str(rows.device))
        self.__critics = Critics(count * classes, rows.shape[1] - classes, config, self.__stream)
        group = torch.from_numpy(place).to(rows.device) * classes + rows[:, -classes:].argmax(1)
        self.__sizes = torch.bincount(group, minlength=count * classes)
        self.__starts = self.__sizes.cumsum(0) - self.__sizes
        # Side by side and not padded: no index reaches another shard's rows. Empty groups read the row of zeros.
        kept = rows[torch.argsort(group, stable=True), :-classes]
        self.__rows = torch.cat([kept, rows.new_zeros(1, kept.shape[1])])

    def train(self, fakes: Tensor) -> None:
        """One step of every critic on its own rows, against generated rows of the same classes.

        fakes: (classes, rows, width), public; the same for all critics. Releases nothing.
        """
        rows, groups = self.__critics.config.batch, len(self.__sizes)
        chance = torch.rand(2, groups, rows, generator=self.__stream, device=fakes.device, dtype=torch.float64)
        index = self.__starts[:, None] + (chance[0] * self.__sizes[:, None]).long()
        filled = (self.__sizes > 0)[:, None].expand(-1, rows)
        real = self.__rows[torch.where(filled, index, len(self.__rows) - 1)]
        own = torch.arange(groups, device=fakes.device)[:, None] % self._classes
        chosen = fakes[own, (chance[1] * fakes.shape[1]).long(), : -self._classes]
        self.__critics.step(real, chosen, filled.to(real) / rows)

    def measure_upstream_gradient(self, label: str, fakes: Tensor, bound: float, *, joint: bool = False) -> Tensor:
        """The noised gradient of one critic, sampled in secret, at generated rows: what the generator learns from.

        Where the plan holds a public order, critics follow one another in an order that depends on nothing.

        fakes: (rows, width), public. Returns (rows, width - classes), the gradient of minus the critic's outputs. Each
        row of it is clipped to `bound`, or all together with `joint`; where the sampled shard has no row of
        a generated row's class it is zero before the noise. Any two shards' gradients differ by at most the
        sensitivity, 2 bound sqrt(rows), or 2 bound with `joint`, whatever their rows.
        Raises BudgetError if the plan does not hold the measurement as one of these shards, or for a bound that is not
        positive.
        """
        _check_bound(bound)
        event = self.__releases.event(label)  # A plan with more shards than there are would charge too little.
        if not isinstance(event, ShardSampledGaussian | PublicOrderGaussian) or event.shards != self._count:
            raise BudgetError(f"{label!r} reads one of {self._count} shards: it is planned so or not at all.")
        sensitivity = 2 * bound * (1.0 if joint else math.sqrt(len(fakes)))
        in_order = self._steps[label] % self._count
        self._steps[label] += 1

        def draw(event: Event) -> Release:
            shard = in_order if isinstance(event, PublicOrderGaussian) else self.__sample_shard()
            whole = clipped(self.__gradient(shard, fakes), bound, joint).cpu().numpy()
            std = event.multiplier * sensitivity / (unit := unit_of(bound))
            return Release([noised(whole, std, self.__releases.entropy) * unit])

        return self.__released(label, sensitivity, draw, fakes)

    def measure_upstream_sum(self, label: str, fakes: Tensor, bound: float, *, joint: bool = False) -> Tensor:
        """The noised sum of all critics' clipped gradients at generated rows, (rows, width - classes): `UpstreamSum`.

        Raises BudgetError if the plan does not hold the measurement as a plain Gaussian one.
        """
        if type(self.__noising) is not WholeNoise:
            raise BudgetError("These shards' sums are parts of one over several vaults: none is an answer by itself.")
        query = UpstreamSum(fakes, self._classes, bound, joint)
        return query.result(self.release(label, query).arrays)

    def release(self, label: str, query: UpstreamSum) -> Release:
        """What leaves these shards of such a sum: the noised one or, where several vaults' are added up, a part of it.

        Raises BudgetError as `measure_upstream_sum` does, and for generated rows of other classes.
        """
        if query.classes != self._classes:
            raise BudgetError("The generated rows have other classes than the shards.")
        sensitivity = self.__of_all(label, query.sensitivity(None))

        def draw(event: Event) -> Release:
            std = event.multiplier * sensitivity
            return Release(self.__noising.released(query, self.__sum(query), std, self.__releases.entropy))

        return self.__releases.release(label, sensitivity, draw)

    def measure_votes(self, label: str, fakes: Tensor) -> Tensor:
        """For each generated row, the noised number of shards whose critic takes it for real.

        fakes: (rows, width), public. Returns (rows,). A shard without a row of a generated row's class gives half a
        vote. One unit changes one shard, so each of the counts by at most one: L2 sensitivity sqrt(rows), and no more
        for a patient of many rows. Raises BudgetError if the plan does not hold the measurement.
        """
        sensitivity = self.__of_all(label, math.sqrt(len(fakes)))

        def draw(event: Event) -> Release:
            halves = torch.stack([self.__halves(fake) for fake in fakes]).sum(1)
            noisy = noised(halves.cpu().numpy(), 2 * event.multiplier * sensitivity, self.__releases.entropy)
            return Release([noisy / 2])

        return self.__released(label, sensitivity, draw, fakes)

    def measure_gradient_votes(self, label: str, fakes: Tensor, projection: Tensor, bound: float, bins: int) -> Tensor:
        """For each generated row and direction, the noised numbers of shards by the slope of their critic along it.

        fakes: (rows, width); projection: (width - classes, directions); both public. The gradient of minus a critic's
        output, projected, is cut to `bound` and rounded to the nearest of `bins` evenly spaced numbers from -bound to
        bound; a shard without a row of the class votes for the middle. Returns (rows, directions, bins). One unit
        changes one shard, whose vote moves from one bin to another for each row and direction: L2 sensitivity
        sqrt(2 rows directions). Raises BudgetError if the plan lacks it, or for a bound that is not positive.
        """
        _check_bound(bound)
        sensitivity = self.__of_all(label, math.sqrt(2 * len(fakes) * projection.shape[1]))

        def draw(event: Event) -> Release:
            places = torch.stack([self.__slope_bins(fake, projection, bound, bins) for fake in fakes])
            counts = functional.one_hot(places, bins).sum(1)
            return Release([noised(counts.cpu().numpy(), event.multiplier * sensitivity, self.__releases.entropy)])

        return self.__released(label, sensitivity, draw, fakes)

    def __released(self, label: str, sensitivity: float, draw: Callable[[Event], Release], like: Tensor) -> Tensor:
        return torch.from_numpy(self.__releases.release(label, sensitivity, draw).arrays[0]).to(like)

    def __sum(self, query: UpstreamSum) -> list[Whole]:
        """The exact sum over all shards, in the unit of clipped gradients: each shard's is clipped by itself."""
        found = self.__gradients(query.fakes)
        apart = found.flatten(1) if query.joint else found.flatten(0, 1)  # a shard, or a row of it, a line
        return [clipped(apart, query.bound, joint=False).reshape(found.shape).sum(0).cpu().numpy()]

    def __gradients(self, fakes: Tensor) -> Tensor:
        """The gradient of every shard's critic at generated rows, (shards, rows, width - classes), as `__gradient`."""
        free, label = fakes[:, : -self._classes], fakes[:, -self._classes :].argmax(1)
        found = fakes.new_zeros(self._count, *free.shape)
        for y in range(self._classes):
            own = torch.arange(self._count, device=fakes.device) * self._classes + y
            full = (self.__sizes[own] > 0)[:, None, None]
            found[:, label == y] = torch.where(full, self.__critics.generator_gradients(own, free[label == y]), 0.0)
        return found

    def __of_all(self, label: str, sensitivity: float) -> float:
        """The `sensitivity` of a measurement of all shards. Raises BudgetError where the plan charges that of one."""
        if not isinstance(self.__releases.event(label), Gaussian):
            raise BudgetError(
                f"{label!r} reads every shard: it is planned as a plain Gaussian measurement or not at all."
            )
        return sensitivity

    def __halves(self, fake: Tensor) -> Tensor:
        """Each shard's vote on a generated row, (shards,), in halves: 2 for real, 1 without a row of its class."""
        own = torch.arange(self._count, device=fake.device) * self._classes + fake[-self._classes :].argmax()
        real = (self.__critics.of_each(own, fake[: -self._classes]) > 0).long()
        return torch.where(self.__sizes[own] > 0, 2 * real, 1)

    def __slope_bins(self, fake: Tensor, projection: Tensor, bound: float, bins: int) -> Tensor:
        """The bin that each shard votes for, (shards, directions), of its critic's projected gradient at `fake`."""
        own = torch.arange(self._count, device=fake.device) * self._classes + fake[-self._classes :].argmax()
        slopes = self.__critics.generator_gradient(own, fake[: -self._classes].expand(self._count, -1)) @ projection
        slopes = torch.where((self.__sizes[own] > 0)[:, None], slopes, 0.0).nan_to_num(0.0)
        return ((slopes.clamp(-bound, bound) / bound + 1) / 2 * (bins - 1)).round().long()

    def __sample_shard(self) -> int:
        """Fresh and even, from the system's entropy: never seeded, never written down."""
        drawn = most = 1 << 128
        while drawn >= most - most % self._count:  # what would favour the first shards
            drawn = int.from_bytes(self.__releases.entropy.bytes(16))
        return drawn % self._count

    def __gradient(self, shard: int, fakes: Tensor) -> Tensor:
        """The gradients of a shard's critic at generated rows, where the shard has rows of their classes."""
        own = shard * self._classes + fakes[:, -self._classes :].argmax(1)
        found = self.__critics.generator_gradient(own, fakes[:, : -self._classes])
        return torch.where((self.__sizes[own] > 0)[:, None], found, 0.0)

    def __repr__(self) -> str:
        return "Shards(private rows and critics)"


def _check_bound(bound: float) -> None:
    """Raises BudgetError unless the clipping norm is a positive number whose unit does not underflow."""
    if not BOUNDS[0] <= bound <= BOUNDS[1]:
        raise BudgetError("The clipping norm must be positive, from 2^-64 to 2^64.")


def unit_of(bound: float) -> float:
    """The unit, a power of two, of which clipped gradients are whole multiples."""
    return math.ldexp(1.0, math.frexp(bound)[1] - UNIT_BITS)


def clipped(rows: Tensor, bound: float, joint: bool) -> Tensor:
    """`rows` with each row's norm, or with `joint` that of all together, cut to `bound`: in whole units of `unit_of`.

    Rounded towards zero, so that no norm exceeds the bound: norms are computed from above (`exact_sums`).
    """
    unit = unit_of(bound)
    whole = ((rows.reshape(1, -1) if joint else rows).double() / unit).round()
    return (whole * factors(norms(whole) * unit, bound)[:, None]).trunc().long().reshape(rows.shape)


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """Sizes and rates of a critic: they cost time, not privacy, for no critic is ever released."""

    width: int = 32  # of its hidden layer
    batch: int = 4  # real rows a step, and as many generated ones
    rate: float = 2e-3  # learning rate of Adam
    betas: tuple[float, float] = (0.5, 0.9)
    penalty: float = 10.0
    loss: Literal["wasserstein", "cross-entropy"] = "wasserstein"


class Critics:
    """`count` critics over rows of `inputs` numbers, with one hidden layer each, in one tensor program.

    Wasserstein critics with gradient penalty (Gulrajani et al. 2017), or classifiers of real against generated rows.
    Weights are stacked, (critics, out, in), and every product is batched over the critics, so that none depends on
    another's rows, weights, gradients or moments. There is no sum over the stack but that of the losses, whose gradient
    at one critic's weights is that critic's own; Adam works entry by entry. No norm layer, no global clip.

    Weights start uniform in +-1/sqrt(fan_in), drawn from `stream`, which is private.
    """

    def __init__(self, count: int, inputs: int, config: CriticConfig, stream: torch.Generator) -> None:
        self.config, self._stream = config, stream
        sizes = [(count, config.width, inputs), (count, config.width, 1), (count, 1, config.width)]
        bounds = [inputs**-0.5, inputs**-0.5, config.width**-0.5]
        # The last layer has no bias: it would cancel in every difference and every gradient.
        self.parameters = [
            ((2 * torch.rand(size, generator=stream, device=stream.device) - 1) * bound).requires_grad_()
            for size, bound in zip(sizes, bounds, strict=True)
        ]
        self._adam = torch.optim.Adam(self.parameters, lr=config.rate, betas=config.betas)

    def __call__(self, rows: Tensor) -> Tensor:
        """(critics, rows, inputs) to (critics, rows)."""
        return scores(self.parameters, rows)

    def step(self, real: Tensor, fake: Tensor, weights: Tensor) -> None:
        """One step of every critic on its own rows: real and fake (critics, rows, inputs), weights (critics, rows).

        Row j of a critic's fakes is compared with row j of its real ones, and both are interpolated for the penalty.
        """
        if self.config.loss == "cross-entropy":
            losses = functional.softplus(-self(real)) + functional.softplus(self(fake))
        else:
            losses = self._wasserstein(real, fake, weights)
        self._adam.zero_grad()
        (weights * losses).sum().backward()  # type: ignore[no-untyped-call]
        self._adam.step()

    def _wasserstein(self, real: Tensor, fake: Tensor, weights: Tensor) -> Tensor:
        """Losses of pairs of rows with their own penalties, (critics, rows)."""
        mix = torch.rand(weights.shape, generator=self._stream, device=real.device)[..., None]
        between = (mix * real + (1 - mix) * fake).detach().requires_grad_()
        outputs = self(torch.cat([real, fake, between], 1))
        rows = real.shape[1]
        (slope,) = torch.autograd.grad(outputs[:, 2 * rows :].sum(), between, create_graph=True)
        penalty = (slope.square().sum(-1).clamp(min=1e-12).sqrt() - 1).square()
        return outputs[:, rows : 2 * rows] - outputs[:, :rows] + self.config.penalty * penalty

    def of_each(self, which: Tensor, row: Tensor) -> Tensor:
        """Outputs of the critics `which` at one row, (inputs,): (critics,)."""
        own = [p.detach()[which] for p in self.parameters]
        return scores(own, row.detach().expand(len(which), 1, -1))[:, 0]

    def generator_gradient(self, which: Tensor, rows: Tensor) -> Tensor:
        """The gradient of the generator's loss, minus the output of critic `which`, (rows,), at each of `rows`.

        rows: (rows, inputs), as are the gradients; one that is not finite becomes zero.
        """
        return self._slopes(which, rows[:, None])[:, 0]

    def generator_gradients(self, which: Tensor, rows: Tensor) -> Tensor:
        """The same of each of the critics `which`, (critics,), at all rows, (rows, inputs): (critics, rows, inputs)."""
        return self._slopes(which, rows.expand(len(which), -1, -1))

    def _slopes(self, which: Tensor, rows: Tensor) -> Tensor:
        """Gradients of minus the outputs of the critics `which` at rows of their own, (critics, rows, inputs)."""
        at = rows.detach().requires_grad_()
        own = [p.detach()[which] for p in self.parameters]
        with torch.enable_grad():
            (found,) = torch.autograd.grad(-scores(own, at).sum(), at)
        return torch.where(torch.isfinite(found).all(2, keepdim=True), found, 0.0)


def scores(parameters: list[Tensor], rows: Tensor) -> Tensor:
    """Outputs of stacked critics: (critics, rows, inputs) to (critics, rows)."""
    first, bias, last = parameters
    hidden = functional.leaky_relu(torch.baddbmm(bias.transpose(1, 2), rows, first.transpose(1, 2)), 0.2)
    return torch.bmm(hidden, last.transpose(1, 2))[..., 0]
