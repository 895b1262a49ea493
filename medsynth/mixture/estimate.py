"""Fit the mixture: one loss for all measurements, and one normal prior.

The model predicts every measurement (`model.py`). The loss is half the squared distance between prediction and noisy
value, divided by the noise's variance, summed over all cells, plus the prior's term. For a pair of age and sex in two
classes, a cell's prediction is rows of the class * mean over latent points of share(age bin) * share(sex).

`estimate` repeats this step, with Adam:

1. `MixtureModel.shares` computes p(bin | class, point) of all columns at once, as one tensor.
2. Each kind of measurement compares it with its values: `_Columns` (single columns), `_Pairs`, `_Rule` (columns that
   determine another) and `_Moments` (products). They are the measurements as tensors. Tables of one or two columns are
   stacked, those with classes apart, since thousands of small operations would take most of the time. Each rule and
   each set of products is an object of its own.
3. The gradient moves the logits and latent coefficients. The learning rate is constant for half of the steps and then
   falls to zero.

Every 50 steps `Prior.learn` sets the prior's covariance of latent coefficients to their current second moments. So
directions that the data do not need shrink to nothing, and strong relations are hardly shrunk.

A new kind of measurement needs a class here with `of` and `error`, a line in `Loss.__init__` and one in `Loss.value`.
A replicate (`replicates.py`) calls `estimate` with a stream, which perturbs the prior as noise perturbs measurements.
A fit with public rows (`public.py`) has its prior centred at the fit of those rows: `CentredPrior`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..arrays import Floats, Mask
from . import constants as k
from .measurement import Measured, Measurement, MomentMeasurement, RuleMeasurement
from .model import MixtureModel

# Gradients have no sampling noise and shrink by orders of magnitude, so Adam forgets squares as fast as means.
FORGETTING, SMALL = 0.95, 1e-8


@dataclass(frozen=True, eq=False)
class _Columns:
    """A table of each of some columns. `values`, and `weights` (one over the noise): (bins, classes) or (bins, 1).

    `centred`: one for bins of columns whose mean count is unknown, (bins, 1). `sums`: over columns, (columns, bins).
    """

    values: Tensor
    weights: Tensor
    centred: Tensor
    sums: Tensor

    @classmethod
    def of(cls, tables: Sequence[Measurement], model: MixtureModel) -> _Columns:
        bins = model.layout.bins
        classes = len(tables[0].values)
        values, weights, centred = np.zeros((bins, classes)), np.zeros((bins, classes)), np.zeros((bins, 1))
        for table in tables:
            span = model.layout.spans[table.columns[0]]
            values[span], centred[span] = table.values.T, table.centred
            weights[span] = 1 / np.broadcast_to(table.std, table.values.shape).T
        return cls(model.tensor(values), model.tensor(weights), model.tensor(centred), model.sums)

    def error(self, rows: Tensor) -> Tensor:
        """Return half the squared error. `rows`: in each bin, (bins, classes)."""
        # Tables of all classes together are compared with the sum over classes.
        gap = self.values - (rows if self.values.shape[1] > 1 else rows.sum(1, keepdim=True))
        # A centred table does not show its mean, so the mean of its gaps does not count.
        means = (self.sums @ gap) / (self.sums @ torch.ones_like(gap[:, :1]))
        return ((gap - self.centred * (self.sums.T @ means)) * self.weights).square().sum() / 2


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Tables of two columns each. `maps`: of all their columns, stacked, (height, bins). `places`: of the tables' cells
    in the product of all pairs of rows of `maps`. `values`, `std`: (classes, cells) or (1, cells).
    """

    maps: Tensor
    places: Tensor
    values: Tensor
    std: Tensor

    @classmethod
    def of(cls, tables: Sequence[Measurement], model: MixtureModel) -> _Pairs:
        # Many pairs share a column's map: each is stacked once, and known by its identity.
        own = [[(name, id(one)) for name, one in zip(t.columns, t.maps, strict=True)] for t in tables]
        maps = {key: one for t, keys in zip(tables, own, strict=True) for key, one in zip(keys, t.maps, strict=True)}
        first = dict(zip(maps, np.cumsum([0, *map(len, maps.values())]).tolist(), strict=False))
        height = sum(map(len, maps.values()))
        places = []
        for keys in own:
            one, other = (first[key] + np.arange(len(maps[key])) for key in keys)
            places.append((one[:, None] * height + other).ravel())
        std = [np.broadcast_to(t.std, t.values.shape).reshape(len(t.values), -1) for t in tables]
        return cls(
            model.tensor(np.concatenate([_widened(one, name, model) for (name, _), one in maps.items()])),
            torch.from_numpy(np.concatenate(places)).to(model.device),
            model.tensor(np.concatenate([t.values.reshape(len(t.values), -1) for t in tables], 1)),
            model.tensor(np.concatenate(std, 1)),
        )

    def error(self, shares: Tensor, sizes: Tensor) -> Tensor:
        """Return half the squared error. `shares`: (bins, classes, points); `sizes`: rows of each class."""
        # All cells of all columns' maps, then the products of any two of them; `places` picks those of measured tables.
        each = (self.maps @ shares.flatten(1)).reshape(-1, *shares.shape[1:]).transpose(0, 1)
        weighted = each * (sizes / shares.shape[-1])[:, None, None]
        if len(self.values) > 1 or len(sizes) == 1:
            products = weighted @ each.transpose(1, 2)
        else:  # all classes together
            products = (weighted.transpose(0, 1).flatten(1) @ each.transpose(0, 1).flatten(1).T)[None]
        gap = self.values - products.flatten(1).index_select(1, self.places)
        return (gap / self.std).square().sum() / 2


