"""Clipped sums of generated rows' gradients equal the loop over rows, and private rows' exact sums."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from medsynth.methods.adversarial import clipped_sum, generated_loss, real_loss
from medsynth.privacy.clipping import clipped_gradient_sum
from medsynth.privacy.networks import Mlp


def made(sizes: list[int], activation: str, bias: bool, rows: int, seed: int) -> tuple[Mlp, torch.Tensor]:
    stream = torch.Generator().manual_seed(seed)
    return Mlp(sizes, activation, stream, bias=bias), torch.randn(rows, sizes[0], generator=stream) * 2


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=3), st.sampled_from(["relu", "leaky_relu", "tanh"]),
    st.booleans(), st.integers(0, 12), st.integers(0, 10_000), st.floats(0.01, 5), st.booleans(),
)  # fmt: skip
def test_equals_the_loop_over_rows(
    widths: list[int], activation: str, bias: bool, rows: int, seed: int, bound: float, weighted: bool
) -> None:
    """Each row's gradient is clipped first and weighted afterwards; in float64, to one part in a million."""
    critic, x = made([*widths, 1], activation, bias, rows, seed)
    critic, x = critic.double(), x.double()
    weights = torch.randn(rows, generator=torch.Generator().manual_seed(seed)).double() if weighted else None
    expected, size = [torch.zeros_like(p) for p in critic.parameters()], 1e-12
    for k, row in enumerate(x):
        gradients = torch.autograd.grad(generated_loss(critic(row[None])).sum(), list(critic.parameters()))
        norm = float(torch.cat([g.flatten() for g in gradients]).norm())
        factor = min(1.0, bound / max(norm, 1e-30)) * (1.0 if weights is None else float(weights[k]))
        size += norm * abs(factor)
        for total, gradient in zip(expected, gradients, strict=True):
            total += factor * gradient
    found = clipped_sum(critic, generated_loss, x, bound, weights)
    for one, two in zip(found, expected, strict=True):
        assert one.shape == two.shape and float((one - two).norm()) <= 1e-6 * size


@pytest.mark.parametrize("loss", [real_loss, generated_loss, lambda output: output[:, 0]])
@pytest.mark.parametrize("sizes", [[5, 1], [24, 128, 1], [30, 40, 20, 1]])
def test_equals_the_exact_sums(sizes: list[int], loss: Any) -> None:
    """To one part in 10,000 of the summands' sizes: exact sums round inputs, weights and the loss's derivative."""
    critic, x = made(sizes, "tanh", True, 16, 7)
    for bound in (0.1, 1.1, 30.0):
        exact = clipped_gradient_sum(critic, loss, x, bound).tensors
        each = [clipped_sum(critic, loss, row[None], bound) for row in x]
        size = sum(float(torch.cat([g.flatten() for g in own]).norm()) for own in each)
        for one, two in zip(clipped_sum(critic, loss, x, bound), exact, strict=True):
            assert one.dtype == torch.float32 and float((one - two).norm()) <= 1e-4 * size


@pytest.mark.parametrize("sizes", [[12, 1], [12, 7, 1]])
@pytest.mark.parametrize("bias", [True, False])
def test_rows_of_each_class_count_as_rows_in_the_blocks_of_their_classes(sizes: list[int], bias: bool) -> None:
    critic, _ = made(sizes, "tanh", bias, 0, 2)
    rows, weights = torch.randn(3, 5, 4), torch.rand(15)
    placed = torch.zeros(3, 5, 12)
    for k, own in enumerate(rows):
        placed[k, :, 4 * k : 4 * (k + 1)] = own
    found = clipped_sum(critic, generated_loss, rows, 0.8, weights)
    for one, two in zip(found, clipped_sum(critic, generated_loss, placed.flatten(0, 1), 0.8, weights), strict=True):
        assert torch.allclose(one, two, atol=1e-6)


def test_the_critic_and_the_rows_keep_their_gradients() -> None:
    critic, x = made([4, 6, 1], "relu", True, 8, 1)
    x.requires_grad_()
    clipped_sum(critic, generated_loss, x, 1.0)
    assert x.grad is None and all(p.grad is None and p.requires_grad for p in critic.parameters())
