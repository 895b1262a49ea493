"""Releases that an attacker sees: as ever, and kept."""

from __future__ import annotations

from collections.abc import Callable

from ..privacy.accounting.events import Event
from ..privacy.release import Release, Releases


class Recorder(Releases):
    """Releases of which the last under each label is kept, with the standard deviation of its noise."""

    __slots__ = ("last", "std")

    def release(self, label: str, sensitivity: float, draw: Callable[[Event], Release]) -> Release:
        """Release as ever, and keep what was released."""
        found = super().release(label, sensitivity, draw)
        self.last = {**getattr(self, "last", {}), label: found}
        self.std = self.event(label).multiplier * sensitivity
        return found
