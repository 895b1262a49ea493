"""Parts that all adversarial methods share: the encoding that critics read, the generator, its training, and losses.

An encoded row contains the indicators of its bins, column after column, and of its class. A generated row consists of
hard draws of the same indicators and passes soft gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ..arrays import Arrays, Codes, Floats
from ..privacy.accounting.calibration import Charge, Plan
from ..privacy.clipping import Loss
from ..privacy.networks import Mlp, in_blocks
from ..privacy.queries.content import LOCAL, MOST_WIDTH, check_size
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.rows import Axes, CellMap, cells_of, column_of
from ..privacy.shards import CriticConfig
from ..rng import torch_stream
from ..row_count import COUNTED_ROWS, NoisyTotal, likely_rows
from ..schema import Schema
from .bins import Bins, cleaned_histograms, decoder, decoder_axes, decoder_tensors, fine_grid, grids
from .marginals import CLASSES, ONE_WAY, cleaned, without_spurious_missing
from .registry import Count, MethodConfig, Positive, Progress, Rate, Share
from .sampler import MixtureMethod, mixture_tensors

CRITIC_GRADIENTS = "critic gradient sum"  # label of this measurement in plan and ledger
MOST_BINS = 12  # per number column
LATENT_POINTS = 128  # latent points of the generator
LATENT, WIDTH = 8, 96  # numbers per latent point; width of the generator's hidden layers
TEMPERATURE = 0.7  # of the relaxed draws that pass gradients


class LotConfig(MethodConfig):
    """Settings of a method whose critic learns from noised sums over Poisson lots."""

    lots: Count = Field(default=600, description="noisy gradient sums of the critic")
    rate: Rate = Field(default=0.1, description="sampling rate of a lot")
    largest_lot: Count = Field(default=2048, description="most expected rows per lot: the rate falls in larger tables")

    def sampling_rate(self, rows: int) -> float:
        """Return the Poisson sampling rate for a declared number of rows."""
        return min(self.rate, self.largest_lot / rows)


class ClippedLotConfig(LotConfig):
    """Settings of a method that clips rows of a lot, or its microbatches. Its gradient sums take what shares leave."""

    clip: Positive = Field(default=1.0, description="clipping norm of a row's gradient")
    microbatches: int | None = Field(default=None, ge=1, description="groups per lot that are clipped; by default rows")
    histogram_share: Share = Field(default=0.15, description="share of the one-way marginals")
    class_share: Share = Field(default=0.05, description="share of the class marginal")

    def terms(self, lot: float) -> float:
        """Return the mean number of clipped terms in a sum: the rows of a lot, or its nonempty microbatches."""
        m = self.microbatches
        return max(1.0, lot) if m is None else m * -math.expm1(-lot / m)

    def queries(self, rows: int) -> list[Charge]:
        """Return the setup's measurements and the critic's gradient sums, each with its share of the privacy loss."""
        rate = self.sampling_rate(rows)
        rest = 1 - self.histogram_share - self.class_share
        weight = rate * math.sqrt(self.lots / rest)
        sums = Charge(label=CRITIC_GRADIENTS, weight=weight, rate=rate, times=self.lots)
        return [*setup_queries(self.histogram_share, self.class_share), sums]


class ShardConfig(MethodConfig):
    """Settings of a method whose critics, or teachers, each train on a shard of the rows."""

    shards: int | None = Field(default=None, ge=1, description="number of shards; by default from the number of rows")
    rows_a_shard: Count = Field(default=25, description="rows per shard, if their number is not set")
    most_shards: Count = Field(default=300, description="most shards, if their number is not set")
    histogram_share: Share = Field(default=0.1, description="share of the one-way marginals")
    class_share: Share = Field(default=0.02, description="share of the class marginal")

    def weight(self, times: int) -> float:
        """Return the weight of each of `times` measurements that share the budget left by the setup."""
        return math.sqrt(times / (1 - self.histogram_share - self.class_share))

    def with_setup(self, query: Charge) -> list[Charge]:
        """Return the setup's measurements, followed by the method's own."""
        return [*setup_queries(self.histogram_share, self.class_share), query]

    def shard_count(self, rows: int) -> int:
        """Return the number of shards of a table with `rows` rows, so that each shard has a few rows per class."""
        return max(2, min(self.most_shards, rows // self.rows_a_shard)) if self.shards is None else self.shards


def setup_queries(histogram_share: float, class_share: float) -> list[Charge]:
    """Return the measurements of a setup, by their shares of the privacy loss."""
    shares = {ONE_WAY: histogram_share, CLASSES: class_share}
    return [Charge(label=label, weight=share**-0.5) for label, share in shares.items()]


def real_loss(output: Tensor) -> Tensor:
    """Return the cross-entropy of a critic's outputs against "real", (rows, 1) to (rows,)."""
    return functional.softplus(-output[:, 0])


