"""The generator: a mixture of products of column distributions, over a fixed set of latent points.

Given a class and a latent point the columns are independent, so expected tables of any columns are means over the
latent points of outer products of softmaxes: exact, quick, and free of sampling noise. The network is residual: it
adds to the logarithm of the class's noisy column shares and begins at zero, so that it starts as those shares.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...privacy.networks import Mlp
from ...rng import Stream, torch_stream
from .stratified import choose

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
BinsByColumn = dict[str, Whole]  # (rows,) each


@dataclass(frozen=True, kw_only=True)
class GeneratorSize:
    """Sizes of the generator: they cost time, not privacy."""

    points: int = 128  # latent points
    latent: int = 8
    width: int = 96


class MixtureOfProducts:
    """p(row | class) = mean over latent points of the product over columns of softmax(base + network).

    `base`: log shares, (classes, bins) a column. All columns' bins stand side by side; `spans` are their slices.
    """

    def __init__(self, base: dict[str, Floats], size: GeneratorSize, stream: torch.Generator) -> None:
        self._lay_out({name: b.shape[1] for name, b in base.items()})
        self.base = torch.tensor(np.concatenate(list(base.values()), 1), dtype=torch.float32)
        self.classes = len(self.base)
        self.latent = torch.randn(size.points, size.latent, generator=stream)
        self.net = Mlp([size.latent + self.classes, size.width, size.width, sum(self.sizes)], "leaky_relu", stream)
        with torch.no_grad():
            for parameter in list(self.net.parameters())[-2:]:
                parameter.zero_()

    def _lay_out(self, sizes: dict[str, int]) -> None:
        stops = np.cumsum(list(sizes.values())).tolist()
        self.names, self.sizes = list(sizes), list(sizes.values())
        self.spans = {n: slice(a, b) for n, a, b in zip(sizes, [0, *stops], stops, strict=False)}

    def to(self, device: str) -> MixtureOfProducts:
        """This mixture on another device."""
        self.base, self.latent = self.base.to(device), self.latent.to(device)
        self.net.to(device)
        return self

    def tensors(self, base: dict[str, Floats]) -> dict[str, NDArray[np.float32]]:
        """All that `restored` needs, by name; `base` as given to the constructor."""
        net = {f"generator.{k}": p.detach().cpu().numpy() for k, p in enumerate(self.net.parameters())}
        kept = {f"base.{name}": shares.astype(np.float32) for name, shares in base.items()}
        return {**net, **kept, "latent": self.latent.cpu().numpy()}

    @classmethod
    def restored(cls, tensors: dict[str, NDArray[np.float32]], names: Sequence[str]) -> MixtureOfProducts:
        """The mixture that `tensors` were taken from. `names`: its columns in order, which a file does not keep."""
        base = {name: tensors[f"base.{name}"].astype(np.float64) for name in names}
        mixture = cls(base, GeneratorSize(), torch_stream(0, "init"))
        mixture.latent = torch.from_numpy(tensors["latent"])
        with torch.no_grad():
            for k, parameter in enumerate(mixture.net.parameters()):
                parameter.copy_(torch.from_numpy(tensors[f"generator.{k}"]))
        return mixture

    def inputs(self) -> Tensor:
        """Latent points beside one-hot classes, (points * classes, latent + classes)."""
        points, classes = len(self.latent), self.classes
        hot = torch.eye(classes, device=self.latent.device).repeat(points, 1)
        return torch.cat([self.latent.repeat_interleave(classes, 0), hot], 1)

    def residual(self) -> Tensor:
        """What the network adds to the base: (points, classes, all bins)."""
        output: Tensor = self.net(self.inputs())
        return output.reshape(len(self.latent), self.classes, -1)

    def shares(self, residual: Tensor) -> dict[str, Tensor]:
        """p(bin | latent point, class) of every column: (points, classes, bins)."""
        logits = torch.split(self.base + residual, self.sizes, -1)  # slices would each have a gradient of full size
        return {name: torch.softmax(part, -1) for name, part in zip(self.spans, logits, strict=True)}

    def part(self, names: Collection[str]) -> MixtureOfProducts:
        """The mixture of the columns `names`, those with as many bins side by side.

        The network's hidden layers are shared with this mixture, its last one is a copy for `take_back`.
        """
        part, widths = copy.copy(self), dict(zip(self.names, self.sizes, strict=True))
        part._lay_out({name: widths[name] for name in sorted(names, key=lambda name: (widths[name], name))})
        rows, last = self._rows(part), self.net.layers[-1:]
        part.base = self.base[:, rows]
        part.net = Mlp([], self.net.activation)
        part.net.layers.extend([*self.net.layers[:-1], *copy.deepcopy(last)])
        for layer in part.net.layers[-1:]:
            for name, whole in list(layer.named_parameters()):
                setattr(layer, name, nn.Parameter(whole.detach()[rows]))
        return part

    def take_back(self, part: MixtureOfProducts) -> None:
        """Make the weights of a part's last layer those of its columns here."""
        rows = self._rows(part)
        with torch.no_grad():
            for whole, own in zip(self._last(), part._last(), strict=True):
                whole[rows] = own

    def _last(self) -> list[nn.Parameter]:
        """The last layer's weight and bias, all bins first."""
        return list(self.net.parameters())[-2:]

    def _rows(self, part: MixtureOfProducts) -> Tensor:
        """The places of a part's bins among all bins."""
        places = [np.arange(self.spans[name].start, self.spans[name].stop) for name in part.names]
        return torch.from_numpy(np.concatenate(places)).to(self.base.device)

    def by_bin(self) -> tuple[Tensor, Tensor]:
        """Residuals and shares with the bins first, (all bins, classes, points) each: quick with many columns."""
        points, (weight, bias) = len(self.latent), self._last()
        hidden = self.net.hidden(self.inputs()).reshape(points, self.classes, -1).transpose(0, 1).flatten(0, 1)
        residual = torch.addmm(bias[:, None], weight, hidden.T).reshape(-1, self.classes, points)
        runs = [(size, len(list(run))) for size, run in itertools.groupby(self.sizes)]
        parts = torch.split(residual + self.base.T[:, :, None], [size * count for size, count in runs])
        shares = [
            torch.softmax(part.reshape(count, size, self.classes, points), 1).flatten(0, 1)
            for part, (size, count) in zip(parts, runs, strict=True)
        ]
        return residual, torch.cat(shares)

    def draw(self, labels: Whole, rng: Stream, weights: Floats, allowed: dict[str, Floats]) -> BinsByColumn:
        """Bins for rows of the classes `labels`, (rows,) a column: a latent point by its weight, then each column.

        `weights`: (points, classes). `allowed`: (classes, bins) factors of some columns' shares.
        """
        return self.draw_at(labels, choose(np.ascontiguousarray(weights.T), labels, rng), rng, allowed)

    def draw_at(self, labels: Whole, points: Whole, rng: Stream, allowed: dict[str, Floats]) -> BinsByColumn:
        """Bins for rows of the classes `labels` at the points `points`, (rows,) each; `allowed` as for `draw`."""
        groups = points * self.classes + labels
        drawn: BinsByColumn = {}
        for name, share in self._shares().items():
            weights = (share * allowed.get(name, 1.0)).reshape(-1, share.shape[-1])
            drawn[name] = choose(weights, groups, rng)
        return drawn

    def draw_points_given(
        self, chance: Floats, weights: Floats, fixed: BinsByColumn, labels: Whole | None, rng: Stream
    ) -> tuple[Whole, Whole]:
        """A class and a latent point for each row whose bins in some columns are `fixed`, (rows,) a column: exactly.

        `chance`: (classes,) and `weights`: (points, classes) before the bins are known; `labels`: classes, if known.
        """
        shares, joint = self._shares(), np.asarray(chance * weights)[None]
        for name, bins in fixed.items():
            joint = joint * shares[name][:, :, bins].transpose(2, 0, 1)
        if labels is not None:
            joint = joint * (np.arange(self.classes) == labels[:, None])[:, None, :]
        cumulative = np.cumsum(joint.reshape(len(joint), -1), 1)
        flat = (rng.random((len(joint), 1)) * cumulative[:, -1:] > cumulative).sum(1).clip(max=cumulative.shape[1] - 1)
        points, labels = np.divmod(flat, self.classes)
        return labels, points

    def _shares(self) -> dict[str, Floats]:
        with torch.no_grad():
            return {n: s.double().cpu().numpy() for n, s in self.shares(self.residual()).items()}

    def evidence(self, allowed: dict[str, Floats]) -> Floats:
        """p(the given columns lie on allowed values | latent point, class), (points, classes): exact, by products.

        `allowed`: (classes, bins), the allowed share of each bin of some columns.
        """
        shares = self._shares()
        found = np.ones((len(self.latent), self.classes))
        for name, part in allowed.items():
            found = found * (shares[name] * part).sum(-1)
        return found
