"""The budget of a table: what all fits on it cost together. A file beside the table, one line a fit, no cell in it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .artifact import FORMAT, Model
from .errors import ArtifactError, MedsynthError
from .io.atomic import atomic_write
from .io.formats import beside
from .privacy.accounting import accountant
from .privacy.accounting.ledger import Ledger

SUFFIX = ".medsynth-ledger"


@dataclass(frozen=True, kw_only=True)
class TotalBudget:
    """The sum over all fits on a table. `epsilon` holds at `delta` for all together, by whichever bound is the smaller.

    `unprotected`: how many were fitted without noise, and are bounded by nothing.
    """

    fits: list[dict[str, object]]
    epsilon: float
    delta: float
    unprotected: int

    def sentence(self) -> str:
        """The total in words."""
        if self.unprotected:
            return f"{self.unprotected} of {len(self.fits)} fits on this table added no noise: no total can be claimed."
        return (
            f"Fits on this table so far: {len(self.fits)}. Together: ({self.epsilon:.4g}, {self.delta:.3g})-"
            "differential privacy for one row, or the unit that a fit declared, if all of their models were released."
        )


def place(table: Path) -> Path:
    """The path of a table's budget file."""
    return beside(table, SUFFIX)


def record(table: Path, model: Model, output: Path) -> None:
    """Add a fit to its table's budget. Call it before the model is written: what is not on file was not released."""
    path = place(table)
    line = {
        "format": FORMAT,
        "model": output.name,
        "fitted": datetime.now(UTC).isoformat(timespec="seconds"),
        "method": model.method,
        "epsilon": model.epsilon,
        "ledger": model.ledger.to_json(),
    }
    lines = [*_lines(path), json.dumps(line)]
    atomic_write(path, lambda file: file.write(("\n".join(lines) + "\n").encode()), force=True, private=True)


def read(table: Path) -> TotalBudget:
    """The budget of a table.

    Raises MedsynthError where no fit is on file, ArtifactError for a file that is broken or of another version.
    """
    path = place(table)
    if not path.exists():
        raise MedsynthError(f"There is no {path}: no fit on {table} is on file. Fit a model first.")
    try:
        fits = [json.loads(line) for line in _lines(path)]
        foreign = any("ledger" in fit and fit.get("format") != FORMAT for fit in fits)
        ledgers = [] if foreign else [Ledger.from_json(fit["ledger"]) for fit in fits]
        spent = [fit["epsilon"] for fit in fits]
        named = [{key: str(fit[key]) for key in ("model", "fitted", "method")} for fit in fits]
    except (ValueError, KeyError, TypeError):
        raise ArtifactError(f"{path} is damaged. Restore it from a copy: it is the only record of the total.") from None
    if foreign:
        raise ArtifactError(f"{path} was written by another version of medsynth, which alone reads it. Keep the file.")
    shown: list[dict[str, object]] = [{**n, "epsilon": e} for n, e in zip(named, spent, strict=True)]
    known = [float(e) for e in spent if e is not None]
    if len(known) < len(spent) or not known:
        return TotalBudget(fits=shown, epsilon=math.inf, delta=1.0, unprotected=len(spent) - len(known))
    # Plain sums hold for any mechanisms; Renyi composition at the summed delta is tighter once there are several.
    delta = min(sum(ledger.delta for ledger in ledgers), 0.999)
    events = [event for ledger in ledgers for event in ledger.composition()]
    together = accountant.epsilon(events, delta, "rdp")
    return TotalBudget(fits=shown, epsilon=min(sum(known), together), delta=delta, unprotected=0)


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text("utf-8").splitlines() if line.strip()] if path.exists() else []
    except (OSError, UnicodeDecodeError):
        raise ArtifactError(f"{path} cannot be read. Restore it from a copy.") from None
