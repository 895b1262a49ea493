"""Fit the mixture: one loss for all measurements, and one normal prior.

The model predicts every measurement (`model.py`). The loss is half the squared distance between prediction and noisy
value, divided by the noise's variance, summed over all cells, plus the prior's term. For a pair of age and sex in two
classes, a cell's prediction is rows of the class * mean over latent points of share(age bin) * share(sex).

`estimate` repeats this step, with Adam:

1. `MixtureModel.shares` computes p(bin | class, point) of all columns at once, as one array.
2. Each kind of measurement compares it with its values: `_Columns` (single columns), `_Pairs`, `_Rule` (columns that
   determine another) and `_Moments` (products). `add` returns its part of the loss and adds the part's derivatives by
   the shares. Tables of one or two columns are stacked, those with classes apart, since thousands of small operations
   would take most of the time. Each rule and each set of products is an object of its own.
3. `MixtureModel.slopes` turns the sum of these derivatives into the gradient. It moves the logits and latent
   coefficients. The learning rate is constant for half of the steps and then falls to zero.

Every 50 steps `Prior.learn` sets the prior's covariance of latent coefficients to their current second moments. So
directions that the data do not need shrink to nothing, and strong relations are hardly shrunk.

A new kind of measurement needs a class here with `add`, and a line in `Loss.__init__`.
A replicate (`replicates.py`) calls `estimate` with a stream, which perturbs the prior as noise perturbs measurements.
A fit with public rows (`public.py`) has its prior centred at the fit of those rows: `CentredPrior`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..arrays import Floats, Mask
from ..rng import Stream
from . import constants as k
from .measurement import Measured, Measurement, MomentMeasurement, RuleMeasurement
from .model import NUMBERS, MixtureModel, Numbers

# Gradients have no sampling noise and shrink by orders of magnitude, so Adam forgets squares as fast as means.
FORGETTING, SMALL = 0.95, 1e-8


class _Columns:
    """A table of each of some columns. `values`, and `weights` (one over the noise): (bins, classes) or (bins, 1).

    `centred`: one for bins of columns whose mean count is unknown, (bins, 1). `sizes`: bins of the column, (bins, 1).
    """

    def __init__(self, tables: Sequence[Measurement], model: MixtureModel) -> None:
        self.model, bins = model, model.layout.bins
        self.values, self.weights = np.zeros((2, bins, len(tables[0].values)), NUMBERS)
        self.centred = np.zeros((bins, 1), NUMBERS)
        self.sizes = model.by_column(np.add, np.ones((bins, 1), NUMBERS))
        for table in tables:
            span = model.layout.spans[table.columns[0]]
            self.values[span], self.centred[span] = table.values.T, table.centred
            self.weights[span] = 1 / np.broadcast_to(table.std, table.values.shape).T

    def add(self, shares: Numbers, slopes: Numbers) -> float:
        """Return half the squared error, and add its derivatives by the shares, (bins, classes, points)."""
        # Tables of all classes together are compared with the sum over classes.
        rows = shares.mean(-1) * self.model.sizes
        gap = self.values - (rows if self.values.shape[1] > 1 else rows.sum(1, keepdims=True))
        # A centred table does not show its mean, so the mean of its gaps does not count.
        means = self.model.by_column(np.add, gap) / self.sizes
        error = (gap - self.centred * means) * self.weights
        pull = error * self.weights
        pull -= self.model.by_column(np.add, self.centred * pull) / self.sizes
        slopes -= (pull * (self.model.sizes / shares.shape[-1]))[:, :, None]
        return float(np.square(error).sum()) / 2


class _Pairs:
    """Tables of two columns each. `maps`: of all their columns, (cells, bins), each with the places of its cells among
    all, `height`, and of its bins. `values`, and `weights` (one over the variance): of products of two of all cells,
    (classes, height, height) or (1, height, height), in both orders. The weight is zero if a product was not measured.
    `rest`: the part of the loss that no fit changes.
    """

    def __init__(self, tables: Sequence[Measurement], model: MixtureModel) -> None:
        # Many pairs share a column's map: each is stacked once, and known by its identity.
        own = [[(name, id(one)) for name, one in zip(t.columns, t.maps, strict=True)] for t in tables]
        maps = {key: one for t, keys in zip(tables, own, strict=True) for key, one in zip(keys, t.maps, strict=True)}
        stops = np.cumsum([0, *map(len, maps.values())]).tolist()
        places = {key: slice(*both) for key, *both in zip(maps, stops[:-1], stops[1:], strict=True)}
        sums, weights = np.zeros((2, len(tables[0].values), stops[-1], stops[-1]))
        self.rest = 0.0
        for table, keys in zip(tables, own, strict=True):  # a pair may be measured twice
            one, other = (places[key] for key in keys)
            weight = np.broadcast_to(np.asarray(table.std, np.float64) ** -2, table.values.shape)
            for found, part in ((sums, weight * table.values), (weights, weight)):
                found[:, one, other] += part
                found[:, other, one] += part.transpose(0, 2, 1)
            self.rest += float((weight * np.square(table.values)).sum())
        values = sums / np.where(weights > 0, weights, 1.0)
        self.rest -= float((values * sums).sum()) / 2
        self.maps = [(places[key], model.layout.spans[key[0]], one.astype(NUMBERS)) for key, one in maps.items()]
        self.model, self.height = model, stops[-1]
        self.values, self.weights = values.astype(NUMBERS), weights.astype(NUMBERS)

    def add(self, shares: Numbers, slopes: Numbers) -> float:
        """Return half the squared error, and add its derivatives by the shares, (bins, classes, points)."""
        # All cells of all columns' maps, then the products of any two of them.
        bins, classes, points = shares.shape
        scale = np.sqrt(self.model.sizes / points)[:, None]
        each = np.empty((self.height, classes * points), NUMBERS)
        for cells, span, own in self.maps:
            np.matmul(own, shares[span].reshape(-1, classes * points), out=each[cells])
        each = each.reshape(-1, classes, points) * scale
        # By class, or all classes together.
        apart = len(self.values) > 1
        each = each.transpose(1, 0, 2) if apart else each.reshape(1, self.height, -1)
        gap = each @ each.transpose(0, 2, 1) - self.values
        pull = gap * self.weights
        back = pull @ each
        back = back.transpose(1, 0, 2) if apart else back.reshape(-1, classes, points)
        back = (back * scale).reshape(self.height, -1)
        for cells, span, own in self.maps:
            slopes[span] += (own.T @ back[cells]).reshape(-1, classes, points)
        return (float(np.vdot(pull, gap)) / 2 + self.rest) / 2


class _Rule:
    """A `RuleMeasurement` in the model's numbers. `spans`: the bins of its columns."""

    def __init__(self, joint: RuleMeasurement, model: MixtureModel) -> None:
        self.model, self.std = model, joint.std
        self.spans = [model.layout.spans[name] for name in joint.columns]
        self.map, self.values = joint.map.astype(NUMBERS), joint.values.astype(NUMBERS)

    def add(self, shares: Numbers, slopes: Numbers) -> float:
        """Return half the squared error, and add its derivatives by the shares, (bins, classes, points)."""
        sizes = self.model.sizes[:, None]
        first, *others = [shares[span].transpose(1, 2, 0) for span in self.spans]  # (classes, points, bins)
        # Sum over the bins of one column after another: (classes, points, bins of the other columns, cells).
        parts = [np.tensordot(first, self.map, 1)]
        for own in others:
            left = parts[-1].reshape(*own.shape, -1)
            parts.append((own[:, :, None] @ left)[:, :, 0])
        expected = parts[-1].mean(1) * sizes
        error = (expected - self.values) / self.std
        pull = np.broadcast_to((error / self.std * sizes / shares.shape[-1])[:, None], parts[-1].shape)
        for own, part, span in zip(others[::-1], parts[-2::-1], self.spans[:0:-1], strict=True):
            left = part.reshape(*own.shape, -1)
            slopes[span] += (left @ pull[..., None])[..., 0].transpose(2, 0, 1)
            pull = (own[..., None] * pull[:, :, None]).reshape(*own.shape[:2], -1)
        slopes[self.spans[0]] += np.tensordot(self.map.reshape(len(self.map), -1), pull, (1, 2))
        return float(np.square(error).sum()) / 2


