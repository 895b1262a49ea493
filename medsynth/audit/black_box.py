"""Attacks on synthetic rows alone, of fits with and without one row. They are far too weak to prove a claim wrong.

What such an attack finds is true; that it finds nothing says nothing (Annamalai et al. 2024). The attacker knows the
target's row, and sees the rows that each of many fits gives.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..methods import registry
from ..privacy.accounting.calibration import make_plan
from ..privacy.queries.rows import Codes
from ..privacy.release import Releases
from ..privacy.vault import Vault
from ..rng import Entropy, system_entropy
from ..schema import Schema
from .finding import DELTA, Finding
from .fits.end_to_end import DECLARED, EPSILON, reported, worst_case
from .statistics import Floats, errors

PART = "synthetic rows, no proof"
DRAWN = 500  # synthetic rows of a fit
NEAR = 0.05  # of a column's range: so near is like
SEEN = "one row unlike all others; the attacker sees synthetic rows alone"


def audit_rows(
    method: str,
    schema: Schema,
    trials: int,
    confidence: float,
    entropy: Entropy | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Finding]:
    """Membership and attribute attacks on the rows of `trials` fits without the target and as many with it."""
    entropy, core = entropy or system_entropy(), schema.core
    module = registry.load(method)
    config = registry.configured(method, module, {})
    queries = module.queries(config, DECLARED, len(core.columns), EPSILON)
    plan = make_plan(queries, epsilon=EPSILON, delta=DELTA, rows=DECLARED)
    table, found = worst_case(core), []
    for _ in reported(trials, progress):
        pair = []
        for rows in (table[:-1], table):
            vault = Vault(rows, core.names, Releases(plan.ledger(entropy.source), entropy))
            tensors = module.fit(config, core, vault, plan, None, "cpu", lambda done, total: None)
            drawn = module.generate(tensors, config, core, DECLARED, DRAWN, None)
            pair.append([_likeness(drawn, table[-1], core), _attribute(drawn, table[-1], core)])
        found.append(pair)
    scores = np.array(found)  # (trials, sides, attacks)
    return [
        Finding(
            part=PART,
            name=f"{method}, {attack}",
            worst_case=SEEN,
            claimed_epsilon=plan.epsilon,
            proven_epsilon=errors(scores[:, 0, k], scores[:, 1, k], confidence).epsilon(DELTA),
            trials=trials,
            confidence=confidence,
        )
        for k, attack in enumerate(("membership", "attribute"))
    ]


def _alike(drawn: Codes, target: Codes, schema: Schema) -> Floats:
    """Whether each cell is near the target's, (rows, columns)."""
    near = np.array([NEAR * (column.size - 1) if not column.categorical else 0 for column in schema.columns.values()])
    return np.asarray(np.abs(drawn - target) <= near, np.float64)


def _likeness(drawn: Codes, target: Codes, schema: Schema) -> float:
    """Membership: how much synthetic rows are like the target."""
    return float(_alike(drawn, target, schema).mean())


def _attribute(drawn: Codes, target: Codes, schema: Schema) -> float:
    """Attribute: how often the rows most like the target in all other columns have its class."""
    alike, at = _alike(drawn, target, schema), schema.names.index(schema.target or schema.names[-1])
    others = np.delete(alike, at, axis=1).sum(1)
    return float(alike[others == others.max(), at].mean())
