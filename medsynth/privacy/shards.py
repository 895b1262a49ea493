"""Rows and critics of many shards behind noise: this file contains every way in which they influence an output.

Critics train freely on their own shard's rows and are as private as these. One tensor leaves. For GS-WGAN (Chen,
Orekondy, Fritz 2020) it is the clipped, noised gradient at generated rows of one critic, sampled anew and in secret. If
nothing can be kept secret, it is the noised sum of all critics' clipped gradients. For PATE-GAN (Jordon, Yoon, van der
Schaar 2019) and G-PATE (Long et al. 2021) it is the noised counts of all critics' votes.

One unit's rows are in one shard, so one critic changes in any way. All else is public, or a function of other rows and
earlier releases. All critics train at every step, whichever is sampled, and a resumed fit keeps the placement of rows.
Why votes and sums are bounded, and why sampling amplifies: docs/proofs/shards.md, docs/proofs/votes.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ..arrays import Floats, Whole
from ..errors import BudgetError
from ..rng import torch_secret
from .accounting.events import Event, Gaussian, PublicOrderGaussian, ShardSampledGaussian
from .clipping import BOUNDS
from .exact_sums import factors, norms
from .noise import noised
from .queries.noising import Noising, WholeNoise
from .queries.query import NoiseScale, PrivateQuery
from .queries.rows import Sealed
from .release import Release, Releases

UNIT_BITS = 32  # Bits of the clipping norm, in the unit of a clipped gradient.


@dataclass(frozen=True, eq=False)
class UpstreamSum(PrivateQuery[Tensor]):
    """The sum over all shards of their critics' gradients at generated rows, each shard's clipped to `bound`.

    fakes: (rows, width), public; the last `classes` columns indicate the class. The result is the gradient of minus the
    critics' outputs, (rows, width - classes). Each row of a shard's gradient is clipped, or all together with `joint`.
    Raises BudgetError unless the bound is from 2^-64 to 2^64. Raises it too for generated rows that are not finite, or
    that lack a row, a class or a column that a generator sets.
    """

    fakes: Tensor
    classes: int
    bound: float
    joint: bool = False

    def __post_init__(self) -> None:
        _check_bound(self.bound)
        shaped = self.fakes.dim() == 2 and len(self.fakes) > 0 and 1 <= self.classes < self.fakes.shape[1]
        if not shaped or not self.fakes.is_floating_point() or not bool(torch.isfinite(self.fakes).all()):
            raise BudgetError("Generated rows for critics must have finite numbers, classes and columns.")

    def sensitivity(self, max_rows: int | None) -> float:
        """Return 2 bound sqrt(rows), or 2 bound with `joint`: one unit, with any number of rows, changes one shard."""
        return 2 * self.bound * (1.0 if self.joint else math.sqrt(len(self.fakes)))

    def scales(self, std: float) -> Sequence[NoiseScale]:
        """Return the scale: clipped gradients are whole multiples of the unit."""
        return [NoiseScale(std, unit_of(self.bound))]

    def result(self, arrays: list[Floats]) -> Tensor:
        """Return the noised sum at each generated row, (rows, width - classes)."""
        return torch.from_numpy(arrays[0]).to(self.fakes)


class Shards(Sealed):
    """Encoded rows, (rows, width), in `count` shards with a critic each.

    place: (rows,), the shard of each row. The last `classes` columns of a row indicate its class; a generator sets the
    columns before them. A shard's critic is one network per class, because in shared layers the class with the largest
    gradients dominated the others. A class's row has the same weight whatever else is in its shard. `noising` is that
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
        place: Whole,
        count: int,
        classes: int,
        config: CriticConfig,
        releases: Releases,
        noising: Noising | None = None,
    ) -> None:
        self.__noising = noising or WholeNoise()
        self._count, self._classes, self.__releases = count, classes, releases
        self._steps = Counter[str]()  # Measurements so far by label, each with its own order.
        self.__stream = torch_secret(releases.entropy, str(rows.device))
        self.__critics = Critics(count * classes, rows.shape[1] - classes, config, self.__stream)
        group = torch.from_numpy(place).to(rows.device) * classes + rows[:, -classes:].argmax(1)
        self.__sizes = torch.bincount(group, minlength=count * classes)
        self.__starts = self.__sizes.cumsum(0) - self.__sizes
        # Adjacent and not padded: no index reaches another shard's rows. Empty groups read the row of zeros.
        kept = rows[torch.argsort(group, stable=True), :-classes]
        self.__rows = torch.cat([kept, rows.new_zeros(1, kept.shape[1])])

    def train(self, fakes: Tensor) -> None:
        """Train every critic one step on its own rows, against generated rows of the same classes.

        fakes: (classes, rows, width), public; the same for all critics. Releases nothing.
        """
        rows = self.__critics.config.batch
        groups = len(self.__sizes)
        chance = torch.rand(2, groups, rows, generator=self.__stream, device=fakes.device, dtype=torch.float64)
        index = self.__starts[:, None] + (chance[0] * self.__sizes[:, None]).long()
        filled = (self.__sizes > 0)[:, None].expand(-1, rows)
        real = self.__rows[torch.where(filled, index, len(self.__rows) - 1)]
        own = torch.arange(groups, device=fakes.device)[:, None] % self._classes
        chosen = fakes[own, (chance[1] * fakes.shape[1]).long(), : -self._classes]
        self.__critics.step(real, chosen, filled.to(real) / rows)

    def measure_upstream_gradient(self, label: str, fakes: Tensor, bound: float, *, joint: bool = False) -> Tensor:
        """Return the noised gradient at generated rows of one critic, sampled in secret. The generator learns from it.

        If the plan has a public order, the critics take turns in an order that depends on nothing.

        fakes: (rows, width), public. Returns (rows, width - classes), the gradient of minus the critic's outputs. Each
        row of it is clipped to `bound`, or all together with `joint`. It is zero before the noise if the sampled shard
        has no row of a generated row's class. Any two shards' gradients differ by at most the sensitivity, 2 bound
        sqrt(rows), or 2 bound with `joint`, whatever their rows. Raises BudgetError unless the plan has this
        measurement for this number of shards, or for a bound that is not positive.
        """
        _check_bound(bound)
        event = self.__releases.event(label)  # A plan with more shards than exist would charge too little.
        if not isinstance(event, ShardSampledGaussian | PublicOrderGaussian) or event.shards != self._count:
            raise BudgetError(f"{label!r} reads one of {self._count} shards, so it must be planned that way.")
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
        """Return the noised sum of all critics' clipped gradients at generated rows: (rows, width - classes).

        See `UpstreamSum`. Raises BudgetError unless the plan has the measurement as a plain Gaussian one.
        """
        if type(self.__noising) is not WholeNoise:
            raise BudgetError("These shards' sums are only parts of a sum over several vaults.")
        query = UpstreamSum(fakes, self._classes, bound, joint)
        return query.result(self.release(label, query).arrays)

    def release(self, label: str, query: UpstreamSum) -> Release:
        """Return what leaves these shards for such a sum: the noised sum, or a part of a sum over several vaults.

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
        """Return for each generated row the noised number of shards whose critic classifies it as real: (rows,).

        fakes: (rows, width), public. A shard without a row of a generated row's class gives half a vote. One unit
        changes one shard, and so each of the counts by at most one: the L2 sensitivity is sqrt(rows), also for a
        patient with many rows. Raises BudgetError if the plan lacks the measurement.
        """
        sensitivity = self.__of_all(label, math.sqrt(len(fakes)))

        def draw(event: Event) -> Release:
            halves = torch.stack([self.__halves(fake) for fake in fakes]).sum(1)
            noisy = noised(halves.cpu().numpy(), 2 * event.multiplier * sensitivity, self.__releases.entropy)
            return Release([noisy / 2])

        return self.__released(label, sensitivity, draw, fakes)

    def measure_gradient_votes(self, label: str, fakes: Tensor, projection: Tensor, bound: float, bins: int) -> Tensor:
        """Return for each generated row and direction the noised numbers of shards by their critic's slope along it.

        fakes: (rows, width); projection: (width - classes, directions); both public. The gradient of minus a critic's
        output is projected, cut to `bound` and rounded to the nearest of `bins` evenly spaced numbers from -bound to
        bound. A shard without a row of the class votes for the middle. Returns (rows, directions, bins). One unit
        changes one shard, whose vote moves from one bin to another for each row and direction: the L2 sensitivity is
        sqrt(2 rows directions). Raises BudgetError if the plan lacks the measurement, or for a bound that is not
        positive.
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
        """Return the exact sum over all shards, in the unit of clipped gradients; each shard's is clipped by itself."""
        found = self.__gradients(query.fakes)
        apart = found.flatten(1) if query.joint else found.flatten(0, 1)  # One shard per line, or one row of a shard.
        return [clipped(apart, query.bound, joint=False).reshape(found.shape).sum(0).cpu().numpy()]

    def __gradients(self, fakes: Tensor) -> Tensor:
        """Return every critic's gradient at generated rows, (shards, rows, width - classes), as `__gradient`."""
        free = fakes[:, : -self._classes]
        label = fakes[:, -self._classes :].argmax(1)
        found = fakes.new_zeros(self._count, *free.shape)
        for y in range(self._classes):
            own = torch.arange(self._count, device=fakes.device) * self._classes + y
            full = (self.__sizes[own] > 0)[:, None, None]
            found[:, label == y] = torch.where(full, self.__critics.generator_gradients(own, free[label == y]), 0.0)
        return found

    def __of_all(self, label: str, sensitivity: float) -> float:
        """Return the `sensitivity` of a measurement of all shards. Raises BudgetError if the plan charges only one."""
        if not isinstance(self.__releases.event(label), Gaussian):
            raise BudgetError(f"{label!r} reads every shard, so it must be planned as a plain Gaussian measurement.")
        return sensitivity

    def __halves(self, fake: Tensor) -> Tensor:
        """Return each shard's vote on a generated row, (shards,), in halves: 2 for real, 1 without such a class."""
        own = torch.arange(self._count, device=fake.device) * self._classes + fake[-self._classes :].argmax()
        real = (self.__critics.of_each(own, fake[: -self._classes]) > 0).long()
        return torch.where(self.__sizes[own] > 0, 2 * real, 1)

    def __slope_bins(self, fake: Tensor, projection: Tensor, bound: float, bins: int) -> Tensor:
        """Return the bin for which each shard votes, (shards, directions), by its critic's slope at `fake`."""
        own = torch.arange(self._count, device=fake.device) * self._classes + fake[-self._classes :].argmax()
        slopes = self.__critics.generator_gradient(own, fake[: -self._classes].expand(self._count, -1)) @ projection
        slopes = torch.where((self.__sizes[own] > 0)[:, None], slopes, 0.0).nan_to_num(0.0)
        return ((slopes.clamp(-bound, bound) / bound + 1) / 2 * (bins - 1)).round().long()

    def __sample_shard(self) -> int:
        """Return a uniform shard from the system's entropy: drawn anew, never seeded and never written down."""
        drawn = most = 1 << 128
        while drawn >= most - most % self._count:  # Larger numbers would favour the first shards.
            drawn = int.from_bytes(self.__releases.entropy.bytes(16))
        return drawn % self._count

    def __gradient(self, shard: int, fakes: Tensor) -> Tensor:
        """Return the gradients of a shard's critic at generated rows; zero if the shard has no row of their class."""
        own = shard * self._classes + fakes[:, -self._classes :].argmax(1)
        found = self.__critics.generator_gradient(own, fakes[:, : -self._classes])
        return torch.where((self.__sizes[own] > 0)[:, None], found, 0.0)

    def __repr__(self) -> str:
        return "Shards(private rows and critics)"


