"""What adversarial methods share: a generator network, cross-entropy losses, and averaged weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from ...privacy.networks import Mlp

LATENT, WIDTH = 8, 96  # of a latent point, and of the generator's hidden layers


def real_loss(output: Tensor) -> Tensor:
    """Cross-entropy against "real" of a critic's outputs, (rows, 1) to (rows,)."""
    return softplus(-output[:, 0])


def generated_loss(output: Tensor) -> Tensor:
    """Cross-entropy against "generated" of a critic's outputs, (rows, 1) to (rows,)."""
    return softplus(output[:, 0])


class GeneratorNetwork:
    """Log shares of every bin, given a class and one of `points` latent points: `base`, and what a network adds.

    `base`: log shares, (classes, bins) a column. All columns' bins stand side by side; `spans` are their slices. The
    network's last layer begins at zero, so that it starts as those shares.
    """

    def __init__(self, base: Mapping[str, NDArray[np.float64]], points: int, stream: torch.Generator) -> None:
        stops = np.cumsum([shares.shape[1] for shares in base.values()]).tolist()
        self.spans = {name: slice(a, b) for name, a, b in zip(base, [0, *stops], stops, strict=False)}
        self.base = torch.tensor(np.concatenate(list(base.values()), 1), dtype=torch.float32)
        self.latent = torch.randn(points, LATENT, generator=stream)
        self.net = Mlp([LATENT + len(self.base), WIDTH, WIDTH, stops[-1]], "leaky_relu", stream)
        with torch.no_grad():
            for parameter in list(self.net.parameters())[-2:]:
                parameter.zero_()

    def to(self, device: str) -> GeneratorNetwork:
        """This generator on another device."""
        self.base, self.latent = self.base.to(device), self.latent.to(device)
        self.net.to(device)
        return self

    def residual(self) -> Tensor:
        """What the network adds to the base: (points, classes, all bins)."""
        points, classes = len(self.latent), len(self.base)
        hot = torch.eye(classes, device=self.latent.device).repeat(points, 1)
        output: Tensor = self.net(torch.cat([self.latent.repeat_interleave(classes, 0), hot], 1))
        return output.reshape(points, classes, -1)

    def residuals(self) -> dict[str, NDArray[np.float32]]:
        """The same of each column, as a model keeps it: (points, classes, bins)."""
        with torch.no_grad():
            found = self.residual().cpu().numpy()
        return {name: found[..., span] for name, span in self.spans.items()}


class AveragedWeights:
    """Running averages of a network's parameters, steadier than the last ones (Polyak, Juditsky 1992).

    Each update takes 1 - `decay` of the present ones.
    """

    def __init__(self, net: Mlp, decay: float) -> None:
        self.net, self.decay = net, decay
        self.values = [p.detach().clone() for p in net.parameters()]

    def update(self) -> None:
        """Take part of the weights as they are now."""
        for value, p in zip(self.values, self.net.parameters(), strict=True):
            value.lerp_(p.detach(), 1 - self.decay)

    def copy_to_network(self) -> None:
        """Give the network its averaged weights."""
        with torch.no_grad():
            for value, p in zip(self.values, self.net.parameters(), strict=True):
                p.copy_(value)
