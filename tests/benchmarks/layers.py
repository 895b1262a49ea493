"""Three layers of synthetic data on a simulated clinic: rows of the schema, margins at 0.1, and the default at 3.7.

The schema is declared and 4,000 rows are fitted. Similarity is that of 10,000 synthetic rows to the fitted ones, in the
report's cells. AuROC is the mean of the report's classifiers, which learn from synthetic rows and predict others.
"""

from __future__ import annotations

from tests.benchmarks import tables
from tests.benchmarks.common import Run, completed, markdown, options, spread, values
from tests.benchmarks.figures import classified, to_fitted

LAYERS = {"structure": None, "margins": 0.1, "mixture": 3.7, "real rows": None}
DRAWN = 10_000
FIELDS = ["layer", "run", "epsilon", "one_way", "two_way", "mean"]


def one(layer: str, number: int) -> Run:
    """Return the figures of one layer. Each run fits anew; the rows are the same."""
    import medsynth
    from medsynth.fitting.settings import silent

    train, test, schema, target = tables.clinic(4000)
    if layer == "structure":
        drawn = medsynth.structure_model(schema).sample(DRAWN, seed=number)
    elif layer == "real rows":
        drawn = tables.clinic(10_000)[0].sample(DRAWN, random_state=number)
    else:
        model = medsynth.fit(train, epsilon=LAYERS[layer], method=layer, schema=schema, anyway=True, notice=silent)
        drawn = medsynth.sample(model, DRAWN, seed=number)
    ways = [round(way, 4) for way in to_fitted(drawn, train)[:2]]
    score = round(float(classified(drawn, test, target)["mean"]), 4)
    return dict(zip(FIELDS, (layer, number, LAYERS[layer], *ways, score), strict=True))


def main(words: list[str]) -> None:
    """Run what is missing and print the table."""
    parser = options("layers", __doc__, output="layers.csv")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(words)
    jobs: list[Run] = [{"layer": layer, "run": number} for number in range(given.runs) for layer in LAYERS]
    runs = completed(given.output, FIELDS, jobs, lambda job: one(job["layer"], job["run"]))
    lines = []
    for layer, epsilon in LAYERS.items():
        own = [run for run in runs if run["layer"] == layer]
        lines.append([layer, epsilon or "-", *(spread(values(own, key)) for key in FIELDS[3:])])
    print(markdown(["layer", "epsilon", "one-way", "two-way", "AuROC"], lines))
