"""How much of a method's claim whole fits prove, by how many: `python tests/benchmarks/audit_power.py [METHOD] [FITS]`.

Scores are appended to METHOD.scores.csv in this folder as they come: killed, it goes on where it was. Several may run
at once with files of their own (--file METHOD.2.scores.csv); --table prints the table of all that is on file.
"""

from __future__ import annotations

import argparse
import glob
from pathlib import Path

import numpy as np

from medsynth.audit.pipeline import EXAMPLE
from medsynth.audit.whole_fits import WholeFits
from medsynth.fitting.environment import one_thread
from medsynth.rng import system_entropy
from medsynth.schema import Schema


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", nargs="?", default="mixture")
    parser.add_argument("fits", nargs="?", type=int, default=1_000, help="with the target, and as many without")
    parser.add_argument("--file", type=Path)
    parser.add_argument("--schema", type=Path)
    parser.add_argument("--confidence", type=float, default=0.999)
    parser.add_argument("--table", action="store_true", help="print what is on file, and fit nothing")
    given = parser.parse_args()
    file = given.file or Path(f"{given.method}.scores.csv")
    schema = Schema.load(given.schema) if given.schema else Schema.from_dict(EXAMPLE)
    audited = WholeFits.of(given.method, schema.with_target(schema.target or schema.names[-1]))
    with one_thread():
        for _ in range(0 if given.table else given.fits - lines(file)):
            pair = audited.scores(system_entropy())
            with file.open("a") as out:
                out.write(",".join(map(repr, map(float, pair))) + "\n")
    files = sorted({*map(Path, glob.glob(f"{given.method}*.scores.csv")), *([file] if file.exists() else [])})
    if not files:
        raise SystemExit("There are no scores here. Run it without --table first.")
    scores = np.concatenate([np.loadtxt(path, delimiter=",", ndmin=2) for path in files])
    print(f"{'fits a side':>12} {'claimed mu':>11} {'proven mu':>10} {'share':>6} {'epsilon':>8} {'proven':>7}")
    for count in sorted({*(n for n in (100, 200, 300, 500, 700, 1_000, 1_500) if n < len(scores)), len(scores)}):
        found = audited.conclude(scores[:count], given.confidence)
        print(
            f"{count:>12} {found.claimed_mu:>11.3f} {found.proven_mu:>10.3f} {found.share:>6.0%} "
            f"{found.claimed_epsilon:>8.2f} {found.proven_epsilon:>7.2f}"
        )


def lines(file: Path) -> int:
    return sum(1 for _ in file.open()) if file.exists() else 0


if __name__ == "__main__":
    main()
