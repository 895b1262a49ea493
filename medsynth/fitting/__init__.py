"""The verb fit: from a private table to an artifact."""

from .pipeline import fit
from .planning import plan, plan_fit

__all__ = ["fit", "plan", "plan_fit"]