def _check_bound(bound: float) -> None:
    """Raise BudgetError unless the clipping norm is a positive number whose unit does not underflow."""
    if not BOUNDS[0] <= bound <= BOUNDS[1]:
        raise BudgetError("The clipping norm must be from 2^-64 to 2^64.")


def unit_of(bound: float) -> float:
    """Return the power of two of which clipped gradients are whole multiples."""
    return math.ldexp(1.0, math.frexp(bound)[1] - UNIT_BITS)


def clipped(rows: Tensor, bound: float, joint: bool) -> Tensor:
    """Return `rows` with each row's norm, or with `joint` that of all together, cut to `bound`, in units of `unit_of`.

    They are rounded towards zero and norms are computed from above (`exact_sums`), so no norm exceeds the bound.
    """
    unit = unit_of(bound)
    whole = ((rows.reshape(1, -1) if joint else rows).double() / unit).round()
    return (whole * factors(norms(whole) * unit, bound)[:, None]).long().reshape(rows.shape)


@dataclass(frozen=True, kw_only=True)
class CriticConfig:
    """Sizes and rates of a critic. They cost time and not privacy, since no critic is ever released."""

    width: int = 32  # Of its hidden layer.
    batch: int = 4  # Real rows per step, and as many generated ones.
    rate: float = 2e-3  # Learning rate of Adam.
    betas: tuple[float, float] = (0.5, 0.9)
    penalty: float = 10.0
    loss: Literal["wasserstein", "cross-entropy"] = "wasserstein"


