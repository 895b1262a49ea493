"""Kill -9 at random moments of a fit, and resume: does each end with a valid model and a ledger within its plan?

    python tests/benchmarks/kills.py --kills 50

The checkpoint of a whole fit (300 simulated patients, 400 lots) is measured once; then the fit is started again and
again with --resume and killed once its checkpoint has reached a size drawn evenly from all sizes, or at once. After at
most five kills it runs to its end, and what it leaves is checked. Prints a line a chain, and the sums.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHAIN = 5  # kills of one fit at most
AT_ONCE = 0.1  # share of kills before the first measurement
LOTS = 400
FIT = ("fit", "patients.csv", "--epsilon", "3.7", "--method", "dp-cgan", "--resume", "--force", "--quiet")


def begun(folder: Path, lots: int) -> subprocess.Popen[str]:
    """The fit, started."""
    words = [sys.executable, "-m", "medsynth_cli", *FIT, "--set", f"lots={lots}"]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def size(folder: Path) -> int:
    """Bytes of the fit's checkpoint; zero while there is none."""
    path = folder / "patients.medsynth-checkpoint"
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def prepared(folder: Path, lots: int = LOTS) -> int:
    """Write the table and its schema; the bytes that the checkpoint of one whole fit reaches."""
    from medsynth_sample_data import simulate

    import medsynth

    simulate.cohort(300, 5).to_csv(folder / "patients.csv", index=False)
    (folder / "patients.schema.yaml").write_text(simulate.schema_text())
    checkpoint = folder / "patients.medsynth-checkpoint"
    medsynth.fit(folder / "patients.csv", epsilon=3.7, method="dp-cgan", settings={"lots": lots}, checkpoint=checkpoint)
    whole = size(folder)
    checkpoint.unlink()
    return whole


def finished(folder: Path, process: subprocess.Popen[str]) -> None:
    """Let the fit run to its end, and check all that it leaves."""
    import medsynth

    messages = process.communicate()[1]
    assert process.returncode == 0, messages
    model = medsynth.load(folder / "patients.medsynth")
    assert model.claims and model.epsilon is not None and model.epsilon <= 3.7 and model.ledger.epsilon() <= 3.7
    assert len(medsynth.sample(model, 10)) == 10
    assert not list(folder.glob("*checkpoint*"))
    (folder / "patients.medsynth").unlink()


def chain(folder: Path, whole: int, moments: random.Random, kills: int, lots: int = LOTS) -> list[int]:
    """Kill the fit and start it again, up to `kills` times, then let it end. Returns the checkpoint's size at each."""
    sizes = []
    for _ in range(kills):
        before = size(folder)
        moment = 0 if moments.random() < AT_ONCE else before + (whole - before) * moments.random()
        process = begun(folder, lots)
        while process.poll() is None and size(folder) < moment:
            time.sleep(0.002)
        process.kill()
        if process.wait() < 0:
            process.communicate()
            sizes.append(size(folder))
            assert not (folder / "patients.medsynth").exists() or (folder / "patients.medsynth").stat().st_size
        else:
            finished(folder, process)  # it ended before it could be killed
    finished(folder, begun(folder, lots))
    return sizes


def main() -> None:
    """Kill that often, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    moments, kills, fits = random.Random(given.seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        whole = prepared(Path(name))
        print(f"One fit's checkpoint reaches {whole / 1024:.0f} KiB.")
        while kills < given.kills:
            sizes = chain(Path(name), whole, moments, min(CHAIN, given.kills - kills))
            kills, fits = kills + len(sizes), fits + 1
            shares = ", ".join(f"{100 * s / whole:.0f} %" for s in sizes)
            print(f"killed at {shares} of the checkpoint, then resumed to a valid model", flush=True)
    print(f"{kills} kills, {fits} chains: every one ended with a valid model and a ledger within its plan.")


if __name__ == "__main__":
    main()
