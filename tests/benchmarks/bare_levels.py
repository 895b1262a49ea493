"""How many levels of its columns a bare fit learns at epsilon 3.7: the schema alone, which takes a moment a table.

    MEDSYNTH_DATA=FOLDER python tests/benchmarks/bare_levels.py --tables thyroid fair --fits 5

Counted, of the columns with at most twenty values, are values that are among the learned levels, or in a column that is
read as numbers; values that were learned and that no row has; and columns all of whose values were learned. Each as the
fits' median and range. The whole tables are measured, by the plan of the default method.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

from bare_table_sources import SOURCES

from medsynth.fitting import plan_fit
from medsynth.fitting.private_table import learning_of
from medsynth.io.reader import read
from medsynth.io.table import whole_text
from medsynth.privacy.partition_selection import RawTable
from medsynth.privacy.release import Releases
from medsynth.rng import SeededEntropy

EPSILON, FEW = 3.7, 20


def learned(name: str, fits: int) -> str:
    """A line of a markdown table."""
    frame, target = SOURCES[name]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        frame.to_csv(path, index=False)
        table, plan = read(path), plan_fit(path, epsilon=EPSILON, target=target)[0]
    values = {c: {whole_text(word) or word for word in table.cells[c].unique()} for c in table.header}
    values = {c: words for c, words in values.items() if len(words) <= FEW}
    figures = []
    for seed in range(fits):
        raw = RawTable(
            table, plan.rows, Releases(plan.ledger("seeded"), SeededEntropy(seed)),
            learning_of(table.header, target, (), None, None),
        )  # fmt: skip
        columns, kept = raw.measure_schema("learned", target).schema.columns, dict[str, set[str]]()
        for c, words in values.items():
            levels = [*columns[c].levels, *columns[c].gap_words] if columns[c].categorical else words
            kept[c] = {whole_text(str(level)) or str(level) for level in levels} - {"other"}
        found = sum(len(kept[c] & words) for c, words in values.items())
        whole = sum(kept[c] >= words for c, words in values.items())
        figures.append((found, sum(len(kept[c] - words) for c, words in values.items()), whole))
    of = (sum(map(len, values.values())), None, len(values))
    cells = [
        f"{median(some):g} ({min(some)} to {max(some)})" + (f" of {most}" if most else "")
        for some, most in zip(zip(*figures, strict=True), of, strict=True)
    ]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(SOURCES), default=["thyroid", "fair", "registry", "clinic"])
    parser.add_argument("--fits", type=int, default=5)
    given = parser.parse_args()
    print("| table | values that were learned | values that no row has | columns with all values |\n|---|---|---|---|")
    for name in given.tables:
        print(learned(name, given.fits), flush=True)


if __name__ == "__main__":
    main()
