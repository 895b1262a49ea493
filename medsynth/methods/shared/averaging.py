"""Exponentially averaged weights of a network (Polyak, Juditsky 1992): steadier than the last ones."""

from __future__ import annotations

import torch

from ...privacy.networks import Mlp


class AveragedWeights:
    """Running averages of a network's parameters: each update takes 1 - `decay` of the present ones."""

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
