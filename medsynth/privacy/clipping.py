"""Clipped gradient sums of networks of linear layers, in whole numbers, with their sensitivity: of rows and of pairs.

The gradient of one row at a linear layer is the outer product of d, the loss gradient at its output, and a, its input.
With the bias its squared norm is |d|^2 (|a|^2 + 1), and a weighted sum over rows is one matrix product. No per-row
gradient is formed (Goodfellow 2015; Bu et al. 2023). This requires that each row uses each layer once.

Losses of a pair are of a real row and a generated one. A gradient penalty uses each layer twice, so `torch.func` forms
per-pair gradients in chunks of bounded memory, by exact products forward and in both derivatives. The parameters are in
k groups, each with a bound c_j. Divided by the bounds, a row adds norm at most 1 in each group and sqrt(k) in total:
noise of multiplier * sqrt(k) * c_j in group j is one Gaussian mechanism of that multiplier.

All values are whole multiples of public grids (`exact_sums`): a row's clipped gradient is the same in every lot, its
norm is at most the bound, and sums are exact. Statements and proofs: docs/proofs/gradients.md, docs/proofs/pairs.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor
from torch.func import grad, vmap

from ..errors import BudgetError
from . import exact_sums as sums
from .contribution import MOST_PAIRS
from .exact_sums import factors
from .networks import ACTIVATIONS, SLOPES, Mlp

Loss = Callable[[Tensor], Tensor]  # Critic outputs (rows, 1) to losses (rows,), each row's from its own output.
INPUT_BITS, INPUT_MOST = 18, 128  # Grid and largest size of a layer's inputs.
GRADIENT_BITS, GRADIENT_MOST = 22, 32  # Grid and largest size of the loss gradient at a layer's outputs.
OUTPUT_MOST, NODES_PER_UNIT = 32, 64  # Critic outputs: range and mesh on which the loss is differentiated.
PRODUCT_BITS = 44  # Bits of a row's clipped gradient, in the units in which rows are added.
EXACT_ROWS = 1 << (53 - PRODUCT_BITS)  # Rows that one matrix product adds exactly.
MOST_ROWS = 1 << (62 - PRODUCT_BITS)  # Rows that 64 bits add exactly.
SUM_BITS = 34  # Bits of a clipped gradient in the units of the released sum.
MOST_PARAMETERS = 1 << 26  # Above it, rounding the sum could use up the margin of `factors`.
BLOCK_ROWS = 512  # Rows that a CPU processes at once, so that what it reads again is in its cache.
CHUNK_NUMBERS = 1 << 20  # Numbers in the gradients of groups that are in memory at once.
BOUNDS = (2.0**-64, 2.0**64)  # Least and largest clipping norm, so that no unit of whole numbers underflows.
RowCritic = Callable[[Tensor], Tensor]  # The critic as a function from one row, (features,), to a number.
# The loss of a real row, a generated one and a coefficient, in float64. It uses the critic, operations on single
# numbers, and `exact_sums.exact_sum` for sums.
PairLoss = Callable[[RowCritic, Tensor, Tensor, Tensor], Tensor]
PAIR_NUMBERS = 1 << 21  # Numbers in the gradients that are in memory at once.
# Bits of a group's bound: in the units of a pair's gradient, and of their clipped sum.
PAIR_GRID_BITS, PAIR_SUM_BITS = 22, 32
MOST_STEPS = 64  # Steps of local training.
MOST_RATE = 1024.0  # Learning rate of local training.


@dataclass(frozen=True)
class ClippedSum:
    """A sum over rows: one int64 tensor per parameter, in multiples of `unit`, and its L2 sensitivity to one row."""

    whole: tuple[Tensor, ...]
    unit: float
    l2: float

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Return the sum as numbers, in float32 as the critic's parameters are."""
        return tuple((whole.double() * self.unit).float() for whole in self.whole)


