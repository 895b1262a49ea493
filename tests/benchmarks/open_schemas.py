"""Fits of schemas of which nothing, the bounds, the levels, a part of each, or everything is open, side by side.

Tables as in `bare`, with their public schemas, from which the open parts are taken away. AuROC is that of held-out
rows; similarity is that of 10,000 synthetic rows to the fitted ones, in the report's cells. "Stopped" counts
fits that ended early, because by the noisy counts the target had one class.
"""

from __future__ import annotations

from typing import Any

from tests.benchmarks import tables
from tests.benchmarks.bare import DRAWN, real_score, scored
from tests.benchmarks.common import Run, completed, markdown, options, spread, values
from tests.benchmarks.figures import to_fitted
from tests.benchmarks.tables import opened

FIELDS = ["table", "epsilon", "open", "run", "share", "real", "mean", "one_way", "two_way"]
SHOWN = {"mean": "AuROC", "one_way": "one-way", "two_way": "two-way"}
OPEN = ("nothing", "bounds", "levels", "half", "kinds")
NAMES = ("thyroid", "diabetes130@20000", "hospital", "clinic-4k", "thyroid@500", "clinic-4k@500")


def one(name: str, epsilon: float, part: str, data: str | None) -> Run:
    """Return the figures of one fit."""
    import medsynth
    from medsynth.errors import TargetError
    from medsynth.fitting.settings import silent
    from medsynth.privacy.accounting.events import loss_shares
    from medsynth.privacy.partition_selection import asked

    train, test, declared, target = tables.load(name, data)
    schema = declared if part == "nothing" else opened(declared, part)
    try:
        model = medsynth.fit(train, epsilon=epsilon, schema=schema, target=target, anyway=True, notice=silent)
    except TargetError:  # by noisy counts the target, which this benchmark names, has one class
        return dict.fromkeys(FIELDS[4:], "")
    labels = [entry.label for entry in model.ledger.entries]
    shares = dict(zip(labels, loss_shares([(e.event, e.count) for e in model.ledger.entries]), strict=True))
    drawn = medsynth.sample(model, DRAWN)[list(train)]
    scores = real_score(name, data), scored(drawn, test, target)
    figures = [sum(shares[label] for label in asked(schema)), *scores, *to_fitted(drawn, train)[:2]]
    return dict(zip(FIELDS[4:], [round(float(figure), 4) for figure in figures], strict=True))


def summary(runs: list[Run]) -> str:
    """Return a line per table, epsilon and figure, with a column per openness."""
    lines, runs = list[list[Any]](), [run | {"epsilon": f"{float(run['epsilon']):g}"} for run in runs]
    for name, epsilon in dict.fromkeys((run["table"], run["epsilon"]) for run in runs):
        own = [[run for run in runs if (run["table"], run["epsilon"], run["open"]) == (name, epsilon, part)]
               for part in OPEN]  # fmt: skip
        for figure, title in SHOWN.items():
            cells = [spread(found) if (found := values(some, figure)) else "" for some in own]
            lines.append([name, epsilon, title, *cells])
        lines.append([name, epsilon, "stopped", *(sum(not run["mean"] for run in some) for some in own)])
    return markdown(["table", "epsilon", "figure", *OPEN], lines)


def main(words: list[str]) -> None:
    """Run what is missing and print the table."""
    parser = options("open-schemas", __doc__, data=True, output="open_schemas.csv")
    parser.add_argument("--tables", nargs="+", default=NAMES)
    parser.add_argument("--epsilons", nargs="+", type=float, default=(1.0, 3.7))
    parser.add_argument("--open", nargs="+", default=OPEN, choices=OPEN)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(words)
    jobs: list[Run] = [
        {"table": name, "epsilon": epsilon, "open": part, "run": number} for number in range(given.runs)
        for name in given.tables for epsilon in given.epsilons for part in given.open
    ]  # fmt: skip

    def run(job: Run) -> Run:
        return {**job, **one(job["table"], float(job["epsilon"]), job["open"], given.data)}

    print(summary(completed(given.output, FIELDS, jobs, run)))
