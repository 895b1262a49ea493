"""Kill -9 at random moments of a fit, and resume: does each end with a valid model and a ledger within its plan?

    python tests/benchmarks/kills.py --kills 50

A fit of seconds (300 simulated patients, 400 lots) is timed once; then it is started again and again with --resume and
killed at a moment drawn evenly from that time. After at most five kills it runs to its end, and what it leaves is
checked. Prints a line a chain, and the sums.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHAIN = 5  # kills of one fit at most
FIT = ("fit", "patients.csv", "--epsilon", "3.7", "--method", "dp-cgan", "--resume", "--force", "--quiet")


def begun(folder: Path) -> subprocess.Popen:
    """The fit, started."""
    words = [sys.executable, "-m", "medsynth_cli", *FIT]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def prepared(folder: Path) -> float:
    """Write the table and its schema; the seconds that one fit takes without being killed."""
    from medsynth_sample_data import simulate

    simulate.cohort(300, 5).to_csv(folder / "patients.csv", index=False)
    (folder / "patients.schema.yaml").write_text(simulate.schema_text())
    start = time.perf_counter()
    finished(folder, begun(folder))
    return time.perf_counter() - start


def finished(folder: Path, process: subprocess.Popen) -> None:
    """Let the fit run to its end, and check all that it leaves."""
    import medsynth

    said = process.communicate()[1]
    assert process.returncode == 0, said
    model = medsynth.load(folder / "patients.medsynth")
    assert model.claims and model.epsilon <= 3.7 and model.ledger.epsilon() <= 3.7
    assert len(medsynth.sample(model, 10)) == 10
    assert not list(folder.glob("*checkpoint*"))
    (folder / "patients.medsynth").unlink()


def chain(folder: Path, seconds: float, moments: random.Random, kills: int) -> list[float]:
    """Kill the fit and start it again, up to `kills` times, then let it end. Returns the moments that hit it."""
    hit = []
    for _ in range(kills):
        process = begun(folder)
        moment = seconds * moments.random()
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            hit.append(moment)
            assert not (folder / "patients.medsynth").exists() or (folder / "patients.medsynth").stat().st_size
        else:
            finished(folder, process)
    finished(folder, begun(folder))
    return hit


def main() -> None:
    """Kill as often as asked, and say what came of it."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--kills", type=int, default=50)
    ask.add_argument("--seed", type=int, default=0)
    given = ask.parse_args()
    moments, hit, fits = random.Random(given.seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        seconds = prepared(Path(name))
        print(f"One fit takes {seconds:.1f} s.")
        while hit < given.kills:
            found = chain(Path(name), seconds, moments, min(CHAIN, given.kills - hit))
            hit, fits = hit + len(found), fits + 1
            print(
                "killed after " + ", ".join(f"{m:.1f}" for m in found) + " s, then resumed to a valid model", flush=True
            )
    print(f"{hit} kills, {fits} chains: every one ended with a valid model and a ledger within its plan.")


if __name__ == "__main__":
    main()
