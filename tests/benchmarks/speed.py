"""Seconds and peak memory: of single commands, of reports, and of fits of very large tables.

Each figure is of one process, which imports, reads, works and writes; tables are made beforehand. Processor seconds
vary less than wall seconds on a machine that does other work; the load is on file. A figure on file is not measured
again.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tests.benchmarks import tables
from tests.benchmarks.common import RESULTS, ROOT, Run, again, append, markdown, measured, options, read, spread

ROWS = 500_000  # Rows that are sampled.
GROUP = 500_000  # Rows of a large table that are simulated at once.
PART_GROUPS = 8  # Groups in a file of a cluster's folder.
PORT = 8786
AS_DOCUMENTED = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "33554432"}
FIELDS = ["figure", "wall", "cpu", "gib", "load"]
COST = ["wall s", "processor s", "peak GiB", "load"]
Table = tuple[pd.DataFrame, str]


def diabetes130(data: str | None) -> Table:
    """Return all stays, as published."""
    return tables.raw_stays(tables.public(data, "diabetes130")), "readmitted"


def wide(data: str | None) -> Table:
    """Return 2,000 rows of 2,000 numbers that depend on five, and a label."""
    draw = np.random.default_rng(0)
    factors = draw.normal(size=(2000, 5))
    numbers = (factors @ draw.normal(size=(5, 2000)) + draw.normal(size=(2000, 2000))).round(2)
    frame = pd.DataFrame(numbers, columns=[f"assay_{k}" for k in range(2000)])
    return frame.assign(label=np.where(factors[:, 0] > 0, "yes", "no")), "label"


def mnist(data: str | None) -> Table:
    """Return handwritten digits: 784 whole numbers per row."""
    pixels, digits = tables.mnist(data, "train")
    return pd.DataFrame(pixels, columns=tables.PIXELS).assign(digit=digits), "digit"


def thyroid(data: str | None) -> Table:
    """Return all rows of ann-thyroid under names that no bundled schema has."""
    train, test, _, _ = tables.load("thyroid", data)
    frame = pd.concat([train, test], ignore_index=True)
    return frame.set_axis([*(f"v{k}" for k in range(1, 22)), "class"], axis=1), "class"


def clinic(rows: int) -> Callable[[str | None], Table]:
    """Return the simulated clinic under names that no bundled schema has; many rows are drawn from 50,000."""

    def made(data: str | None) -> Table:
        frame = tables.clinic(min(rows, 50_000))[0].rename(columns=lambda name: f"x_{name}")
        return frame.sample(rows, replace=rows > len(frame), random_state=0), "x_diagnosis"

    return made


TABLES: dict[str, Callable[[str | None], Table]] = {
    "diabetes130": diabetes130, "wide": wide, "mnist": mnist, "thyroid": thyroid, "clinic-50k": clinic(50_000),
    "clinic-1m": clinic(1_000_000),
}  # fmt: skip


class Figure(NamedTuple):
    """A task, its table, and the most seconds that it should take."""

    task: str
    table: str
    bar: float | None


FIGURES = {
    "fit without a schema, diabetes130, 101,766 x 50": Figure("fit", "diabetes130", 90),
    "fit without a schema, 2,000 x 2,001": Figure("fit", "wide", 120),
    "fit without a schema, MNIST, 60,000 x 785": Figure("fit", "mnist", 300),
    "fit without a schema, 1,000,000 x 21": Figure("fit", "clinic-1m", 45),
    "fit without a schema, thyroid, 7,200 x 22": Figure("fit", "thyroid", 6),
    f"sample, {ROWS:,} rows to Parquet": Figure("sample.parquet", "clinic-50k", ROWS / 200_000),
    f"sample, {ROWS:,} rows to CSV": Figure("sample.csv", "clinic-50k", ROWS / 100_000),
    "sample, 1 row to Parquet": Figure("start.parquet", "clinic-50k", None),
    "plan, 3,772 rows": Figure("plan", "", 2),
    "help": Figure("help", "", 1),
    "report, 50,000 rows": Figure("report", "", 30),
}


def one(task: str, table: str, folder: Path, data: str | None) -> None:
    """Do a task in this process; its cost is measured from outside."""
    path, model = folder / f"{table}.csv", folder / f"{table}.medsynth"
    if task == "make":
        frame, target = TABLES[table](data)
        frame.to_csv(path, index=False)
        (folder / f"{table}.target").write_text(target)
    elif task == "fit":
        import medsynth

        target = (folder / f"{table}.target").read_text()
        medsynth.fit(path, epsilon=3.7, target=target).save(model, force=True)
    elif task.startswith(("sample", "start")):
        import medsynth
        from medsynth.sampling import Draw
        from medsynth.sampling.provenance import write_sample

        drawn, rows = folder / f"drawn{Path(task).suffix}", ROWS if task.startswith("sample") else 1
        write_sample(medsynth.load(model), model, drawn, Draw(rows=rows, seed=1), force=True)
    else:
        report_on(50_000)


def cost_of(figure: Figure, folder: Path, more: list[str]) -> Run:
    """Return the cost of one figure. Make first what it needs and what is not there."""
    commands = {"plan": ["plan", "3772", "--epsilon", "3.7"], "help": ["--help"]}
    if figure.task in commands:
        words = [sys.executable, "-m", "medsynth_cli", *commands[figure.task]]
        measured(words)  # The first run of an installation compiles its modules.
        return measured(words)

    def words_of(task: str) -> list[str]:
        return again("speed", "--one", task, figure.table, "--folder", str(folder), *more)

    if figure.table and not (folder / f"{figure.table}.target").exists():
        measured(words_of("make"))
    if figure.task.startswith(("sample", "start")) and not (folder / f"{figure.table}.medsynth").exists():
        measured(words_of("fit"))
    return measured(words_of(figure.task))


def main(words: list[str]) -> None:
    """Measure what is missing, and print the table."""
    parser = options("speed", __doc__, data=True, output="speed.csv")
    parser.add_argument("--figures", nargs="+", metavar="WORD", default=[""], help="only those that contain a word")
    parser.add_argument("--folder", type=Path, default=RESULTS / "speed", help="of tables and models")
    parser.add_argument("--against", metavar="COMMIT", help="run commands of this commit and of this tree in turn")
    parser.add_argument("--pairs", type=int, default=2, help="with --against: runs of each")
    parser.add_argument("--one", nargs=2, help="used for its own processes")
    parser.add_argument("--inputs", help="used for its own processes")
    given = parser.parse_args(words)
    if given.inputs:
        inputs_of(given.folder, given.inputs)
        return
    if given.against:
        given.folder.mkdir(parents=True, exist_ok=True)
        in_turn(given.against, given.pairs, given.figures, given.folder.absolute())
        return
    if given.one:
        task, table = given.one
        one(task, table, given.folder, given.data)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    runs, lines = {run["figure"]: run for run in read(given.output, FIELDS)}, []
    for name, figure in FIGURES.items():
        if not any(word in name for word in given.figures):
            continue
        if name not in runs:
            runs[name] = {"figure": name} | cost_of(figure, given.folder, ["--data", given.data] if given.data else [])
            append(given.output, FIELDS, runs[name])
        bar = "" if figure.bar is None else f"{figure.bar:g}"
        lines.append([name, bar, *(runs[name][key] for key in FIELDS[1:])])
    print(markdown(["figure", "at most, s", *COST], lines))


CLINIC, SCHEMA, LARGE = "clinic.csv", "clinic.schema.yaml", "clinic-1000000"
TABLES_OF_REPORT = "--synthetic made.csv --real held.csv --train clinic.csv"
OWN_FIT = "--epsilon 3.7 --output own.medsynth --force --quiet"
COMMANDS = {  # side by side: the words of each, and the goal in processor seconds
    "help": ("--help", None),
    "plan, 3,772 rows": ("plan 3772 --epsilon 3.7", 1.7),
    "fit, 100 rows": (f"fit hundred.csv --schema {SCHEMA} --rows 100 --anyway {OWN_FIT}", 4),
    "fit, 3,772 x 21, without a schema": (f"fit {CLINIC} {OWN_FIT}", 4),
    "sample, 1,000 rows": ("sample model.medsynth -n 1000 --output own.csv --force", None),
    "sample, 10,000 rows": ("sample model.medsynth -n 10000 --output own.csv --force", 1.3),
    "sample, 1,000,000 rows to Parquet": ("sample model.medsynth -n 1000000 --output own.parquet --force", 3),
    "report, 3,000 rows": (f"report model.medsynth {TABLES_OF_REPORT} --output own.html --force", 10),
    "fit, 1,000,000 x 21, CSV": (f"fit {LARGE}.csv --schema {SCHEMA} --rows 1000000 {OWN_FIT}", 10),
    "fit, 1,000,000 x 21, Parquet": (f"fit {LARGE}.parquet --schema {SCHEMA} --rows 1000000 {OWN_FIT}", 10),
}


def tree_of(commit: str, folder: Path) -> Path:
    """Return the sources of a commit, under the names of its packages, unless they are there."""
    tree = folder / f"tree-{commit}"
    if not tree.exists():
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as file:
            file.extractall(tree, filter="data")
        for source in ("cli", "schemas", "sample_data"):
            (tree / f"medsynth_{source}").symlink_to(source)
    return tree


def in_turn(commit: str, pairs: int, some: list[str], folder: Path) -> None:
    """Print processor seconds of commands, by the sources of a commit and by these in turn: medians of `pairs`."""
    wanted = {name: own for name, own in COMMANDS.items() if any(word in name for word in some)}
    # In a process of its own, because a child's peak is at least that of this process.
    named = " ".join(words for words, _ in wanted.values())
    # By the older tree: a newer one reads its models, and not the other way round.
    measured(again("speed", f"--inputs={named}", "--folder", str(folder)), tree_of(commit, folder))
    for tree in (tree_of(commit, folder), ROOT):  # as an installation has them
        measured([sys.executable, "-m", "compileall", "-q", "medsynth", "cli"], tree)
    lines = []
    for name, (words, goal) in wanted.items():
        start = f"import os; from medsynth_cli.main import main; os.chdir({str(folder)!r}); main()"
        runs: dict[Path, list[Run]] = {tree_of(commit, folder): [], ROOT: []}
        for tree in [*runs] * pairs:
            runs[tree].append(measured([sys.executable, "-c", start, *words.split()], tree))
        cells = [spread([run[key] for run in own], 2) for key in ("cpu", "gib") for own in runs.values()]
        lines.append([name, "" if goal is None else f"{goal:g}", *cells])
        print(*lines[-1], file=sys.stderr, flush=True)
    heads = [f"{what}, {when}" for what in ("processor s", "peak GiB") for when in (commit, "now")]
    print(markdown(["command", "goal, s", *heads], lines))


def inputs_of(folder: Path, commands: str) -> None:
    """Write the tables and the model that commands name, unless they are there."""
    from medsynth_sample_data import simulate

    (folder / SCHEMA).write_text(simulate.schema_text())
    for seed, (name, rows) in enumerate([(CLINIC, 3772), ("hundred.csv", 100), ("made.csv", 3000), ("held.csv", 3000)]):
        simulate.cohort(rows, seed).to_csv(folder / name, index=False)
    path = folder / f"{LARGE}.parquet"
    if LARGE in commands:
        large_table(path, 1_000_000)
        if not path.with_suffix(".csv").exists():
            pd.read_parquet(path).to_csv(path.with_suffix(".csv"), index=False)
    if "model.medsynth" in commands and not (folder / "model.medsynth").exists():
        import medsynth

        medsynth.fit(folder / CLINIC, epsilon=3.7, seed=1).save(folder / "model.medsynth")


def report_on(rows: int) -> tuple[str, int]:
    """Build a report on simulated training, held-out and synthetic rows. Return the tables' size and the page's."""
    from medsynth_sample_data import simulate

    from medsynth.report.build import build
    from medsynth.report.page.render import page

    train, real, synthetic = (simulate.cohort(rows, seed) for seed in (1, 2, 3))
    report = build(synthetic=synthetic, real=real, train=train, target="diagnosis", disjoint=True)
    return f"{rows:,} x {synthetic.shape[1]}", len(page(report).encode())


def of_reports(words: list[str]) -> None:
    """Print the cost and the page's size of a report on tables of each size, each in a process of its own."""
    parser = options("report-cost", "Seconds, peak memory and page size of a report on simulated tables.")
    parser.add_argument("--rows", type=int, nargs="+", default=[4_000, 50_000])
    parser.add_argument("--one", type=int, help="used for its own processes")
    parser.add_argument("--file", type=Path, default=RESULTS / "report-cost.txt", help="for its own processes")
    given = parser.parse_args(words)
    if given.one:
        given.file.parent.mkdir(parents=True, exist_ok=True)
        given.file.write_text("\n".join(map(str, report_on(given.one))))
        return
    lines = []
    for rows in given.rows:
        cost = measured(again("report-cost", "--one", str(rows), "--file", str(given.file)))
        size, page = given.file.read_text().splitlines()
        lines.append([size, *cost.values(), f"{int(page) / 2**20:.2f}"])
    print(markdown(["rows of each table", *COST, "page, MiB"], lines))