@dataclass(frozen=True, eq=False)
class _Rule:
    """A `RuleMeasurement` as tensors."""

    columns: tuple[str, ...]
    map: Tensor
    values: Tensor
    std: float

    @classmethod
    def of(cls, joint: RuleMeasurement, model: MixtureModel) -> _Rule:
        return cls(joint.columns, model.tensor(joint.map), model.tensor(joint.values), joint.std)

    def error(self, shares: Sequence[Tensor], sizes: Tensor) -> Tensor:
        """Return half the squared error. `shares`: p(bin | class, point) of each column, (bins, classes, points)."""
        if len(shares) == 2:
            one, other = (share.transpose(0, 1) for share in shares)
            both = one @ other.transpose(1, 2) / one.shape[-1]
            expected = both.flatten(1) @ self.map.flatten(0, 1)
        else:
            left = torch.tensordot(shares[0].permute(2, 1, 0), self.map, 1)  # (points, classes, other bins, cells)
            for share in shares[1:]:
                left = torch.einsum("bcz,zcb...->zc...", share, left)
            expected = left.mean(0)
        return ((self.values - sizes[:, None] * expected) / self.std).square().sum() / 2


@dataclass(frozen=True, eq=False)
class _Moments:
    """A `MomentMeasurement` as tensors. `map`: features of all columns by bin, (features, bins)."""

    map: Tensor
    factors: Tensor
    values: Tensor
    std: Tensor

    @classmethod
    def of(cls, moments: MomentMeasurement, model: MixtureModel) -> _Moments:
        stacked = np.concatenate([_widened(own, name, model) for name, own in moments.maps.items()])
        factors = torch.from_numpy(moments.factors).to(model.device)
        return cls(model.tensor(stacked), factors, model.tensor(moments.values), model.tensor(moments.std))

    def error(self, shares: Tensor, sizes: Tensor) -> Tensor:
        """Return half the squared error. `shares`: (bins, classes, points); `sizes`: rows of each class."""
        means = (self.map @ shares.flatten(1)).reshape(-1, *shares.shape[1:])
        product = means[self.factors[0]]
        for others in self.factors[1:]:
            product = product * means[others]
        expected = (product.mean(-1) * sizes).T
        expected = expected if len(self.values) > 1 or len(sizes) == 1 else expected.sum(0, keepdim=True)
        return ((self.values - expected) / self.std).square().sum() / 2


