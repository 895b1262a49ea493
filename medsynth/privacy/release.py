"""The only way out: `Releases.release` charges, draws and stores every release of a fit, in this order.

Vaults, shards and raw tables measure different things, but none of them charges the ledger or draws a release itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from ..arrays import Floats
from ..errors import BudgetError, MedsynthError
from ..rng import Entropy
from .accounting.events import Event
from .accounting.ledger import Ledger
from .checkpoint import Checkpoint


def on_host(arrays: Iterable[Any]) -> list[Any]:
    """Return arrays as they are, and tensors as arrays in main memory."""
    return [a if isinstance(a, np.ndarray) else a.numpy(force=True) for a in arrays]


@dataclass(frozen=True)
class Release:
    """The outcome of one measurement: noisy numbers and, from partition selection, the released names.

    `of`: the name under which each array is stored; empty if arrays have no names. Arrays that were drawn on a device
    are tensors and stay there.
    """

    arrays: list[Any]
    names: list[str] = field(default_factory=list)
    of: tuple[str, ...] = ()

    def by_name(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the array of each of these `names`: by name, or by position if the arrays have no names.

        Raises MedsynthError if they have other names.
        """
        names = list(names)
        found = dict(zip(self.of or names, self.arrays, strict=True))
        if set(found) != set(names):
            raise MedsynthError("The checkpoint is of other columns. Start anew without `resume`.")
        return {name: found[name] for name in names}


SECRET = "secret: "  # Begins the label of a record that is never released.


class Releases:
    """The ledger, the secret entropy and the checkpoint of one fit, shared by everything that measures its rows.

    A checkpoint stores every release before it is used, and replays the releases of a fit that was killed.
    """

    __slots__ = ("__checkpoint", "__ledger", "__process", "closed", "entropy", "reached", "replaying")

    def __init__(self, ledger: Ledger, entropy: Entropy, checkpoint: Checkpoint | None = None) -> None:
        self.__ledger = ledger
        self.__checkpoint = checkpoint
        self.__process = os.getpid()
        self.entropy = entropy
        self.replaying = False  # Whether the latest outcome is from the checkpoint.
        self.closed = False  # Whether nothing may be drawn, because the budget file has no reservation for it.
        self.reached: Callable[[int], None] = lambda count: None  # Receives the number of records after each new one.

    @property
    def max_rows(self) -> int | None:
        """Return the maximum number of rows per patient, if the ledger's unit of privacy is the patient."""
        return self.__ledger.max_rows

    def event(self, label: str) -> Event:
        """Return the planned event of the measurement `label`. Raises BudgetError if the plan lacks it."""
        if label not in self.__ledger.allowance:
            raise BudgetError(f"The plan contains no measurement called {label!r}.")
        return self.__ledger.allowance[label][0]

    def release(self, label: str, sensitivity: float, draw: Callable[[Event], Release]) -> Release:
        """Charge the measurement `label` at its L2 `sensitivity`, then replay it from the checkpoint or draw it.

        `draw` receives the planned event, whose noise it adds. Raises BudgetError, before anything is drawn, if the
        plan lacks the measurement.
        """
        event = self.event(label)
        self.__ledger.charge(label, event, sensitivity)
        return self._on_file(label, lambda: draw(event))

    def draw_once(self, label: str, draw: Callable[[], Floats]) -> Floats:
        """Make a secret draw that is never released. It is stored, since a resumed fit must not draw it anew."""
        found: Floats = self._on_file(f"{SECRET}{label}", lambda: Release([draw()])).arrays[0]
        return found

    def _on_file(self, label: str, draw: Callable[[], Release]) -> Release:
        if os.getpid() != self.__process:  # A fork would draw the same again for one charge.
            raise MedsynthError(
                "A fit must stay in the process that began it. Start the fit anew in the other process."
            )
        if self.__checkpoint is None:
            return draw()
        stored = self.__checkpoint.replay(label)
        self.replaying = stored is not None
        if stored is not None:
            arrays, names = stored
            if isinstance(arrays, Mapping):
                return Release([*arrays.values()], names, tuple(arrays))
            return Release([*arrays], names)
        if self.closed:
            raise MedsynthError("This fit has ended and measures nothing more. Start anew without `resume`.")
        drawn = draw()
        stored_arrays = on_host(drawn.arrays)
        named = dict(zip(drawn.of, stored_arrays, strict=True)) if drawn.of else stored_arrays
        self.__checkpoint.store(label, named, drawn.names)
        self.reached(self.__checkpoint.count)
        return drawn

    def __repr__(self) -> str:
        return "Releases(ledger, entropy and checkpoint of a fit)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Releases cannot be pickled or copied.")
