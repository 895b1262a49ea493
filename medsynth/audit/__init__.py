"""Evidence against the claim: attacks with known worst cases, and what they prove with confidence."""

from .inputs import InputFinding
from .pipeline import Audit, page, run, save
from .statistics import Finding

__all__ = ["Audit", "Finding", "InputFinding", "page", "run", "save"]