class Prior:
    """Normal priors of base logits, of differences between neighbouring class logits, and of latent coefficients.

    With a stream, every deviation except a latent one is measured from its own normal draw.
    """

    def __init__(
        self, model: MixtureModel, stream: torch.Generator | None = None, floors: Sequence[Floats] | None = None
    ) -> None:
        layout = model.layout
        steps = [np.empty(0, np.int64)]
        base, own = np.full(layout.bins, k.RIDGE_STD**-2), np.full(layout.bins, k.CLASS_STD**-2)
        for name, span in layout.spans.items():
            ordered = layout.ordered[name]
            if ordered > 1:
                steps.append(span.start + np.arange(ordered - 1))
                own[span.start : span.start + ordered] = 0  # the level of a number's class logits is free
        self._steps = torch.from_numpy(np.concatenate(steps)).to(model.device)
        self._base, self._own = (model.tensor(np.sqrt(precision[:, None])) for precision in (base, own))
        sizes = (len(self._steps), model.classes), model.base.shape, model.by_class.shape
        draws = (torch.zeros(size) if stream is None else torch.randn(size, generator=stream) for size in sizes)
        self._draws = [draw.to(model.device) for draw in draws]
        floors = floors or [np.full(len(model.common), k.LATENT_FLOOR)] * 2
        self._floors = [model.tensor(floor) for floor in floors]  # of the common and own latent coefficients
        self._precisions = [torch.diag(k.LATENT_WEIGHT / (2 * floor)) for floor in self._floors]

    def deviations(self, model: MixtureModel) -> list[Tensor]:
        """Return the parameters as deviations from the prior's means."""
        return model.parameters()

    def learn(self, model: MixtureModel) -> None:
        """Learn the covariance of the latent coefficients: their second moment over points.

        This penalises the logarithm of the variance in each direction. It removes noise and keeps strong relations
        (Fazel, Hindi and Boyd 2003).
        """
        for place, (part, floor) in enumerate(zip(self.deviations(model)[2:], self._floors, strict=True)):
            # The floor keeps a direction that has shrunk to zero from getting an infinite precision.
            flat = part.detach().flatten(1)
            second = flat @ flat.T / flat.shape[1]
            second.diagonal().add_(floor)
            self._precisions[place] = k.LATENT_WEIGHT * torch.cholesky_inverse(torch.linalg.cholesky(second))

    def error(self, model: MixtureModel) -> Tensor:
        """Return half the sum of squared deviations, each divided by its variance."""
        base, own, *latents = self.deviations(model)
        found = base.new_zeros(())
        for precision, latent in zip(self._precisions, latents, strict=True):
            flat = latent.flatten(1)
            found = found + (flat * (precision @ flat)).sum() / model.points
        return self._with_logits(found, base, own) / 2

    def _with_logits(self, found: Tensor, base: Tensor, own: Tensor) -> Tensor:
        """Return `found` plus the squared deviations of logits: `base`, (bins, 1), and `own`, (bins, classes)."""
        step = (own[self._steps + 1] - own[self._steps]) / k.CLASS_STD
        for deviation, drawn in zip((step, self._base * base, self._own * own), self._draws, strict=True):
            found = found + (deviation - drawn).square().sum()
        return found


class CentredPrior(Prior):
    """Normal priors around the parameters of a fit to public rows.

    `known`: which base logits, (bins, 1), class logits, (bins, classes), and common and own latent coefficients,
    (features,) each, the public rows determine. These deviate from the centre by the standard deviation `main` (logits:
    the step between neighbours, or a level), and with the precision of latent coefficients times `latent`. The others
    deviate as without public rows.
    """

    def __init__(
        self, model: MixtureModel, centre: MixtureModel, known: Sequence[Mask], main: float, latent: float
    ) -> None:
        super().__init__(model, floors=[k.LATENT_FLOOR / np.where(one, latent, 1.0) for one in known[2:]])
        self._centre = [parameter.clone() for parameter in centre.parameters()]
        ordered = np.zeros((model.layout.bins, 1), np.bool_)
        for name, span in model.layout.spans.items():
            count = model.layout.ordered[name]
            ordered[span.start : span.start + count] = count > 1  # the level of a number's logits is free
        loose = [(0.0, np.full(ordered.shape, 1 / k.RIDGE_STD)), (1 / k.CLASS_STD, ~ordered / k.CLASS_STD)]
        at = self._steps.cpu().numpy()
        self._weights = [  # of steps and of levels, for base and class logits
            [model.tensor(np.where(one[at], 1 / main, step)), model.tensor(np.where(one, ~ordered / main, level))]
            for one, (step, level) in zip(known[:2], loose, strict=True)
        ]

    def deviations(self, model: MixtureModel) -> list[Tensor]:
        """Return the parameters as deviations from the fit to public rows."""
        return [own - centre for own, centre in zip(model.parameters(), self._centre, strict=True)]

    def _with_logits(self, found: Tensor, base: Tensor, own: Tensor) -> Tensor:
        for part, (steps, levels) in zip((base, own), self._weights, strict=True):
            found = found + ((part[self._steps + 1] - part[self._steps]) * steps).square().sum()
            found = found + (part * levels).square().sum()
        return found


