"""A GAN trained by federated averaging under differential privacy, with each row a client of its own.

Augenstein et al. 2020 ("Generative models for effective ML on private, decentralized datasets", algorithms 1 and 2),
after McMahan et al. 2017 and 2018: in each round a Poisson sample of clients trains the critic for some steps on what
is theirs, each client's change of the weights is clipped as a whole, and the noised sum of changes moves the shared
critic; the generator learns from that critic at the server. Networks, loss and generator are those of dp-GAN, and the
server's step is Adam's (Reddi et al. 2021). docs/methods/dp-gan.md has what differs from the paper, and why.
"""

from __future__ import annotations

from pydantic import Field

from ...privacy.clipping import MOST_STEPS
from ..settings import Count
from . import method as dp_gan

queries, notes, train, generate = dp_gan.queries, dp_gan.notes, dp_gan.train, dp_gan.generate


class Config(dp_gan.Config):
    """dp-GAN's settings, with several steps by each client and fewer rounds."""

    lots: Count = Field(default=200, description="rounds: noised sums of clients' changes")
    local_steps: int = Field(
        default=4, ge=1, le=MOST_STEPS, description="steps that a row trains the critic by itself, clipped together"
    )
