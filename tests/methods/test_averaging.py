"""Averaged weights: the exponential average of what the network had, without disturbing its training."""

import torch

from medsynth.methods.adversarial import AveragedWeights
from medsynth.privacy.networks import Mlp


def test_averaged_weights_are_the_exponential_average() -> None:
    net = Mlp([2, 1], bias=False)
    (weight,) = net.parameters()
    values = [1.0, 3.0, -2.0, 5.0]
    with torch.no_grad():
        weight.fill_(values[0])
    averaged, expected = AveragedWeights(net, 0.75), values[0]
    for value in values[1:]:
        with torch.no_grad():
            weight.fill_(value)
        averaged.update()
        expected = 0.75 * expected + 0.25 * value
        assert (weight == value).all()
    averaged.copy_to_network()
    assert torch.allclose(weight, torch.full((1, 2), expected))