def generated_loss(output: Tensor) -> Tensor:
    """Return the cross-entropy of a critic's outputs against "generated", (rows, 1) to (rows,)."""
    return functional.softplus(output[:, 0])


def clipped_sum(critic: Mlp, loss: Loss, rows: Tensor, bound: float, weights: Tensor | None = None) -> list[Tensor]:
    """Return the summed gradients of `loss(critic(rows))`, one tensor per parameter, for generated rows alone.

    rows: (rows, features), or (classes, rows of each, features) for a critic with a block of inputs per class. weights:
    (rows,), class after class. Each row's gradient is clipped to `bound`, then multiplied by its weight. The sum is in
    the critic's own precision: no private row is in it. For private rows, `vault.measure_gradient_sum` has exact sums,
    noise and a charge. If `rows` require gradients, so does the sum; the critic's parameters count as constants.
    Source: Goodfellow 2015, as in `privacy.clipping`.
    """
    inputs, slopes, one = _layer_gradients(critic, loss, rows)
    both = list(zip(inputs, slopes, strict=True))
    squares = [d.square().sum(1) * (a.square().sum(-1).flatten() + one) for a, d in both]
    factors = (bound / torch.stack(squares).sum(0).sqrt().clamp(min=1e-30)).clamp(max=1.0)
    factors = (factors if weights is None else factors * weights)[:, None]
    found = list[Tensor]()
    for a, d in both:
        scaled = d * factors
        if a.dim() == 3:  # Rows of a class have gradients in their block only.
            found.append((scaled.reshape(*a.shape[:2], -1).mT @ a).movedim(0, 1).flatten(1))
        else:
            found.append(scaled.T @ a)
        found += [scaled.sum(0)] if one else []
    return found


def clipped_mean_of_groups(
    critic: Mlp, loss: Loss, rows: Tensor, bound: float, groups: Tensor, count: int
) -> list[Tensor]:
    """Return the mean over groups of rows of their mean gradient, clipped to `bound`, for generated rows alone.

    groups: the number of each row's group, (rows,), below `count`. Groups without rows do not count. Otherwise as for
    `clipped_sum`: this is what microbatches of private rows give.
    """
    inputs, slopes, one = _layer_gradients(critic, loss, rows)
    hot = functional.one_hot(groups, count).to(rows)
    hot = (hot / hot.sum(0).clamp(min=1)).T
    found = list[Tensor]()
    for a, d in zip(inputs, slopes, strict=True):
        found.append(torch.stack([(own[:, None] * d).T @ a for own in hot]))
        found += [hot @ d] if one else []
    norms = torch.stack([part.flatten(1).square().sum(1) for part in found]).sum(0).sqrt()
    factors = (bound / norms.clamp(min=1e-30)).clamp(max=1.0) / (hot.sum(1) > 0).sum()
    return [torch.einsum("g,g...->...", factors, part) for part in found]