def units(bound: float) -> tuple[float, float]:
    """Return the units, powers of two, in which rows' clipped gradients are added and in which the sum is released."""
    exponent = math.frexp(bound)[1]  # The least power of two above the bound.
    return math.ldexp(1.0, exponent - PRODUCT_BITS), math.ldexp(1.0, exponent - SUM_BITS)


class _Layer:
    """A linear layer's weights on the grids of its two products, which keep these below 2^53 units.

    A power of two that scales the weights changes no product's digits, so products are in the units of what reads them.
    """

    def __init__(self, layer: torch.nn.Linear) -> None:
        self._weight = _bounded(layer.weight.detach().double())
        scale = _weight_scale(self._weight.T, INPUT_MOST << INPUT_BITS)
        unit = 2.0**-INPUT_BITS / scale
        self.forward = (self._weight.T * scale).round_().mul_(unit)
        self.bias = None
        if layer.bias is not None:
            self.bias = (_bounded(layer.bias.detach().double()) / unit).round_().mul_(unit)

    @cached_property
    def backward(self) -> Tensor:
        """The weights of the product backward, (outputs, inputs). The first layer needs none."""
        scale = _weight_scale(self._weight, GRADIENT_MOST << GRADIENT_BITS)
        return (self._weight * scale).round_().div_(scale)

    def outputs(self, inputs: Tensor) -> Tensor:
        """Return exact outputs, (rows, outputs), for inputs on the grid."""
        return inputs @ self.forward if self.bias is None else torch.addmm(self.bias, inputs, self.forward)

    def input_gradients(self, gradients: Tensor) -> Tensor:
        """Return the exact loss gradient at the inputs, (rows, inputs), in the unit of `gradients` at the outputs."""
        return gradients @ self.backward


def _weight_scale(weight: Tensor, most: int) -> Tensor:
    """Return how many steps of the finest grid of weights, (summed, others), there are to 1: a power of two.

    On it, exact products with numbers up to `most` add up to below 2^51. On a grid of 2^-24 a bias of up to 1024 stays
    below 2^52. The weights' sizes are added as whole numbers.
    """
    sizes = (weight.abs() * 2.0**20).ceil_().sum(0).amax() * 2.0**-20
    bits = 50 - math.frexp(float(most))[1] - torch.frexp(sizes + 2.0**-20).exponent
    return sums.power_of_two(bits.clamp_(max=24))


