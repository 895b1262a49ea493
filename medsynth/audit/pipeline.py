"""The audit: every kind of measurement, and whole fits of a method, against attackers who know the worst case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from .. import __version__
from ..methods import registry
from ..schema import Schema
from .end_to_end import audit_end_to_end
from .mechanisms import CASES, Finding, audit_mechanism

CONFIDENCE = 0.999
QUICK_METHOD = "independent"  # the default's first measurements, without its training: fits take a moment
Progress = Callable[[str, int, int], None]  # what is audited, steps done, steps in all
EXAMPLE = {
    "name": "audit",
    "target": "class",
    "columns": {
        "count": {"kind": "count", "bounds": [0, 9]},
        "assay": {"kind": "continuous", "bounds": [0, 5], "decimals": 2},
        "sex": {"kind": "binary", "levels": ["F", "M"]},
        "class": {"kind": "categorical", "levels": ["a", "b", "c"]},
    },
}


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What attackers proved. Nothing here says that a guarantee holds: a bound below the claim does not refute it."""

    findings: tuple[Finding, ...]
    medsynth: str = __version__

    @property
    def refuted(self) -> tuple[Finding, ...]:
        """The findings that refute a claim at their confidence."""
        return tuple(finding for finding in self.findings if finding.refutes)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        found = [{**asdict(finding), "refutes": finding.refutes} for finding in self.findings]
        return {"medsynth": self.medsynth, "findings": found}


def run(
    schema: Schema | None = None,
    *,
    method: str | None = None,
    quick: bool = False,
    confidence: float = CONFIDENCE,
    progress: Progress = lambda what, done, total: None,
) -> Audit:
    """Audit all kinds of measurements, then whole fits of `method` on a simulated table of `schema`.

    No table is opened and no budget is spent. `quick` makes fewer trials, which prove a little less of each claim, and
    audits whole fits of the baseline where no `method` is named. Each finding holds with the given confidence by
    itself. Raises UsageError for a method whose measurements are not all plain Gaussian ones.
    """
    known = Schema.from_dict(EXAMPLE) if schema is None else schema.with_target(schema.target or schema.names[-1])
    name = method or (QUICK_METHOD if quick else registry.DEFAULT)
    registry.check_claim(registry.settle(name))
    findings = []
    for k, case in enumerate(CASES.values()):
        progress(case.name, k, len(CASES) + 1)
        findings.append(audit_mechanism(case, 3_000 if quick else 12_000, confidence))
    fits = 300 if quick else 600

    def fitted(done: int, total: int) -> None:
        progress(f"{name}, fit {2 * done} of {2 * total}", len(CASES), len(CASES) + 1)

    findings.append(audit_end_to_end(name, known, fits, confidence, progress=fitted))
    return Audit(findings=tuple(findings))