def _layer_gradients(critic: Mlp, loss: Loss, rows: Tensor) -> tuple[list[Tensor], list[Tensor], float]:
    """Return each linear layer's inputs and the loss gradient at its outputs, (rows, numbers), and one for biases."""
    layers = [layer for layer in critic.layers if isinstance(layer, torch.nn.Linear)]
    followed = rows.requires_grad
    inputs = list[Tensor]()
    outputs = list[Tensor]()
    with torch.enable_grad():
        x = rows if followed else rows.detach()
        for k, layer in enumerate(layers):
            inputs.append(critic.activate(x) if k else x)
            weight = layer.weight.detach()
            bias = None if layer.bias is None else layer.bias.detach()
            if x.dim() == 3:  # Rows of each class, whose weights are side by side.
                x = (x @ weight.reshape(len(weight), len(x), -1).permute(1, 2, 0)).flatten(0, 1)
                x = x if bias is None else x + bias
            else:
                x = functional.linear(inputs[-1], weight, bias)
            outputs.append(x if x.requires_grad else x.requires_grad_())
        slopes = torch.autograd.grad(loss(x).sum(), outputs, create_graph=followed)
    kept = inputs if followed else [a.detach() for a in inputs]
    return kept, list(slopes), float(layers[0].bias is not None)


def by_class(rows: Tensor, classes: int) -> Tensor:
    """Place each row in the block of its class: `in_blocks`. The last `classes` numbers of a row indicate its class."""
    return in_blocks(rows, rows[..., -classes:])


@dataclass(frozen=True, eq=False)
class Indicators:
    """A map from codes, (rows, columns), to indicators of bins, column after column, and of the class, row by row.

    order: names of the codes' columns. cells: the columns to read. given: the target's name and the map from its codes
    to classes. Raises QueryError if a row would have too many indicators.
    """

    order: tuple[str, ...]
    cells: Mapping[str, CellMap]
    given: tuple[str, CellMap]
    device: str = field(default="cpu", metadata=LOCAL)

    def __post_init__(self) -> None:
        check_size(self.given[1].cells, MOST_WIDTH, what="The classes of the target")
        check_size(self.width, MOST_WIDTH, what="The indicators of a row")

    @property
    def width(self) -> int:
        """The number of indicators of a row, including those of its class."""
        return sum(cells.cells for cells in self.cells.values()) + self.given[1].cells

    def __call__(self, codes: Codes) -> Tensor:
        """Return indicators, (rows, width)."""
        where = {name: k for k, name in enumerate(self.order)}
        places = np.empty((len(codes), len(self.cells) + 1), np.int64)
        before = 0
        for k, (name, cells) in enumerate(self.cells.items()):
            places[:, k] = before + cells_of(cells, codes[:, where[name]])
            before += cells.cells
        places[:, -1] = before + cells_of(self.given[1], column_of(codes, self.order, self.given[0]))
        x = torch.zeros(len(codes), self.width)
        return x.scatter_(1, torch.from_numpy(places), 1.0).to(self.device)


class LatentNetwork:
    """A network that adds a term to the log shares of bins for each latent point: (points, classes, bins).

    Its last layer starts at zero, so that it adds nothing before it is trained.
    """

    def __init__(self, points: int, classes: int, bins: int, stream: torch.Generator, device: str) -> None:
        self.latent = torch.randn(points, LATENT, generator=stream).to(device)
        self.classes = classes
        self.net = Mlp([LATENT + classes, WIDTH, WIDTH, bins], "leaky_relu", stream).to(device)
        with torch.no_grad():
            for parameter in list(self.net.parameters())[-2:]:
                parameter.zero_()

    def added(self, points: Tensor, labels: Tensor) -> Tensor:
        """Return the added terms of pairs of a latent point and a class: (pairs,) each, to (pairs, bins)."""
        hot = functional.one_hot(labels, self.classes).to(self.latent)
        output: Tensor = self.net(torch.cat([self.latent[points], hot], 1))
        return output

    def __call__(self) -> Tensor:
        """Return the added terms of all pairs, (points, classes, bins)."""
        points, classes = torch.arange(len(self.latent)), torch.arange(self.classes)
        pairs = torch.cartesian_prod(points, classes).to(self.latent.device)
        return self.added(*pairs.T).reshape(len(points), len(classes), -1)


