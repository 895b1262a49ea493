"""Evidence against the claim: attacks with known worst cases, and what they prove with confidence."""

from .pipeline import Audit, run

__all__ = ["Audit", "run"]
