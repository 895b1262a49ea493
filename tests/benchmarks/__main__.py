"""Run a benchmark: `python -m tests.benchmarks NAME [options]`. Without a name, list all of them.

With --quick a benchmark runs its smallest setting, which takes seconds to a few minutes; its results are not kept.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

FOLDER = "FOLDER"  # In the quick options: a temporary folder.


class Benchmark(NamedTuple):
    """A benchmark: its function, what it prints, how long its published runs take, its page, and quick options."""

    place: str
    prints: str
    takes: str
    page: str
    quick: str


BENCHMARKS = {
    "page": Benchmark("page:main", "docs/results.md: its tables, from docs/results/*.csv", "a second", "results",
        ""),
    "thyroid-study": Benchmark("thyroid_study:main", "the thyroid study's settings, the default and real rows", "5 min",
        "results", "--runs 1 --settings mixture --output FOLDER/a.jsonl"),
    "utility": Benchmark("utility:main", "AuROC and fidelity of methods and other tools", "1 h",
        "results, methods, dp-gan", "--tables clinic-4k --methods independent --seeds 1 --output FOLDER/a.csv"),
    "panel": Benchmark("panel:main", "medsynth, AIM, MST and others in all figures", "10 h", "results",
        "--tables clinic-4k@500 --methods medsynth bootstrap --epsilons 3.7 --own-runs 1 --output FOLDER/a.csv"),
    "bare": Benchmark("bare:main", "fits of real tables without a schema", "1 h", "results",
        "--tables iris --runs 1 --output FOLDER/a.csv"),
    "open-schemas": Benchmark("open_schemas:main", "fits of schemas of which a part is open", "1 h", "results",
        "--tables clinic-4k@500 --epsilons 3.7 --open nothing half --runs 1 --output FOLDER/a.csv"),
    "public-prior": Benchmark("public_prior:main", "fits with public rows, by rows and epsilon", "10 h", "mixture",
        "--tables clinic-10k --rows 200 --epsilons 1 --arms none same wrong --runs 1 --output FOLDER/a.csv"),
    "births": Benchmark("births:main", "bare fits whose dates of birth pile up at an end", "5 min", "results",
        "--rows 500 --runs 2"),
    "few-rows": Benchmark("few_rows:main", "what plans expect of small tables, and what comes", "40 min", "results",
        "--tables modechoice --runs 1 --output FOLDER/a.csv"),
    "rows-per-column": Benchmark("rows_per_column:main", "what rows lose, by real rows per column", "1 h", "results",
        "--tables clinic-10k --per-column 20 --epsilons 1 --runs 1 --output FOLDER/a.csv"),
    "layers": Benchmark("layers:main", "rows of a schema, margins and the default, side by side", "5 min", "layers",
        "--runs 1 --output FOLDER/a.csv"),
    "ablation": Benchmark("ablation:main", "the worth of each part of the mixture", "4 h", "mixture-ablation",
        "--tables clinic-4k@500 --runs 1 --variants AS-IS --output FOLDER/a.csv"),
    "crossed": Benchmark("crossed:main", "slopes and an XOR, with and without products of columns", "15 min", "mixture",
        "--tables xor --epsilons 3.7 --runs 1 --output FOLDER/a.csv"),
    "parity": Benchmark("parity:main", "tables without low-order relations: the XOR stress test", "1 h", "results",
        "--tables xor-2 --methods medsynth products --runs 1 --rows 1000 --learned 500 --output FOLDER/a.csv"),
    "mnist": Benchmark("mnist:main", "13 classifiers trained on synthetic digits", "20 min per run", "results",
        "--methods independent --epsilons 10 --seeds 1 --rows 600 --output FOLDER/a.csv --folder FOLDER"),
    "paper-epsilons": Benchmark("paper_epsilons:main", "epsilon of GS-WGAN's own settings", "1 min",
        "results, errata, methods, gs-wgan", ""),
    "persons": Benchmark("persons:main", "attacks on a person over several tables", "30 min", "results",
        "--patients 300 --epsilons 3.7 --runs 1 --output FOLDER/a.csv"),
    "scores": Benchmark("scores:main", "other tools' attacks and scores on rows of the default", "1 h", "results",
        "--tables clinic-4k@500 --epsilons 3.7 --tools --output FOLDER/a.csv"),
    "speed": Benchmark("speed:main", "seconds and memory of commands", "15 min", "results",
        "--figures plan help --output FOLDER/a.csv --folder FOLDER/s"),
    "large-tables": Benchmark("speed:of_large_tables", "seconds and memory of fits of millions of rows", "20 min",
        "results", "--rows 20000 --folder FOLDER"),
    "report-cost": Benchmark("speed:of_reports", "seconds, memory and page size of a report", "2 min", "report",
        "--rows 500 --file FOLDER/a.txt"),
    "verdicts": Benchmark("verdicts:main", "how often the report's verdicts come out each way", "1 h", "report",
        "--rows 300 --runs 1 --scenarios simulator copies --output FOLDER/a.csv"),
    "overhead": Benchmark("overhead:main", "the cost of clipping and noise, and a GPU's gain", "5 min", "results",
        "--output FOLDER/a.csv"),
    "gpu-check": Benchmark("gpu_check:main", "on a GPU: CUDA tests, the overhead, fits, MNIST", "8 min", "results",
        ""),
    "extracts": Benchmark("extracts:main", "extracts in three languages, from draft to rows", "3 min", "schema",
        "--languages english"),
    "hospital": Benchmark("hospital:main", "a hospital extract: missing values, rules, propensity", "10 min", "results",
        "--runs 1 --method independent --output FOLDER/a.csv"),
    "audit-power": Benchmark("audit_power:main", "the share of a claim that attacks on fits prove", "30 min",
        "results, audit", "independent 3 --file FOLDER/independent.scores.csv"),
    "interval-coverage": Benchmark("intervals:main", "coverage of intervals on simulated studies", "5 h", "inference",
        "--rows 600 --runs 1 --replicates 2 --output FOLDER/a.csv"),
    "estimates": Benchmark("estimates:main", "coverage of `medsynth estimate` on a small simulated table", "2 h",
        "inference", "--rows 300 --epsilon 3.7 --runs 1 --replicates 2 --output FOLDER/a.csv"),
    "interval-peers": Benchmark("intervals:of_peers", "the same for other tools and a private regression", "3 h",
        "inference", "--ways regression binned NAPSU-bins --rows 600 --runs 1 --output FOLDER/a.csv"),
    "discoveries": Benchmark("discoveries:main", "tests of groups that are alike, on synthetic rows", "1 h",
        "results", "--rows 300 --epsilons 1 --targets group --runs 1 --replicates 2 --output FOLDER/a.csv"),
    "over-time": Benchmark("over_time:main", "patients over time compared with the truth", "20 min",
        "patients-over-time", "--methods real --runs 1 --output FOLDER/a.csv"),
    "over-time-rules": Benchmark("over_time_rules:main", "rules that 100,000 synthetic patients break", "5 min",
        "patients-over-time", "--patients 500 --fitted 500"),
    "rules": Benchmark("rules:main", "shares before and after rules; death against the truth", "10 min",
        "patients-over-time", "--tables clinic"),
    "deaths": Benchmark("deaths:main", "shares of deaths, with and without a bound of follow-up", "40 min",
        "patients-over-time", "--tables visits --runs 1 --epsilons 10 --fitted 300 --patients 100"),
    "sparse-visits": Benchmark("sparse_visits:main", "tables of which most rows have no visit", "5 min",
        "several-tables", "--patients 150 --drawn 50"),
    "several-tables": Benchmark("several_tables:main", "simulated OMOP tables under one claim", "10 min",
        "several-tables", "--patients 300 --runs 1 --output FOLDER/a.csv"),
    "leak-power": Benchmark("leak_power:main", "how often attacks on several tables find copied patients", "15 min",
        "several-tables", "--patients 200 --held-out 100 --runs 1"),
    "federation": Benchmark("federation:main", "fits over sites, by trust", "30 min", "federation",
        "--runs 1 --arms secure-sum --method independent --output FOLDER/a.csv"),
    "federation-cost": Benchmark("federation:of_cost", "milliseconds of one more site", "5 min", "federation",
        "--sites 2"),
    "kills": Benchmark("kills:main", "kill -9 of a fit, and resume", "10 min", "results, nightly",
        "--kills 1 --small"),
    "federated-kills": Benchmark("federated_kills:main", "kill -9 of servers and sites, and resume", "10 min",
        "federation, nightly", "--kills 1 --method mixture"),
    "fits-at-once": Benchmark("fits_at_once:main", "fits at once on one budget file", "2 min", "results, nightly",
        "--fits 2 --commands 1"),
    "fuzz": Benchmark("fuzz:main", "mutated models and schemas", "5 min", "results",
        "--cases 50"),
}  # fmt: skip


def listed() -> str:
    """Return a line per benchmark."""
    lines = [f"{name:23}{b.prints}; {b.takes}; {b.page}" for name, b in BENCHMARKS.items()]
    return "\n".join(["NAME                   what it prints; how long it takes; which page publishes it", *lines])


def run(name: str, words: list[str]) -> None:
    """Run a benchmark, or its smallest setting if `words` has --quick."""
    module, function = BENCHMARKS[name].place.split(":")
    main = getattr(importlib.import_module(f"tests.benchmarks.{module}"), function)
    if "--quick" not in words:
        main(words)
        return
    with tempfile.TemporaryDirectory() as folder:
        quick = BENCHMARKS[name].quick.replace(FOLDER, folder).split()
        main([word.replace("AS-IS", "as it is") for word in quick] + [word for word in words if word != "--quick"])


def main() -> int:
    """Run the benchmark that the command names."""
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(f"{__doc__}\n{listed()}")
        return 0
    if words[0] not in BENCHMARKS:
        print(f"{words[0]} is not a benchmark.\n\n{listed()}", file=sys.stderr)
        return 2
    run(words[0], words[1:])
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    sys.exit(main())