@dataclass(kw_only=True)
class TrainingSetup:
    """The codes, the generator and its initial state: every class starts at the noisy shares of all rows.

    `order`: names of the codes' columns. `rows`: their number, estimated from the declared number and noisy counts.
    `prior`: noisy shares of classes, (classes,). `given`: the target's name and the map from its codes to classes.
    `base`: log shares of every bin given a class, (classes, all bins), with columns side by side in `spans`. A
    `network` of latent points may add to them. Without a network, columns are independent given the class.
    """

    order: tuple[str, ...]
    rows: float
    bins: dict[str, Bins]
    given: tuple[str, CellMap]
    prior: Floats
    histograms: dict[str, Floats]
    base: Tensor
    spans: dict[str, slice]
    device: str
    network: LatentNetwork | None = None

    @classmethod
    def measure(
        cls, schema: Schema, vault: Measurements, plan: Plan, device: str, most_bins: int = MOST_BINS
    ) -> TrainingSetup:
        """Measure one-way marginals and the class marginal. All else is computed from these.

        `most_bins`: of a number.
        """
        columns = [name for name in schema.names if name != schema.target]
        axes: dict[str, Axes] = {name: [(name, fine_grid(schema.columns[name]))] for name in columns}
        many = grids(schema, most_bins)
        axes |= decoder_axes(schema, many)
        noisy = vault.measure_marginals(ONE_WAY, axes)
        fine = {key: counts for key, counts in noisy.items() if key in many or key not in schema.columns}
        std = plan.noise(ONE_WAY) * math.sqrt(len(axes))
        totals = [NoisyTotal.of(noisy[name], std) for name in axes if name in schema.columns]
        histograms = cleaned_histograms(schema, fine, likely_rows(plan.rows, totals, plan.rows_std), std)
        bins, condition = decoder(schema, histograms, plan.rows, most_bins)
        given = (schema.target or "", condition)
        counts = vault.measure_marginals(CLASSES, {"class": [given]})["class"]
        rows = likely_rows(plan.rows, [*totals, NoisyTotal.of(counts, plan.noise(CLASSES))], plan.rows_std)
        counts = without_spurious_missing(counts, schema.columns.get(schema.target or ""), plan.noise(CLASSES))
        base = list[Floats]()
        for name in columns:
            share = histograms[name] if name in histograms else cleaned(noisy[name], rows)
            mass = np.bincount(bins[name].place, share, bins[name].cells)
            base.append(np.tile(np.log(mass + 1e-9), (condition.cells, 1)))
        stops = np.cumsum([shares.shape[1] for shares in base]).tolist()
        return cls(
            order=schema.names,
            rows=rows,
            bins=bins,
            given=given,
            prior=cleaned(counts, rows),
            histograms=histograms,
            base=torch.tensor(np.concatenate(base, 1), dtype=torch.float32).to(device),
            spans={name: slice(a, b) for name, a, b in zip(columns, [0, *stops], stops, strict=False)},
            device=device,
        )

    def add_network(self, seed: int | None) -> Mlp:
        """Give the generator latent points and a network that adds nothing yet. Return the network, to be trained."""
        bins = self.base.shape[1]
        stream = torch_stream(seed, "init")
        self.network = LatentNetwork(LATENT_POINTS, self.classes, bins, stream, self.device)
        return self.network.net

    @property
    def encode(self) -> Indicators:
        """The map from codes to the indicators that a critic reads."""
        return Indicators(self.order, {name: self.bins[name] for name in self.spans}, self.given, device=self.device)

    @property
    def classes(self) -> int:
        """The number of classes that rows are conditioned on."""
        return self.given[1].cells

    @property
    def width(self) -> int:
        """The number of indicators that a critic reads per row, including those of the class."""
        return self.base.shape[1] + self.classes

    def by_class(self, rows: Tensor) -> Tensor:
        """Place each row in the block of its class, (..., width) to (..., classes * width), zero elsewhere."""
        return by_class(rows, self.classes)

    def labels(self, count: int, latent: torch.Generator, *, even: bool = False) -> Tensor:
        """Draw classes for `count` generated rows, by the noisy shares or evenly: (count,)."""
        if even:
            return torch.randint(self.classes, (count,), generator=latent, device=self.device)
        shares = torch.tensor(self.prior, dtype=torch.float32, device=self.device)
        return torch.multinomial(shares, count, replacement=True, generator=latent)

    def fakes(self, labels: Tensor, latent: torch.Generator, *, relaxed: bool = True) -> Tensor:
        """Generate rows of these classes, (rows, width): a latent point each, then hard draws with soft gradients.

        If `relaxed`, use Gumbel noise and the gradient of the relaxed draw (Jang, Gu, Poole 2017), which is nearly zero
        at bins that were not drawn. Otherwise use the gradient of the bins' probabilities (Bengio, Leonard, Courville
        2013). It depends on all bins at once, which suits a critic behind noise.
        """
        own, net = self.base[labels], self.network
        if net is not None:
            chosen = torch.randint(len(net.latent), labels.shape, generator=latent, device=self.device)
            own = own + net.added(chosen, labels)
        uniform = torch.rand(own.shape, generator=latent, device=self.device).clamp(1e-6, 1 - 1e-6)
        noisy = own - torch.log(-torch.log(uniform))
        scores = noisy / TEMPERATURE if relaxed else own
        parts = list[Tensor]()
        alike, order = self._alike
        for places in alike:  # In (rows, bins, columns) these operations are fast.
            flat = places.flatten()
            shape = (len(labels), *places.shape)
            soft = torch.softmax(scores.index_select(1, flat).reshape(shape), 1)
            drawn = noisy.detach().index_select(1, flat).reshape(shape).max(1, keepdim=True).indices
            hard = (torch.arange(len(places), device=self.device)[:, None] == drawn).to(soft)
            parts.append((hard + soft - soft.detach()).flatten(1))
        made = torch.cat(parts, 1).index_select(1, order)
        return torch.cat([made, functional.one_hot(labels, self.classes).to(own)], 1)

    @cached_property
    def _alike(self) -> tuple[list[Tensor], Tensor]:
        """Places of bins, (bins, columns), of all columns with the same number of bins, which are drawn at once.

        And the order that puts the bins of all of these back to their places: (all bins,).
        """
        alike = dict[int, list[range]]()
        for span in self.spans.values():
            alike.setdefault(span.stop - span.start, []).append(range(span.start, span.stop))
        found = [torch.tensor([*own], device=self.device).T for own in alike.values()]
        return found, torch.cat([places.flatten() for places in found]).argsort()

    def pool(self, count: int, latent: torch.Generator) -> Tensor:
        """Generate `count` rows of each class to train critics against: (classes, count, width)."""
        labels = torch.arange(self.classes, device=self.device).repeat_interleave(count)
        with torch.no_grad():
            return self.fakes(labels, latent).reshape(self.classes, count, -1)

    def tensors(self) -> Arrays:
        """Return the tensors that `sampler.generate` needs."""
        log_shares = self.base.detach().double().cpu().numpy()
        added = dict[str, NDArray[np.float32]]()
        base = {name: log_shares[:, span] for name, span in self.spans.items()}
        if self.network is not None:
            with torch.no_grad():
                whole = self.network().cpu().numpy()
            added = {name: whole[..., span] for name, span in self.spans.items()}
        kept = decoder_tensors(self.histograms, self.bins, list(base))
        counted = np.array([self.rows], np.float32)
        return {**mixture_tensors(base, added), **kept, "prior": self.prior.astype(np.float32), COUNTED_ROWS: counted}


