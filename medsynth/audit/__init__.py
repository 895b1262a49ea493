"""Evidence against the claim: attacks with known worst cases, and what they prove with confidence."""

from .finding import Finding
from .inputs import InputFinding
from .page import page, save
from .pipeline import Audit, run

__all__ = ["Audit", "Finding", "InputFinding", "page", "run", "save"]
