"""Other tools, each in an environment of its own: private-pgm, OpenDP, dpmm, smartnoise-synth, NAPSU-MQ.

Environments are made on first use, on a machine that can reach a package index. private-pgm is cloned next to them,
or MEDSYNTH_PRIVATE_PGM names a checkout of COMMIT.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pandas as pd

from tests.benchmarks.common import DELTA, RESULTS

PACKAGES = {
    "pgm": ["numpy==1.26.4", "pandas==2.1.0", "scipy==1.13.1", "networkx==2.8.8"],
    "opendp": ["opendp[mbi]==0.16.0", "mbi==1.1.0", "pandas==3.1.1"],
    "dpmm": ["dpmm==0.1.9"],
    # twinify of August 2023. The versions of JAX that it names are too old for Python 3.11; 0.4.13 works.
    "napsu": [
        "twinify @ git+https://github.com/DPBayes/twinify@c522a90de10cad30e102239c83c075cf9c081eea",
        "jax==0.4.13",
        "jaxlib==0.4.13",
        "numpyro==0.12.1",
        "arviz==0.21.0",
        "scipy==1.12.0",
        "numpy==1.26.4",
        "matplotlib==3.8.4",
    ],
    "anonymeter": ["anonymeter==1.1.0"],
    "sdmetrics": ["sdmetrics==0.32.0"],
    "syntheval": ["syntheval==1.7.3"],
    "synthmia": ["pandas==2.3.3", "scikit-learn==1.9.1", "torch==2.13.0", "tqdm"],
    "smartnoise": ["smartnoise-synth==1.0.8", "torch==2.13.0"],
}
PRIVATE_PGM = "https://github.com/ryan112358/private-pgm"
COMMIT = "41b5346afd0bbad2656bf505b1006508f5a232ec"  # 5 June 2024, the last that runs on NumPy alone
SYNTH_MIA = "https://github.com/joshward96/Synth-MIA"  # It has no package; COMMIT_MIA is of 12 September 2025.
COMMIT_MIA = "9ef39e1d34cb0d19f53308870a7a021a6b9d2867"
SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def add_options(parser: Any, cap: float) -> None:
    """Add the options of benchmarks that run other tools."""
    parser.add_argument("--cap", type=float, default=cap, help="seconds of one fit; a longer one is a time-out")
    parser.add_argument("--environments", type=Path, default=RESULTS / "peers", help="of other tools")


def python_of(tool: str, folder: Path) -> Path:
    """Return the interpreter of a tool's environment. Make the environment if it is missing."""
    package = tool.split("-")[0]
    place = folder.absolute() / package
    if not (place / "made").exists():
        venv.create(place, with_pip=True)
        subprocess.run([place / "bin" / "pip", "install", "--quiet", *PACKAGES[package]], check=True)
        (place / "made").touch()
    return place / "bin" / "python"


def checkout(folder: Path, name: str = "private-pgm", source: str = PRIVATE_PGM, commit: str = COMMIT) -> str:
    """Return the folder of a tool's sources. Clone them if MEDSYNTH_NAME does not name a checkout."""
    if named := os.environ.get(f"MEDSYNTH_{name.upper().replace('-', '_')}"):
        return named
    place = folder.absolute() / name
    if not place.exists():
        subprocess.run(["git", "clone", "--quiet", source, place], check=True)
        subprocess.run(["git", "-C", place, "checkout", "--quiet", commit], check=True)
    return str(place)


def synth_mia(folder: Path) -> str:
    """Return the folder of Synth-MIA's sources."""
    return checkout(folder, "synth-mia", SYNTH_MIA, COMMIT_MIA)


def child(words: list[str], cap: float, more: dict[str, str] | None = None) -> str:
    """Run a fit in a process of its own. Return its state: done, failed, or time-out."""
    environment = os.environ | SETTINGS | (more or {})
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=cap, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return "time-out"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"{' '.join(words[1:4])}: {last[:300]}", file=sys.stderr)
        return "failed"
    return "done"


def fitted(
    tool: str, place: Path, table: pd.DataFrame, known: dict[str, Any], epsilon: float, rows: int, given: Any
) -> tuple[str, pd.DataFrame | None]:
    """Fit a tool to a table in the folder `place`. Return the state, and the drawn rows of a fit that is done.

    `known` is the number of codes of each column, if the table is codes; else what the schema declares of each.
    """
    by_codes = all(isinstance(value, int) for value in known.values())
    table.to_csv(place / ("codes.csv" if by_codes else "train.csv"), index=False)
    (place / ("sizes.json" if by_codes else "domain.json")).write_text(json.dumps(known))
    script = str(Path(__file__).with_name("inside.py"))
    words = [str(python_of(tool, given.environments)), script, str(place), tool, str(epsilon), str(DELTA), str(rows)]
    more = {"MEDSYNTH_PRIVATE_PGM": checkout(given.environments)} if tool.startswith("pgm") else {}
    state = child(words, given.cap, more)
    return state, pd.read_csv(place / "made.csv") if state == "done" else None
