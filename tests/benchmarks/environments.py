"""Environments of other tools, each with its own packages, for peers.py and panel.py."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

PACKAGES = {
    "pgm": ["numpy==1.26.4", "pandas==2.1.0", "scipy==1.13.1", "networkx==2.8.8"],
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
    "smartnoise": ["smartnoise-synth==1.0.8", "torch==2.13.0"],
}


def python_of(tool: str, folder: Path) -> Path:
    """The interpreter of a tool's environment, made where it is missing."""
    package = tool.split("-")[0]
    place = folder / package
    if not (place / "made").exists():
        venv.create(place, with_pip=True)
        subprocess.run([place / "bin" / "pip", "install", "--quiet", *PACKAGES[package]], check=True)
        (place / "made").touch()
    return place / "bin" / "python"
