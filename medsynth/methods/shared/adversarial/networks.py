"""What adversarial methods share: a generator network, cross-entropy losses, and averaged weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from ....privacy.networks import Mlp

LATENT, WIDTH = 8, 96  # of a latent point, and of the generator's hidden layers


def real_loss(output: Tensor) -> Tensor:
    """Cross-entropy against "real" of a critic's outputs, (rows, 1) to (rows,)."""
    return softplus(-output[:, 0])


def generated_loss(output: Tensor) -> Tensor:
    """Cross-entropy against "generated" of a critic's outputs, (rows, 1) to (rows,)."""
    return softplus(output[:, 0])


class LatentNetwork:
    """What each of `points` latent points adds to the log shares of every bin, by class: (points, classes, bins).

    Its last layer begins at zero, so that it adds nothing before it is trained.
    """

    def __init__(self, points: int, classes: int, bins: int, stream: torch.Generator, device: str) -> None:
        self.latent = torch.randn(points, LATENT, generator=stream).to(device)
        self.classes = classes
        self.net = Mlp([LATENT + classes, WIDTH, WIDTH, bins], "leaky_relu", stream).to(device)
        with torch.no_grad():
            for parameter in list(self.net.parameters())[-2:]:
                parameter.zero_()

    def __call__(self) -> Tensor:
        """What is added, (points, classes, bins)."""
        points = len(self.latent)
        hot = torch.eye(self.classes, device=self.latent.device).repeat(points, 1)
        output: Tensor = self.net(torch.cat([self.latent.repeat_interleave(self.classes, 0), hot], 1))
        return output.reshape(points, self.classes, -1)


class Generator:
    """Log shares of every bin given a class, `base` (classes, all bins), to which a network of latent points may add.

    All columns' bins stand side by side; `spans` are their slices. Without a `network` columns are independent given
    the class.
    """

    def __init__(self, base: Mapping[str, NDArray[np.float64]], device: str) -> None:
        stops = np.cumsum([shares.shape[1] for shares in base.values()]).tolist()
        self.spans = {name: slice(a, b) for name, a, b in zip(base, [0, *stops], stops, strict=False)}
        self.base = torch.tensor(np.concatenate(list(base.values()), 1), dtype=torch.float32).to(device)
        self.network: LatentNetwork | None = None

    def logits(self) -> Tensor:
        """Log shares at each latent point, (points, classes, all bins): one point without a network."""
        return self.base[None] if self.network is None else self.base + self.network()

    def residuals(self) -> dict[str, NDArray[np.float32]]:
        """What the network adds to each column, as a model keeps it: (points, classes, bins). Empty without one."""
        if self.network is None:
            return {}
        with torch.no_grad():
            found = self.network().cpu().numpy()
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
