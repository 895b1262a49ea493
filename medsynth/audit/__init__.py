"""Evidence against the claim: attacks with known worst cases, and what they prove with confidence."""

from .inputs import InputFinding
from .page import page, save
from .pipeline import Audit, run
from .statistics import Finding

__all__ = ["Audit", "Finding", "InputFinding", "page", "run", "save"]