class _Moments:
    """A `MomentMeasurement` in the model's numbers. `maps`: each column's features, stacked. `factors`: the places of
    the multiplied features, (factors, products); `hot`: the same as indicators, (factors, features, products).
    """

    def __init__(self, moments: MomentMeasurement, model: MixtureModel) -> None:
        self.model, self.factors = model, moments.factors
        stops = np.cumsum([0, *map(len, moments.maps.values())]).tolist()
        self.maps = [
            (slice(first, stop), model.layout.spans[name], own.astype(NUMBERS))
            for (name, own), first, stop in zip(moments.maps.items(), stops[:-1], stops[1:], strict=True)
        ]
        self.hot = (moments.factors[:, None] == np.arange(stops[-1])[:, None]).astype(NUMBERS)
        self.values, self.std = moments.values.astype(NUMBERS), moments.std.astype(NUMBERS)

    def add(self, shares: Numbers, slopes: Numbers) -> float:
        """Return half the squared error, and add its derivatives by the shares, (bins, classes, points)."""
        sizes, shape = self.model.sizes, shares.shape[1:]
        means = np.concatenate([np.tensordot(own, shares[span], 1) for _, span, own in self.maps])
        ahead: list[Numbers] = [means[self.factors[0]]]  # products of the first factors
        for others in self.factors[1:]:
            ahead.append(ahead[-1] * means[others])
        expected = (ahead[-1].mean(-1) * sizes).T
        apart = len(self.values) > 1
        error = ((expected if apart else expected.sum(0, keepdims=True)) - self.values) / self.std
        pull = np.broadcast_to(((error / self.std).T * (sizes / shape[-1]))[:, :, None], ahead[-1].shape)
        back = np.zeros_like(means)
        for place in range(len(self.factors) - 1, -1, -1):
            back += np.tensordot(self.hot[place], pull * ahead[place - 1] if place else pull, 1)
            pull = pull * means[self.factors[place]]
        for cells, span, own in self.maps:
            slopes[span] += np.tensordot(own.T, back[cells], 1)
        return float(np.square(error).sum()) / 2