def large_table(path: Path, rows: int) -> None:
    """Write the simulated clinic to a Parquet file, unless it is there."""
    import pyarrow
    import pyarrow.parquet
    from medsynth_sample_data import simulate

    if path.exists():
        return
    unfinished, writer = path.with_suffix(".unfinished"), None
    for first in range(0, rows, GROUP):
        frame = simulate.cohort(min(GROUP, rows - first), first)
        piece = pyarrow.Table.from_pandas(frame, preserve_index=False)
        writer = writer or pyarrow.parquet.ParquetWriter(unfinished, piece.schema)
        writer.write_table(piece)
    assert writer is not None
    writer.close()
    unfinished.rename(path)


def parts_of(path: Path) -> Path:
    """Write the row groups of a Parquet file to files of PART_GROUPS groups, unless they are there."""
    import pyarrow.parquet

    folder = path.with_suffix(".parts")
    if folder.exists():
        return folder
    unfinished, whole = path.with_suffix(".unfinished"), pyarrow.parquet.ParquetFile(path)
    unfinished.mkdir(exist_ok=True)
    for first in range(0, whole.num_row_groups, PART_GROUPS):
        groups = list(range(first, min(first + PART_GROUPS, whole.num_row_groups)))
        pyarrow.parquet.write_table(whole.read_row_groups(groups), unfinished / f"part-{first:04d}.parquet")
    return unfinished.rename(folder)


