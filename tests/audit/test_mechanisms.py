"""The audit of mechanisms proves nearly all that is claimed and never more; planted faults are convicted."""

import numpy as np
import pytest

from medsynth.audit.mechanisms import CASES, MU, audit_mechanism
from medsynth.privacy import vault
from medsynth.rng import SeededEntropy

TRIALS, CONFIDENCE = 12_000, 0.999


@pytest.mark.parametrize("name", CASES)
def test_nearly_all_of_the_claim_is_proven_and_never_more(name: str) -> None:
    """With a fixed seed: the chance that the bound were above the truth is 1e-3 by the confidence."""
    found = audit_mechanism(CASES[name], TRIALS, CONFIDENCE, SeededEntropy(1))
    assert 0.95 * MU <= found.proven_mu <= found.claimed_mu == MU and not found.convicts