class Critics:
    """`count` critics over rows of `inputs` numbers, with one hidden layer each, in one tensor program.

    They are Wasserstein critics with gradient penalty (Gulrajani et al. 2017), or classifiers of real against generated
    rows. Weights are stacked, (critics, out, in), and every product is batched over the critics, so that no critic
    depends on another's rows, weights, gradients or moments. The only sum over the stack is that of the losses, whose
    gradient at one critic's weights is that critic's own. Adam works entry by entry. There is no norm layer and no
    global clip.

    Weights start uniform in +-1/sqrt(fan_in), drawn from `stream`, which is private.
    """

    def __init__(self, count: int, inputs: int, config: CriticConfig, stream: torch.Generator) -> None:
        self.config, self._stream = config, stream
        sizes = [(count, config.width, inputs), (count, config.width, 1), (count, 1, config.width)]
        bounds = [inputs**-0.5, inputs**-0.5, config.width**-0.5]
        # The last layer has no bias, which would cancel in every difference and every gradient.
        self.parameters = [
            ((2 * torch.rand(size, generator=stream, device=stream.device) - 1) * bound).requires_grad_()
            for size, bound in zip(sizes, bounds, strict=True)
        ]
        self._adam = torch.optim.Adam(self.parameters, lr=config.rate, betas=config.betas)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return scores: (critics, rows, inputs) to (critics, rows)."""
        return scores(self.parameters, rows)

    def step(self, real: Tensor, fake: Tensor, weights: Tensor) -> None:
        """Train every critic one step on its own rows: real and fake (critics, rows, inputs), weights (critics, rows).

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
        """Return losses of pairs of rows with their own penalties, (critics, rows)."""
        mix = torch.rand(weights.shape, generator=self._stream, device=real.device)[..., None]
        between = (mix * real + (1 - mix) * fake).detach().requires_grad_()
        outputs = self(torch.cat([real, fake, between], 1))
        rows = real.shape[1]
        (slope,) = torch.autograd.grad(outputs[:, 2 * rows :].sum(), between, create_graph=True)
        penalty = (slope.square().sum(-1).clamp(min=1e-12).sqrt() - 1).square()
        return outputs[:, rows : 2 * rows] - outputs[:, :rows] + self.config.penalty * penalty

    def of_each(self, which: Tensor, row: Tensor) -> Tensor:
        """Return outputs of the critics `which` at one row, (inputs,): (critics,)."""
        own = [p.detach()[which] for p in self.parameters]
        return scores(own, row.detach().expand(len(which), 1, -1))[:, 0]

    def generator_gradient(self, which: Tensor, rows: Tensor) -> Tensor:
        """Return the gradient of the generator's loss, minus the output of critic `which`, (rows,), at each of `rows`.

        rows: (rows, inputs), as are the gradients. A gradient that is not finite becomes zero.
        """
        return self._slopes(which, rows[:, None])[:, 0]

    def generator_gradients(self, which: Tensor, rows: Tensor) -> Tensor:
        """Return the generator loss's gradient of every critic in `which` at every row: (critics, rows, inputs)."""
        return self._slopes(which, rows.expand(len(which), -1, -1))

    def _slopes(self, which: Tensor, rows: Tensor) -> Tensor:
        """Return gradients of minus the outputs of the critics `which` at their own rows, (critics, rows, inputs)."""
        at = rows.detach().requires_grad_()
        own = [p.detach()[which] for p in self.parameters]
        with torch.enable_grad():
            (found,) = torch.autograd.grad(-scores(own, at).sum(), at)
        return torch.where(torch.isfinite(found).all(2, keepdim=True), found, 0.0)


def scores(parameters: list[Tensor], rows: Tensor) -> Tensor:
    """Return outputs of stacked critics: (critics, rows, inputs) to (critics, rows)."""
    first, bias, last = parameters
    hidden = functional.leaky_relu(torch.baddbmm(bias.transpose(1, 2), rows, first.transpose(1, 2)), 0.2)
    return torch.bmm(hidden, last.transpose(1, 2))[..., 0]