def on_cluster(workers: int, words: list[str]) -> Run:
    """Return the cost of a command that uses a local Dask cluster; processor seconds and the peak with its workers."""
    address = f"tcp://localhost:{PORT}"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    own = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", str(PORT), "--no-dashboard"]
    each = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        address,
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
    ]
    processes = [subprocess.Popen(own, **quiet)]
    processes += [subprocess.Popen(each, env=os.environ | AS_DOCUMENTED, **quiet) for _ in range(workers)]
    try:
        cost = measured([*words, "--scheduler", address])
    finally:
        for process in processes:
            process.kill()  # A worker that is asked to end waits for its scheduler.
        used = [os.wait4(process.pid, 0)[2] for process in processes]
    cost["cpu"] = round(cost["cpu"] + sum(one.ru_utime + one.ru_stime for one in used), 2)
    cost["gib"] = round(max(cost["gib"], *(one.ru_maxrss / 2**20 for one in used)), 2)
    return cost


def of_large(way: str, path: Path, schema: Path, rows: int) -> None:
    """Make a large table and its parts, read it, fit it in pieces, or fit it in memory, in this process."""
    if way == "make":
        large_table(path, rows)
        parts_of(path)
        return
    if way == "read":
        import pyarrow.parquet

        for _ in pyarrow.parquet.ParquetFile(path, pre_buffer=False).iter_batches():
            pass
        return
    import medsynth
    from medsynth.io import reader

    if way == "in memory":
        reader.LARGE_CELLS = 1 << 60
    model = medsynth.fit(path, epsilon=3.7, schema=schema, rows=rows, notice=lambda text: None)
    model.save(path.with_suffix(f".{way}.medsynth"), force=True)


