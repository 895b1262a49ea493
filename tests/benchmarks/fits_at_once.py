"""Many fits of one table at once, by the command and by the Python API: is each on the budget file, and the sum right?

Fits by the API are processes forked from one that has imported everything, and start together. Those by the command
start as a person would start them. Prints what is on file, and the seconds.
"""

from __future__ import annotations

import math
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.synchronize import Event
from pathlib import Path

from tests.benchmarks.common import DELTA, options
from tests.benchmarks.kills import forked

PRELOADED = (
    "medsynth_cli.main",
    "medsynth.fitting.pipeline",
    "medsynth.mixture.independent",
    "opacus.accountants",
)
TABLE = "clinic.csv"
SCHEMA = """\
name: clinic
target: sick
columns:
  age: {kind: count, bounds: [0, 99]}
  sex: {kind: binary, levels: [F, M]}
  ward: {kind: categorical, levels: [a, b, c]}
  sick: {kind: binary, levels: ["no", "yes"]}
"""
EPSILONS = (0.5, 1.0, 2.0)  # In turn.


def by_api(folder: Path, number: int, gate: Event) -> None:
    """Run one fit in a process of its own, once the gate is open."""
    import medsynth

    gate.wait()
    epsilon = EPSILONS[number % len(EPSILONS)]
    medsynth.fit(folder / TABLE, epsilon=epsilon, delta=DELTA, method="independent", model_name=f"api {number}",
                 anyway=True)  # fmt: skip


def by_command(folder: Path, number: int) -> subprocess.Popen[bytes]:
    """Start a fit by the command, in a process of its own."""
    epsilon = str(EPSILONS[number % len(EPSILONS)])
    words = [
        "fit",
        TABLE,
        "--epsilon",
        epsilon,
        "--delta",
        str(DELTA),
        "--method",
        "independent",
        "--quiet",
        "--anyway",
    ]
    words = [sys.executable, "-m", "medsynth_cli", *words, "--output", f"{number}.medsynth"]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def fit_at_once(folder: Path, fits: int, commands: int) -> None:
    """Fit one small table `fits` times at once, `commands` of them by the command, and wait for all."""
    rows = [f"{20 + k % 70},{'FM'[k % 2]},{'abc'[k % 3]},{'yes' if k % 4 else 'no'}" for k in range(60)]
    (folder / TABLE).write_text("age,sex,ward,sick\n" + "\n".join(rows) + "\n")
    (folder / "clinic.schema.yaml").write_text(SCHEMA)
    gate = multiprocessing.get_context("forkserver").Event()
    typed = [by_command(folder, number) for number in range(commands)]
    running = [forked(PRELOADED, by_api, folder, number, gate) for number in range(commands, fits)]
    gate.set()
    for process in running:
        process.join()
        assert process.exitcode == 0
    for job in typed:
        _, errors = job.communicate()
        assert job.returncode == 0, errors.decode()


def checked(folder: Path, fits: int, commands: int) -> str:
    """Return what the budget file says. Raise AssertionError unless all fits are on file, settled and summed."""
    from medsynth.artifact import load
    from medsynth.budget import Budget
    from medsynth.privacy.accounting import accountant

    budget = Budget.of(folder / TABLE)
    spent, lines = budget.spent(), budget.path.read_text().splitlines()
    assert len(spent.fits) == len({fit.number for fit in spent.fits}) == fits and spent.unfinished == 0
    assert len(lines) == 2 * fits  # Each is reserved and settled; no line is cut or overwritten.
    names = Counter(str(fit.model) for fit in spent.fits)
    assert names == Counter([f"{k}.medsynth" for k in range(commands)] + [f"api {k}" for k in range(commands, fits)])
    for fit in spent.fits:
        number = int(str(fit.model).removeprefix("api ").removesuffix(".medsynth"))
        assert fit.epsilon is not None and 0.98 * EPSILONS[number % 3] < fit.epsilon <= EPSILONS[number % 3]
        if number < commands:
            assert load(folder / f"{number}.medsynth").epsilon == fit.epsilon
    plain = math.fsum(fit.epsilon or 0.0 for fit in spent.fits)
    events = [event for fit in spent.fits for event in fit.events]
    together = accountant.epsilon(events, fits * DELTA, "prv" if accountant.is_plain(events) else "rdp")
    total = spent.row()
    assert total.epsilon is not None and math.isclose(total.delta, fits * DELTA)
    assert math.isclose(total.epsilon, min(plain, together), rel_tol=1e-9)
    return f"{fits} fits on file, {commands} of them by the command: the sum is {plain:.4g}, and {spent.sentence()}"


def main(words: list[str]) -> None:
    """Fit as often as asked, and print the outcome."""
    parser = options("fits-at-once", __doc__)
    parser.add_argument("--fits", type=int, default=50)
    parser.add_argument("--commands", type=int, default=10)
    given = parser.parse_args(words)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        fit_at_once(Path(name), given.fits, given.commands)
        print(checked(Path(name), given.fits, given.commands))
    print(f"{time.monotonic() - begin:.0f} s.")