def _widened(table: Floats, name: str, model: MixtureModel) -> Floats:
    """Return a map of one column's bins, (cells, bins of the column), as one of all bins, (cells, bins)."""
    found = np.zeros((len(table), model.layout.bins))
    found[:, model.layout.spans[name]] = table
    return found


class Loss:
    """Half the squared errors of a mixture's expected measurements, over noise variances, plus the prior's term."""

    def __init__(self, model: MixtureModel, measured: Sequence[Measured], prior: Prior | None = None) -> None:
        tables = [one for one in measured if isinstance(one, Measurement)]
        groups = dict[tuple[int, int], list[Measurement]]()  # by columns and classes
        for table in tables:
            groups.setdefault((len(table.columns), len(table.values)), []).append(table)
        self._model = model
        self.prior = prior or Prior(model)
        self._columns = [_Columns.of(some, model) for (columns, _), some in groups.items() if columns == 1]
        self._pairs = [_Pairs.of(some, model) for (columns, _), some in groups.items() if columns == 2]
        self._rules = [_Rule.of(one, model) for one in measured if isinstance(one, RuleMeasurement)]
        self._moments = [_Moments.of(one, model) for one in measured if isinstance(one, MomentMeasurement)]

    def value(self) -> Tensor:
        """Return the loss of the model's current parameters."""
        return self._with(self.prior)

    def misfit(self) -> float:
        """Return the loss without the prior's term."""
        return float(self._with(None))

    def _with(self, prior: Prior | None) -> Tensor:
        """Return the prior's term, if there is one, plus half the squared errors of all measurements."""
        model = self._model
        shares = model.shares()  # before the prior's term: the order of operations decides the last bits of gradients
        rows = shares.mean(-1) * model.sizes
        loss = prior.error(model) if prior else model.base.new_zeros(())
        for columns in self._columns:
            loss = loss + columns.error(rows)
        for pairs in self._pairs:
            loss = loss + pairs.error(shares, model.sizes)
        for moments in self._moments:
            loss = loss + moments.error(shares, model.sizes)
        for rule in self._rules:
            loss = loss + rule.error([shares[model.layout.spans[name]] for name in rule.columns], model.sizes)
        return loss


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1), without decay.

    PyTorch's Adam imports the compiler when first used: 820 modules, 1.8 s of a fit that takes seconds.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = list(parameters)
        self._steps = 0
        self._moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self._parameters]

    def step(self, loss: Tensor, rate: float) -> None:
        """Move the parameters down the gradient of `loss`."""
        gradients = torch.autograd.grad(loss, self._parameters)
        self._steps += 1
        rate *= math.sqrt(1 - FORGETTING**self._steps) / (1 - FORGETTING**self._steps)
        with torch.no_grad():
            for parameter, gradient, (mean, square) in zip(self._parameters, gradients, self._moments, strict=True):
                mean.lerp_(gradient, 1 - FORGETTING)
                square.mul_(FORGETTING).addcmul_(gradient, gradient, value=1 - FORGETTING)
                parameter.addcdiv_(mean, square.sqrt().add_(SMALL), value=-rate)


def estimate(
    model: MixtureModel,
    measured: Sequence[Measured],
    steps: int,
    progress: Callable[[int, int], None],
    stream: torch.Generator | None = None,
    prior: Prior | None = None,
) -> None:
    """Fit a mixture to all measurements, in place, by this number of `steps`. With a stream, draws perturb its prior.

    `progress` receives the steps done and all steps. `prior`: another than the usual one.
    """
    loss = Loss(model, measured, prior or Prior(model, stream))
    parameters = model.parameters()
    adam = Adam([parameter.requires_grad_() for parameter in parameters])
    for step in range(steps):
        if step and step % k.LEARN_EVERY == 0:
            loss.prior.learn(model)
        adam.step(loss.value(), k.LEARNING_RATE * min(1.0, 2 * (1 - step / steps)))
        progress(step + 1, steps)
    for parameter in parameters:
        parameter.requires_grad_(False)