def step_along(adam: torch.optim.Optimizer, net: Mlp, gradients: Iterable[Tensor]) -> None:
    """Take one step of an optimiser with gradients of a network's parameters that were computed elsewhere."""
    for p, gradient in zip(net.parameters(), gradients, strict=True):
        p.grad = gradient
    adam.step()


class AveragedWeights:
    """Running averages of a network's parameters, which vary less than the last ones (Polyak, Juditsky 1992).

    Each update takes a part 1 - `decay` of the current parameters.
    """

    def __init__(self, net: Mlp, decay: float) -> None:
        self.net, self.decay = net, decay
        self.values = [p.detach().clone() for p in net.parameters()]

    def update(self) -> None:
        """Add the current weights to the averages."""
        for value, p in zip(self.values, self.net.parameters(), strict=True):
            value.lerp_(p.detach(), 1 - self.decay)

    def copy_to_network(self) -> None:
        """Copy the averaged weights to the network."""
        with torch.no_grad():
            for value, p in zip(self.values, self.net.parameters(), strict=True):
                p.copy_(value)


class DualAveraging:
    """An optimiser for one parameter that moves only as far as the sum of its gradients exceeds the noise.

    Regularised dual averaging with an l1 term and Adagrad's scale (Xiao 2010; Duchi, Hazan, Singer 2011): a value
    follows from the sum of all its gradients so far. If the gradients are mostly independent noise, the sum is roughly
    normal, and its standard deviation is the root of the sum of squares. This deviation, times `threshold`, is
    subtracted. A plain step would keep the noise of every measurement. Only sanitised gradients are read.
    """

    def __init__(self, parameter: Tensor, rate: float, threshold: float) -> None:
        self._parameter, self._rate, self._threshold = parameter, rate, threshold
        self._start = parameter.detach().clone()
        self._sum = torch.zeros_like(self._start)
        self._squares = torch.zeros_like(self._start)
        self._count = 0

    def add_gradient(self) -> None:
        """Add the parameter's gradient to the sum, and clear the gradient."""
        if self._parameter.grad is not None:
            self._sum += self._parameter.grad
            self._squares += self._parameter.grad.square()
            self._count += 1
            self._parameter.grad = None

    def step(self) -> None:
        """Set the parameter from the sum of all gradients minus its noise. It moves at most rate * sqrt(count)."""
        if not self._count:
            return
        noise = self._squares.sqrt()
        signal = (self._sum.abs() - self._threshold * noise).clamp(min=0) * self._sum.sign()
        with torch.no_grad():
            self._parameter.copy_(self._start - self._rate * self._count**0.5 * signal / noise.clamp(min=1e-12))


