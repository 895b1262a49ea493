"""The share of a method's claim that attacks on whole fits prove, by the number of fits.

Without noise, the attacker's two tables are "reached" apart: that is exact, and if it equals the claim, only the number
of fits separates proven from claimed.

Scores join METHOD.EPSILON.DELTA.scores.csv in the folder of --file as they come, so a run that was killed continues.
Several processes may run at once with files of their own, such as --file METHOD.EPSILON.DELTA.2.scores.csv. Prints the
table of all scores.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from medsynth.audit.pipeline import EXAMPLE
from medsynth.audit.statistics import DELTA, gaussian_mu
from medsynth.audit.whole_fits import EPSILON, WholeFits
from medsynth.cores import one_thread
from medsynth.rng import system_entropy
from medsynth.schema import Schema
from tests.benchmarks.common import RESULTS, markdown, options

HEADS = ["fits per side", "claimed mu", "reached mu", "estimated mu", "proven mu", "share", "claimed epsilon",
         "proven epsilon"]  # fmt: skip
SHOWN = (100, 300, 1_000, 3_000, 10_000, 30_000)  # Fits per side.


def main(words: list[str]) -> None:
    """Fit and attack as often as asked, and print the table."""
    parser = options("audit-power", __doc__)
    parser.add_argument("method", nargs="?", default="mixture")
    parser.add_argument("fits", nargs="?", type=int, default=1_000, help="with the target, and as many without it")
    parser.add_argument("--file", type=Path)
    parser.add_argument("--schema", type=Path)
    parser.add_argument("--confidence", type=float, default=0.999)
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--delta", type=float, default=DELTA)
    parser.add_argument("--table", action="store_true", help="fit nothing, and print the scores on file")
    given = parser.parse_args(words)
    stem = f"{given.method}.{given.epsilon:g}.{given.delta:g}"
    file = given.file or RESULTS / f"{stem}.scores.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    schema = Schema.load(given.schema) if given.schema else Schema.from_dict(EXAMPLE)
    audited = WholeFits.of(
        given.method, schema.with_target(schema.target or schema.names[-1]), epsilon=given.epsilon, delta=given.delta
    )
    known = len(file.read_text().splitlines()) if file.exists() else 0
    with one_thread():
        for _ in range(0 if given.table else given.fits - known):
            numbers = audited.scores(system_entropy())
            with file.open("a") as out:
                out.write(",".join(map(repr, numbers)) + "\n")
    files = sorted({*file.parent.glob(f"{stem}*.scores.csv"), *([file] if file.exists() else [])})
    if not files:
        raise SystemExit("There are no scores here. Run it without --table first.")
    scores = np.concatenate([np.loadtxt(path, delimiter=",", ndmin=2) for path in files])
    lines = []
    for count in sorted({*(n for n in SHOWN if n < len(scores)), len(scores)}):
        found = audited.conclude(scores[:count], given.confidence)
        guess = None if found.proven_mu is None else gaussian_mu(scores[:count, 0], scores[:count, 1], 0.5)
        mus = map(number, (found.claimed_mu, found.reached_mu, guess, found.proven_mu))
        lines.append([f"{count:,}", *mus, f"{found.share:.0%}",
                      f"{found.claimed_epsilon:.2f}", f"{found.proven_epsilon:.2f}"])  # fmt: skip
    print(markdown(HEADS, lines))


def number(mu: float | None) -> str:
    """Return a mu as text; methods that sample lots have none."""
    return "" if mu is None else f"{mu:.3f}"