def of_large_tables(words: list[str]) -> None:
    """Print the cost of fits of large tables, and of reading the file alone."""
    text = "Cost of fits of very large tables: the simulated clinic, 21 columns, in Parquet, with its declared schema."
    parser = options("large-tables", text)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, required=True, help="needs 12 bytes per row, and 24 more for a fit")
    parser.add_argument("--whole", action="store_true", help="fit it in memory too, if it is read in pieces")
    parser.add_argument("--workers", type=int, nargs="+", default=[], help="also on local Dask clusters of this size")
    parser.add_argument("--one", nargs=3, help="used for its own processes")
    given = parser.parse_args(words)
    schema = given.folder / "clinic.schema.yaml"
    if given.one:
        of_large(given.one[0], Path(given.one[1]), schema, int(given.one[2]))
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    from medsynth_sample_data import simulate

    schema.write_text(simulate.schema_text())
    lines = []

    def add(rows: int, way: str, cost: Run) -> None:
        lines.append([f"{rows:,}", way, *cost.values(), time.strftime("%H:%M")])
        print(*lines[-1], file=sys.stderr, flush=True)

    for rows in given.rows:
        path = given.folder / f"clinic-{rows}.parquet"
        for way in ("make", "read", "fit", *(["in memory"] if given.whole else [])):
            own = ["--folder", str(given.folder), "--one", way, str(path), str(rows)]
            cost = measured(
                again("large-tables", *own)
            )  # This process stays small: a child's peak is at least its own.
            if way != "make":
                add(rows, way, cost)
        for workers in given.workers:
            fit = [
                sys.executable,
                "-m",
                "medsynth_cli",
                "fit",
                str(path.with_suffix(".parts")),
                "--schema",
                str(schema),
            ]
            fit += ["--rows", str(rows), "--epsilon", "3.7"]
            fit += ["--output", str(path.with_suffix(".cluster.medsynth")), "--force"]
            add(rows, f"fit, {workers} workers", on_cluster(workers, fit))
    print(markdown(["rows", "task", *COST, "time"], lines))