@dataclass(frozen=True)
class _Recorded:
    """Inputs a and output gradients d of each linear layer, (rows, features), as whole numbers on their grids."""

    inputs: list[Tensor]
    grads: list[Tensor]
    bias: bool

    def norms(self) -> Tensor:
        """Return each row's gradient norm over all parameters: (rows,)."""
        one = float(self.bias) * 4.0**INPUT_BITS
        found = torch.zeros_like(self.grads[0][:, 0])
        for a, d in zip(self.inputs, self.grads, strict=True):
            found += sums.norms(d).square() * (sums.norms(a).square() + one)
        return found.sqrt() * 2.0 ** -(INPUT_BITS + GRADIENT_BITS)

    def add_weighted(self, parts: list[Tensor], weights: Tensor, bits: int) -> None:
        """Add per-row gradients, row i times weights[i], to `parts`, one int64 tensor per parameter.

        The unit is 2^-(bits + INPUT_BITS). Each row's part is rounded towards zero, so that its norm cannot grow.
        """
        own = iter(parts)
        scales = (weights * 2.0 ** (bits - GRADIENT_BITS))[:, None]
        for a, d in zip(self.inputs, self.grads, strict=True):
            scaled = d * scales
            weight = next(own)
            scaled = scaled.abs().floor_().mul_(scaled.sign())  # As `trunc`, which is slow.
            for k in range(0, len(a), EXACT_ROWS):
                weight += (scaled[k : k + EXACT_ROWS].T @ a[k : k + EXACT_ROWS]).long()
            if self.bias:
                next(own).add_(scaled.sum(0).long(), alpha=1 << INPUT_BITS)

    def of_groups(self, groups: Tensor, first: int, count: int) -> Tensor:
        """Return the summed gradients of `count` groups from `first`: (count, parameters), in multiples of the grid.

        In 64 bits the sums are exact. If they overflow, they are still functions of the group's rows alone.
        """
        here = torch.nonzero((groups >= first) & (groups < first + count))[:, 0]
        parts: list[Tensor] = []
        for a, d in zip(self.inputs, self.grads, strict=True):
            sizes = [(a.shape[1], a)] + ([(1, torch.full_like(a[:, :1], 2.0**INPUT_BITS))] if self.bias else [])
            for width, own in sizes:
                found = torch.zeros(count, d.shape[1] * width, dtype=torch.int64, device=a.device)
                step = max(1, CHUNK_NUMBERS // found.shape[1])
                for k in range(0, len(here), step):
                    rows = here[k : k + step]
                    each = d[rows].long()[:, :, None] * own[rows].long()[:, None, :]
                    found.index_add_(0, groups[rows] - first, each.flatten(1))
                parts.append(found)
        return torch.cat(parts, 1)


class _Recorder:
    """A critic and a loss, prepared for exact gradients of any rows."""

    def __init__(self, critic: Mlp, loss: Loss, device: torch.device) -> None:
        self._layers = [_Layer(layer) for layer in critic.layers if isinstance(layer, torch.nn.Linear)]
        if self._layers[-1].forward.shape[1] != 1:
            raise BudgetError("A critic whose gradients are clipped must have one output.")
        self._activate, self._slope = ACTIVATIONS[critic.activation], SLOPES[critic.activation]
        self._mesh_slopes = _mesh_slopes(loss, device)

    def record(self, rows: Tensor) -> _Recorded:
        """Return each layer's inputs and output gradients, by exact sums forward and backward; bad rows become zero."""
        finite = torch.isfinite(rows.detach().abs().amax(1, keepdim=True))
        # A device does not wait for the answer.
        x = (rows if rows.is_cpu and bool(finite.all()) else torch.where(finite, rows, 0.0)).detach().double()
        inputs, slopes = list[Tensor](), list[Tensor]()
        for k, layer in enumerate(self._layers):
            if k:
                x = self._activate(x)
                slopes.append(self._slope(x))
            inputs.append(sums.on_grid(x, INPUT_BITS, INPUT_MOST << INPUT_BITS))
            x = layer.outputs(inputs[-1])
        most = GRADIENT_MOST << GRADIENT_BITS
        grads = [sums.on_grid(self._loss_gradient(x) * finite, GRADIENT_BITS, most)]
        for layer, slope in zip(self._layers[:0:-1], slopes[::-1], strict=True):
            grads.insert(0, layer.input_gradients(grads[0]).mul_(slope).round_().clamp_(-most, most))
        return _Recorded(inputs, grads, self._layers[0].bias is not None)

    def _loss_gradient(self, outputs: Tensor) -> Tensor:
        """Return the derivative of each row's loss at its output, (rows, 1), linear between the nodes of the mesh.

        So it is a function of the output alone. Outside the mesh it equals the value at the end.
        """
        place = (outputs.clamp(-OUTPUT_MOST, OUTPUT_MOST) + OUTPUT_MOST) * NODES_PER_UNIT
        node = place.floor().clamp_(max=len(self._mesh_slopes) - 2)
        low, high = self._mesh_slopes[node.long()], self._mesh_slopes[node.long() + 1]
        return low + (place - node) * (high - low)


@lru_cache(maxsize=8)
def _mesh_slopes(loss: Loss, device: torch.device) -> Tensor:
    """Return the derivative of the loss at each node of a public mesh of outputs: (nodes,)."""
    mesh = torch.arange(2 * OUTPUT_MOST * NODES_PER_UNIT + 1, dtype=torch.float64, device=device)
    with torch.enable_grad():
        nodes = (mesh / NODES_PER_UNIT - OUTPUT_MOST)[:, None].requires_grad_()
        (slopes,) = torch.autograd.grad(loss(nodes).sum(), nodes)
    return slopes[:, 0].nan_to_num(0.0)


def clipped_gradient_sum(critic: Mlp, loss: Loss, rows: Tensor, bound: float) -> ClippedSum:
    """Return the sum of per-row gradients of `loss(critic(rows))`, each clipped to `bound`, in whole numbers.

    rows: (rows, features), cut at 128. Returns one tensor per parameter, in the order of `critic.parameters()`. Its
    sensitivity is `bound` per row. Raises BudgetError unless `bound` is from 2^-64 to 2^64, and for more rows or
    parameters than 64 bits can add.
    """
    _check_sizes(critic, bound, len(rows))
    recorder = _Recorder(critic, loss, rows.device)
    unit = units(bound)[0]
    bits = -math.frexp(unit)[1] + 1 - INPUT_BITS
    total = [torch.zeros(p.shape, dtype=torch.int64, device=rows.device) for p in critic.parameters()]
    for some in torch.split(rows, BLOCK_ROWS) if rows.device.type == "cpu" else (rows,):
        recorded = recorder.record(some)
        recorded.add_weighted(total, factors(recorded.norms(), bound), bits)
    return ClippedSum(tuple(total), unit, bound)


def _check_sizes(critic: Mlp, bound: float, rows: int) -> None:
    if not BOUNDS[0] <= bound <= BOUNDS[1]:
        raise BudgetError("The clipping norm must be from 2^-64 to 2^64.")
    if rows > MOST_ROWS or sum(p.numel() for p in critic.parameters()) > MOST_PARAMETERS:
        raise BudgetError("The critic or its lot is too large for exact sums of gradients.")


def gradients_of_groups(critic: Mlp, loss: Loss, rows: Tensor, groups: Tensor, count: int) -> Tensor:
    """Return the unclipped gradient sums of each group's rows: (count, parameters), in multiples of a public grid.

    They add up over parts of the rows, as the groups' sizes do. `clipped_means` clips. Raises BudgetError for too many
    groups or parameters, as `clipped_gradient_sum`. The number of rows is not limited: a refusal would depend on the
    size of a secret lot.
    """
    _check_sizes(critic, 1.0, count)
    recorded = _Recorder(critic, loss, rows.device).record(rows)
    wide = sum(d.shape[1] * (a.shape[1] + recorded.bias) for a, d in zip(recorded.inputs, recorded.grads, strict=True))
    step = max(1, CHUNK_NUMBERS // wide)
    return torch.cat([recorded.of_groups(groups, k, min(step, count - k)) for k in range(0, count, step)])


def clipped_means(critic: Mlp, gradients: Tensor, sizes: Tensor, bound: float) -> ClippedSum:
    """Return the sum over groups of their mean gradients, each clipped to `bound` and rounded towards zero.

    gradients: (groups, parameters), by `gradients_of_groups`; sizes: (groups,). Returns one tensor per parameter. Its
    sensitivity is twice the bound, since one more row can reverse a clipped mean. Raises BudgetError as
    `clipped_gradient_sum`.
    """
    _check_sizes(critic, bound, len(gradients))
    unit, (count, wide) = units(bound)[0], gradients.shape
    total = torch.zeros(wide, dtype=torch.int64, device=gradients.device)
    step = max(1, CHUNK_NUMBERS // wide)
    for k in range(0, count, step):
        some = slice(k, k + step)
        means = gradients[some].double() / sizes[some, None].clamp(min=1).double()
        whole = (means * (2.0 ** -(INPUT_BITS + GRADIENT_BITS) / unit)).round()
        total += (whole * factors(sums.norms(whole) * unit, bound)[:, None]).long().sum(0)
    shapes = [p.shape for p in critic.parameters()]
    parts = torch.split(total, [shape.numel() for shape in shapes])
    return ClippedSum(tuple(p.reshape(shape) for p, shape in zip(parts, shapes, strict=True)), unit, 2 * bound)


@dataclass(frozen=True)
class LocalTraining:
    """Steps of gradient descent at `rate` by which a pair trains the critic from the shared weights.

    This is a client's update in federated averaging (McMahan et al. 2017; Augenstein et al. 2020, algorithm 2).

    Raises BudgetError unless there are 1 to 64 steps and the rate is positive and at most 1,024.
    """

    steps: int = 1
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MOST_STEPS or not 0 < self.rate <= MOST_RATE:
            raise BudgetError(
                f"Local training needs 1 to {MOST_STEPS} steps at a positive rate of at most {MOST_RATE:g}."
            )


ONE_GRADIENT = LocalTraining()


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each of a critic's parameters, (parameters,) numbers from zero, and the groups' clipping norms.

    Raises BudgetError unless every bound is from 2^-64 to 2^64 and every parameter has one.
    """

    of: Tensor
    bounds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.bounds or not all(BOUNDS[0] <= bound <= BOUNDS[1] for bound in self.bounds):
            raise BudgetError("The clipping norms must be from 2^-64 to 2^64.")
        known = self.of.dtype == torch.int64 and self.of.dim() == 1 and self.of.numel() > 0
        if not known or self.of.min() < 0 or self.of.max() >= len(self.bounds):
            raise BudgetError("Every parameter needs a group with a clipping norm.")

    @property
    def sensitivity(self) -> float:
        """Return the L2 sensitivity of the sum with each group divided by its bound."""
        return math.sqrt(len(self.bounds))

    @property
    def units(self) -> list[float]:
        """Return the unit, a power of two, in which each group's clipped gradients are added."""
        return [math.ldexp(1.0, math.frexp(bound)[1] - PAIR_SUM_BITS) for bound in self.bounds]

    @property
    def grids(self) -> list[float]:
        """Return the unit, a larger power of two, to which a pair's gradient is rounded."""
        return [unit * 2.0 ** (PAIR_SUM_BITS - PAIR_GRID_BITS) for unit in self.units]

    def on_grids(self, gradients: Tensor) -> Tensor:
        """Return (rows, parameters) as whole numbers of the groups' grids."""
        return (gradients * self.spread([1 / grid for grid in self.grids])).round_()

    def spread(self, values: list[float] | Tensor) -> Tensor:
        """Return values per group, (..., groups), as values per parameter, or (..., 1) for a single group."""
        each = torch.as_tensor(values, dtype=torch.float64, device=self.of.device)
        return each if len(self.bounds) == 1 else each[..., self.of]

    def norms(self, gradients: Tensor) -> Tensor:
        """Return the norm of each group's part, on its grid: (rows, parameters) to (rows, groups)."""
        return self.norms_of_whole(self.on_grids(gradients))

    def norms_of_whole(self, whole: Tensor) -> Tensor:
        """Return the norms of gradients that are whole numbers of the groups' grids."""
        grids = self.grids
        parts = [whole] if len(grids) == 1 else [whole[:, self.of == j] for j in range(len(grids))]
        return torch.stack([sums.norms(part) * grid for part, grid in zip(parts, grids, strict=True)], 1)


def _exact_critic(critic: Mlp, weights: dict[str, Tensor]) -> RowCritic:
    """Return the critic with these weights as a function of one row, by exact products."""

    def output(row: Tensor) -> Tensor:
        x = row[None]
        for k in range(len(critic.layers)):
            x = sums.product(critic.activate(x) if k else x, weights[f"layers.{k}.weight"].mT)
            x = x + weights[f"layers.{k}.bias"] if f"layers.{k}.bias" in weights else x
        return x[0, 0]

    return output


def pair_gradients(
    critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor, local: LocalTraining = ONE_GRADIENT
) -> Tensor:
    """Return the gradient of each pair's own loss: (rows, parameters) in float64, ordered as `critic.parameters()`.

    real, fake: (rows, features); mix: (rows,). With several steps of `local` training it is the sum of the gradients
    along them: the pair's change of the weights divided by minus the rate. A gradient that is not finite counts as
    zero.
    """
    # Weights are bounded, so that their sizes add exactly, including each pair's own weights in local training.
    weights = {name: _bounded(p.detach().double()) for name, p in critic.named_parameters()}
    if not len(real):
        return real.new_zeros(0, sum(p.numel() for p in weights.values()), dtype=torch.float64)

    def one(weights: dict[str, Tensor], real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
        return loss(_exact_critic(critic, weights), real, fake, mix)

    def added(weights: dict[str, Tensor], *pair: Tensor) -> dict[str, Tensor]:
        total: dict[str, Tensor] = grad(one)(weights, *pair)
        for _ in range(local.steps - 1):
            slopes = grad(one)({name: _bounded(w - local.rate * total[name]) for name, w in weights.items()}, *pair)
            total = {name: own + slopes[name] for name, own in total.items()}
        return total

    found = vmap(added, in_dims=(None, 0, 0, 0))(weights, real.double(), fake.double(), mix.double())
    flat = torch.cat([found[name].flatten(1) for name in weights], 1)
    finite = torch.isfinite(flat.abs().amax(1, keepdim=True))  # A sum of finite numbers could overflow in some orders.
    return torch.where(finite, flat, 0.0)


def _bounded(weights: Tensor) -> Tensor:
    return weights.nan_to_num(0.0).clamp(-sums.WEIGHT_MOST, sums.WEIGHT_MOST)


def clipped_pair_sum(
    critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor, groups: Groups,
    local: LocalTraining = ONE_GRADIENT,
) -> Tensor:  # fmt: skip
    """Return the sum over pairs of gradients, each group's part clipped to its bound: (parameters,) whole numbers.

    The unit is that of the group, `groups.units`. One pair changes group j by at most `groups.bounds[j]`. Raises
    BudgetError for more pairs than 64 bits can add.
    """
    if len(real) > MOST_PAIRS:
        raise BudgetError("The lot is too large for exact sums of gradients.")
    total = torch.zeros(len(groups.of), dtype=torch.int64, device=real.device)
    for gradients in _chunks(critic, loss, real, fake, mix, local):
        whole = groups.on_grids(gradients)
        found = groups.norms_of_whole(whole)
        scales = torch.stack([factors(found[:, j], bound) for j, bound in enumerate(groups.bounds)], 1)
        whole *= groups.spread(scales * 2.0 ** (PAIR_SUM_BITS - PAIR_GRID_BITS))
        total += whole.long().sum(0)
    return total


def halves_below(
    critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor, groups: Groups,
    local: LocalTraining = ONE_GRADIENT,
) -> Tensor:  # fmt: skip
    """Return for each group the pairs at or below its bound minus those above: (groups,) whole numbers, to be halved.

    One pair changes each by one, so all halves by sqrt(groups) / 2 (Andrew et al. 2021, section 2).
    """
    bounds = torch.tensor(groups.bounds, device=real.device, dtype=torch.float64)
    total = torch.zeros(len(groups.bounds), dtype=torch.int64, device=real.device)
    for gradients in _chunks(critic, loss, real, fake, mix, local):
        total += torch.where(groups.norms(gradients) <= bounds, 1, -1).sum(0)
    return total


def _chunks(
    critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor, local: LocalTraining
) -> Iterator[Tensor]:
    """Yield the gradients of the pairs in chunks of bounded memory."""
    size = max(1, PAIR_NUMBERS // sum(p.numel() for p in critic.parameters()))
    for k in range(0, len(real), size):
        yield pair_gradients(critic, loss, real[k : k + size], fake[k : k + size], mix[k : k + size], local)
