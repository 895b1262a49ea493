"""The networks: linear layers with public activations."""

from typing import Any

import pytest
import torch

from medsynth.privacy.networks import ACTIVATIONS, SLOPES, Mlp


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_a_network_is_its_layers_with_activations_between(activation: Any, bias: bool) -> None:
    net = Mlp([3, 5, 4, 2], activation, torch.Generator().manual_seed(0), bias=bias)
    x = expected = torch.randn(7, 3, generator=torch.Generator().manual_seed(1))
    for k, layer in enumerate(net.layers):
        expected = expected if k == 0 else ACTIVATIONS[activation](expected)
        assert isinstance(layer, torch.nn.Linear)
        expected = expected @ layer.weight.T + (layer.bias if bias else 0.0)
    assert torch.allclose(net(x), expected, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_slopes_are_the_derivatives_of_activations(activation: str) -> None:
    x = torch.cat([torch.linspace(-9, 9, 1000, dtype=torch.float64), torch.zeros(1)]).requires_grad_()
    y = ACTIVATIONS[activation](x)
    (expected,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(SLOPES[activation](y.detach()), expected, rtol=0, atol=1e-6)


def test_weights_start_within_their_bounds_and_repeat_with_their_stream() -> None:
    one, two = (Mlp([9, 5, 1], generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), two.parameters(), strict=True))
    for layer, fan_in in zip(one.layers, (9, 5), strict=True):
        assert all(p.abs().max() <= fan_in**-0.5 for p in layer.parameters())
