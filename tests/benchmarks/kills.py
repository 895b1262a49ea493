"""Kill -9 at random moments of a fit, and resume: does each end with a valid model and a ledger within its plan?

After each kill, the budget file must contain at least what was released. The checkpoint of a whole fit (300 simulated
patients, 400 lots) is measured once. Then the fit starts again and again with --resume and is killed at once, or when
its checkpoint has reached a random size. After at most five kills it runs to its end, and what it leaves is checked.
Prints a line per chain, and the sums.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.benchmarks.common import options

EPSILON = 3.7
PRESET = "random-features"  # It has hundreds of measurements.
CHAIN = 5  # kills of one fit at most
AT_ONCE = 0.1  # share of kills before the first measurement
MESSAGES = "messages.txt"  # of a fit: its standard error
PRELOADED = ("medsynth_cli.main", "medsynth.fitting.pipeline", "medsynth.methods.dp_cgan", "opacus.accountants")


def forked(preloaded: Sequence[str], target: Any, *args: Any) -> BaseProcess:
    """Start a process as a fork of one that has imported everything: these benchmarks do not test imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([target.__module__, *preloaded])
    process = context.Process(target=target, args=args)
    process.start()
    return process


@dataclass(frozen=True, kw_only=True)
class Job:
    """The fit to kill: its folder, its settings, and the columns of its table; all if none are named."""

    folder: Path
    lots: int = 400
    features: int = 400
    columns: Sequence[str] = ()


def small(folder: Path) -> Job:
    """Return a fit that takes a second or two."""
    columns = ("age_years", "sex_at_birth", "tsh_miu_l", "diagnosis")
    return Job(folder=folder, lots=50, features=32, columns=columns)


def run(job: Job) -> None:
    """Run `medsynth fit` in a process of its own, with its standard error in a file."""
    from medsynth_cli.main import main

    os.chdir(job.folder)
    settings = (f"lots={job.lots}", f"features={job.features}")
    words = ("fit", "patients.csv", "--epsilon", str(EPSILON), "--preset", PRESET, "--resume", "--force", "--quiet")
    sys.argv = ["medsynth", *words, *(word for pair in settings for word in ("--set", pair))]
    with open(MESSAGES, "w") as file, contextlib.redirect_stderr(file):
        main()


def begun(job: Job) -> BaseProcess:
    """Start the fit."""
    return forked(PRELOADED, run, job)


def size(folder: Path) -> int:
    """Return the bytes of the fit's checkpoint; zero if there is none."""
    path = folder / "patients.medsynth-checkpoint"
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def released(folder: Path) -> tuple[str, list[str]]:
    """Return the number of the fit whose checkpoint is in the folder, and the labels of all its releases."""
    from medsynth.privacy.checkpoint import RECORD_HEAD

    path, number, labels, place = folder / "patients.medsynth-checkpoint", "", list[str](), 0
    content = path.read_bytes() if path.exists() else b""
    while place + RECORD_HEAD.size <= len(content):
        length, digest = RECORD_HEAD.unpack_from(content, place)
        body = content[place + RECORD_HEAD.size : place + RECORD_HEAD.size + length]
        if hashlib.sha256(body).digest() != digest:
            break  # Half-written at the kill.
        metadata = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"]
        if "seed" in metadata:
            number = f"{int(metadata['seed']):014x}"
        elif not metadata["label"].startswith("secret"):
            labels.append(metadata["label"])
        place += RECORD_HEAD.size + length
    return number, labels


def covered(job: Job) -> None:
    """Raise AssertionError unless the budget file contains what the killed fit has released."""
    from medsynth.budget import Budget

    number, labels = released(job.folder)
    if not number:
        return
    (own,) = [fit for fit in Budget.of(job.folder / "patients.csv").spent().fits if fit.number == number]
    assert own.model is None and len(labels) <= sum(times for _, times in own.events)
    assert own.epsilon is not None and 0.98 * EPSILON < own.epsilon <= EPSILON


def prepared(job: Job) -> int:
    """Write the table and its schema. Return the bytes that the checkpoint of one whole fit reaches."""
    from medsynth_sample_data import simulate

    import medsynth
    from medsynth.schema import Schema

    frame, schema = simulate.cohort(300, 5), Schema.from_yaml(simulate.schema_text())
    if job.columns:
        columns = {name: schema.columns[name] for name in job.columns}
        frame, schema = frame[list(columns)], schema.model_copy(update={"columns": columns, "rules": ()})
    frame.to_csv(job.folder / "patients.csv", index=False)
    (job.folder / "patients.schema.yaml").write_text(schema.to_yaml())
    checkpoint = job.folder / "patients.medsynth-checkpoint"
    settings = {"lots": job.lots, "features": job.features}
    medsynth.fit(job.folder / "patients.csv", epsilon=EPSILON, preset=PRESET, settings=settings, checkpoint=checkpoint)
    whole = size(job.folder)
    checkpoint.unlink()
    return whole


def finished(job: Job, process: BaseProcess) -> None:
    """Let the fit run to its end, and check all that it leaves."""
    import medsynth

    process.join()
    assert process.exitcode == 0, (job.folder / MESSAGES).read_text()
    model = medsynth.load(job.folder / "patients.medsynth")
    assert model.claims and model.epsilon is not None
    assert model.epsilon <= EPSILON and model.ledger.epsilon() <= EPSILON
    assert len(medsynth.sample(model, 10)) == 10
    assert not list(job.folder.glob("*checkpoint*"))
    (job.folder / "patients.medsynth").unlink()


def chain(job: Job, whole: int, moments: random.Random, kills: int) -> list[int]:
    """Kill the fit and start it again, up to `kills` times, then let it end. Returns the checkpoint's size at each."""
    sizes = []
    for _ in range(kills):
        before = size(job.folder)
        moment = 0 if moments.random() < AT_ONCE else before + (whole - before) * moments.random()
        process = begun(job)
        while process.is_alive() and size(job.folder) < moment:
            time.sleep(0.002)
        process.kill()
        process.join()
        if process.exitcode == -signal.SIGKILL:
            sizes.append(size(job.folder))
            covered(job)
            assert not (job.folder / "patients.medsynth").exists() or (job.folder / "patients.medsynth").stat().st_size
        else:
            finished(job, process)  # It ended before it could be killed.
    finished(job, begun(job))
    return sizes


def main(words: list[str]) -> None:
    """Kill as often as asked, and print the outcome."""
    parser = options("kills", __doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="the suite's quick fit: four columns, 50 lots")
    given = parser.parse_args(words)
    moments, kills, fits = random.Random(given.seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        job = small(Path(name)) if given.small else Job(folder=Path(name))
        whole = prepared(job)
        print(f"One fit's checkpoint reaches {whole / 1024:.0f} KiB.")
        while kills < given.kills:
            sizes = chain(job, whole, moments, min(CHAIN, given.kills - kills))
            kills, fits = kills + len(sizes), fits + 1
            shares = ", ".join(f"{100 * s / whole:.0f} %" for s in sizes)
            print(f"killed at {shares} of the checkpoint, then resumed to a valid model", flush=True)
    print(f"{kills} kills, {fits} chains: every one ended with a valid model and a ledger within its plan, and at no "
          "kill was less on the budget file than had been released.")  # fmt: skip