class ShardMethod(MixtureMethod):
    """A method whose critics, or teachers, train without noise on one shard each. The generator uses noised answers.

    The sizes below cost time, not privacy.
    """

    warm = 100  # steps of the critics before the first answer
    critic_steps = 1  # steps of the critics before each later step of the generator
    pool = 32  # generated rows per class that critics learn from
    step = 1.5  # final change of a logit per standard deviation by which its gradients' sum exceeds the noise
    threshold = 1.0  # standard deviations of noise that are subtracted
    critic = CriticConfig(width=8)


class ShardTraining:
    """The training of a `ShardMethod`'s generator with `gradients` measurements in all. `train` moves the critics.

    It trains the logits of bins given the class. With this much noise, a network would learn only noise.
    """

    def __init__(
        self, method: ShardMethod, setup: TrainingSetup, train: Callable[[Tensor], None], gradients: int,
        seed: int | None,
    ) -> None:  # fmt: skip
        self._method, self._setup, self._train = method, setup, train
        self.latent = torch_stream(seed, "latent", setup.device)
        self.averaging = DualAveraging(setup.base.requires_grad_(), method.step * gradients**-0.5, method.threshold)

    def steps(self, count: int, progress: Progress) -> Iterator[int]:
        """Yield each step's number after all critics trained. Then move the generator by the added gradients."""
        for step in range(count):
            for _ in range(self._method.critic_steps if step else self._method.warm):
                self._train(self._setup.pool(self._method.pool, self.latent))
            yield step
            self.averaging.step()
            progress(step + 1, count)

    def follow(self, batch: int, turn: int, upstream: Callable[[Tensor], Tensor]) -> None:
        """Get a sanitised gradient at `batch` generated rows, and backpropagate it through the generator.

        `upstream`: maps rows, (rows, width), to their gradients, (rows, width - classes). `turn` rotates the classes.
        """
        labels = (torch.arange(batch, device=self._setup.device) + turn * batch) % self._setup.classes
        fake = self._setup.fakes(labels, self.latent, relaxed=False)
        gradient = upstream(fake.detach()) / batch
        fake[:, : -self._setup.classes].backward(gradient=gradient)  # type: ignore[no-untyped-call]
        self.averaging.add_gradient()