class Prior:
    """Normal priors of base logits, of differences between neighbouring class logits, and of latent coefficients.

    With a stream, every deviation except a latent one is measured from its own normal draw.
    """

    def __init__(
        self, model: MixtureModel, stream: Stream | None = None, floors: Sequence[Floats] | None = None
    ) -> None:
        layout = model.layout
        steps, free = [np.empty(0, np.int64)], np.zeros((layout.bins, 1), np.bool_)
        for name, span in layout.spans.items():
            ordered = layout.ordered[name]
            if ordered > 1:
                steps.append(span.start + np.arange(ordered - 1))
                free[span.start : span.start + ordered] = True  # the level of a number's class logits
        self._at, self._free = np.concatenate(steps), free
        # One over the deviations of base and class logits: of steps between neighbours, and of levels.
        base = np.zeros(1), np.full((layout.bins, 1), 1 / k.RIDGE_STD)
        self._weights = [base, (np.full(1, 1 / k.CLASS_STD), ~free / k.CLASS_STD)]
        sizes = model.base.shape, (len(self._at), model.classes), model.by_class.shape
        draws = [np.zeros(size) if stream is None else stream.standard_normal(size) for size in sizes]
        self._draws = [(np.zeros(1), draws[0]), (draws[1], draws[2])]
        self._floors = floors or [np.full(len(model.common), k.LATENT_FLOOR)] * 2  # of common and own coefficients
        self._precisions = [np.diag(k.LATENT_WEIGHT / (2 * floor)).astype(NUMBERS) for floor in self._floors]

    def deviations(self, model: MixtureModel) -> list[Numbers]:
        """Return the parameters as deviations from the prior's means."""
        return model.parameters()

    def learn(self, model: MixtureModel) -> None:
        """Learn the covariance of the latent coefficients: their second moment over points.

        This penalises the logarithm of the variance in each direction. It removes noise and keeps strong relations
        (Fazel, Hindi and Boyd 2003).
        """
        for place, (part, floor) in enumerate(zip(self.deviations(model)[2:], self._floors, strict=True)):
            flat = part.reshape(-1, math.prod(part.shape[1:]))
            # The floor keeps a direction that has shrunk to zero from getting an infinite precision.
            second = flat @ flat.T / flat.shape[1] + np.diag(floor)
            self._precisions[place] = (k.LATENT_WEIGHT * np.linalg.inv(second)).astype(NUMBERS)

    def add(self, model: MixtureModel, slopes: Sequence[Numbers]) -> float:
        """Return half the sum of squared deviations, each over its variance. Add its derivatives by the parameters."""
        found, parts = 0.0, self.deviations(model)
        for precision, latent, slope in zip(self._precisions, parts[2:], slopes[2:], strict=True):
            flat = latent.reshape(-1, math.prod(latent.shape[1:]))
            pull = precision @ flat / model.points
            slope += pull.reshape(slope.shape)
            found += float(np.vdot(flat, pull))
        for part, slope, weights, drawn in zip(parts[:2], slopes[:2], self._weights, self._draws, strict=True):
            steps = (part[self._at + 1] - part[self._at]) * weights[0] - drawn[0]
            levels = part * weights[1] - drawn[1]
            slope += levels * weights[1]
            slope[self._at + 1] += steps * weights[0]
            slope[self._at] -= steps * weights[0]
            found += float(np.square(steps).sum() + np.square(levels).sum())
        return found / 2


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
        self._centre = [parameter.copy() for parameter in centre.parameters()]
        self._weights = [
            (np.where(one[self._at], 1 / main, step), np.where(one, ~self._free / main, level))
            for one, (step, level) in zip(known[:2], self._weights, strict=True)
        ]

    def deviations(self, model: MixtureModel) -> list[Numbers]:
        """Return the parameters as deviations from the fit to public rows."""
        return [own - centre for own, centre in zip(model.parameters(), self._centre, strict=True)]


