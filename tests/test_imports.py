"""Each command loads the packages that it uses: their imports take most of the time of a small task."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

START = {"numpy", "pydantic", "rich", "typer"}
TABLE = START | {"cryptography", "pandas", "pyarrow", "scipy.special", "yaml"}
MODEL = TABLE | {"safetensors"}
OF_REPORTS = {
    "dp_accounting", "jinja2", "opacus", "scipy.fft", "scipy.linalg", "scipy.optimize", "scipy.sparse",
    "scipy.stats", "sdmetrics", "sklearn",
}  # fmt: skip
FITTED = MODEL | {"dp_accounting", "opacus", "scipy.linalg"}
FIT = "fit patients.csv --epsilon 3.7 --anyway"
EACH_PUSH = {  # by each command, at most, of the packages that take long
    "--help": START,
    "plan 500 --epsilon 3.7": MODEL,
    "sample patients.medsynth -n 9 --output drawn.csv": MODEL,
    f"{FIT} --schema patients.schema.yaml --output own.medsynth": FITTED,
}
EACH_NIGHT = {
    "fit --help": START,
    "methods": START,
    f"{FIT} --output learned.medsynth": FITTED,
    "inspect patients.medsynth": MODEL,
    "ledger patients.medsynth": MODEL,
    "schema show thyroid": TABLE,
    "schema check patients.csv --schema patients.schema.yaml": MODEL,
    "schema draft patients.csv --yes --force": MODEL,
    "report patients.medsynth --real patients.csv": MODEL | OF_REPORTS,
}
SLOW = MODEL | OF_REPORTS | {"matplotlib", "torch"}
FORKED = """
import json, os, sys
from medsynth_cli.main import app

for words in json.loads(sys.argv[1]):
    if os.fork() == 0:  # what all commands share is imported once
        out = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            app(words.split())
        except SystemExit as end:
            os.write(out, (json.dumps([words, end.code or 0, [*sys.modules]]) + chr(10)).encode())
        os._exit(0)
    os.wait()
"""


@pytest.mark.nightly_for("night")
@pytest.mark.parametrize("loaded", [pytest.param(EACH_PUSH, id="push"), pytest.param(EACH_NIGHT, id="night")])
def test_each_command_loads_what_it_uses(loaded: dict[str, set[str]], fitted_patients: Path) -> None:
    words = [sys.executable, "-c", FORKED, json.dumps([*loaded])]
    done = subprocess.run(words, cwd=fitted_patients.parent, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(words, code) for words, code, _ in lines] == [(words, 0) for words in loaded], done.stderr
    for command, _, modules in lines:
        assert SLOW & set(modules) <= loaded[command], command
