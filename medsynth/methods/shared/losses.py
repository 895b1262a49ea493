"""Cross-entropy losses of a critic that separates real rows from generated ones."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import softplus


def real_loss(output: Tensor) -> Tensor:
    """Cross-entropy against "real" of a critic's outputs, (rows, 1) to (rows,)."""
    return softplus(-output[:, 0])


def generated_loss(output: Tensor) -> Tensor:
    """Cross-entropy against "generated" of a critic's outputs, (rows, 1) to (rows,)."""
    return softplus(output[:, 0])