class Loss:
    """Half the squared errors of a mixture's expected measurements, over noise variances, plus the prior's term."""

    def __init__(self, model: MixtureModel, measured: Sequence[Measured], prior: Prior | None = None) -> None:
        groups = dict[tuple[int, int], list[Measurement]]()  # by columns and classes
        for table in measured:
            if isinstance(table, Measurement):
                groups.setdefault((len(table.columns), len(table.values)), []).append(table)
        self._model = model
        self.prior = prior or Prior(model)
        self._terms: list[_Columns | _Pairs | _Rule | _Moments] = [
            (_Columns if columns == 1 else _Pairs)(some, model) for (columns, _), some in groups.items()
        ]
        self._terms += [_Rule(one, model) for one in measured if isinstance(one, RuleMeasurement)]
        self._terms += [_Moments(one, model) for one in measured if isinstance(one, MomentMeasurement)]

    def misfit(self) -> float:
        """Return the loss without the prior's term."""
        return self._by_shares()[0]

    def slopes(self) -> tuple[float, list[Numbers]]:
        """Return the loss of the model's current parameters, and its derivatives by them."""
        misfit, shares, by_shares = self._by_shares()
        found = self._model.slopes(shares, by_shares)
        return misfit + self.prior.add(self._model, found), found

    def _by_shares(self) -> tuple[float, Numbers, Numbers]:
        """Return the loss without the prior's term, the shares, and its derivatives by these."""
        shares = self._model.shares()
        slopes = np.zeros_like(shares)
        return sum(term.add(shares, slopes) for term in self._terms), shares, slopes


def estimate(
    model: MixtureModel, measured: Sequence[Measured], steps: int, progress: Callable[[int, int], None],
    stream: Stream | None = None, prior: Prior | None = None,
) -> None:  # fmt: skip
    """Fit a mixture to all measurements, in place, by this number of `steps`. With a stream, draws perturb its prior.

    `progress` receives the steps done and all steps. `prior`: another than the usual one.
    """
    loss = Loss(model, measured, prior or Prior(model, stream))
    moments = [(np.zeros_like(parameter), np.zeros_like(parameter)) for parameter in model.parameters()]
    for step in range(steps):
        if step and step % k.LEARN_EVERY == 0:
            loss.prior.learn(model)
        rate = k.LEARNING_RATE * min(1.0, 2 * (1 - step / steps))
        rate *= math.sqrt(1 - FORGETTING ** (step + 1)) / (1 - FORGETTING ** (step + 1))
        # Adam (Kingma and Ba 2015, algorithm 1), without decay.
        for parameter, slope, (mean, square) in zip(model.parameters(), loss.slopes()[1], moments, strict=True):
            mean += (1 - FORGETTING) * (slope - mean)
            square *= FORGETTING
            square += (1 - FORGETTING) * slope * slope
            parameter -= rate * mean / (np.sqrt(square) + SMALL)
        progress(step + 1, steps)
