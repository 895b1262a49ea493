"""Fits over three sites on a provisioned FLARE deployment: certificates, and eight processes of this machine.

Kits are provisioned once, as docs/how-to/federation.md describes. FLARE's server and clients keep running; each run
starts the sites again and fits by the command line. Rows and figures are those of `federation`. Prints a line per run,
then medians with their range.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import medsynth
from medsynth.federated.masks import write_key
from medsynth.federated.study import study_of
from tests.benchmarks import tables
from tests.benchmarks.common import options, spread
from tests.benchmarks.federation import PRESETS, figures, parts

SITES = ("east", "north", "west")
ADMINISTRATOR = "lead@hospitals.org"
BIN = Path(sys.executable).parent
BUILDERS = [
    {"path": f"nvflare.lighter.impl.{module}.{name}", "args": args}
    for module, name, args in (
        ("workspace", "WorkspaceBuilder", {"template_file": ["master_template.yml"]}),
        ("static_file", "StaticFileBuilder", {"config_folder": "config"}),
        ("cert", "CertBuilder", {}),
        ("signature", "SignatureBuilder", {}),
    )
]


class Deployment:
    """Kits below a folder, and the processes that run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kits = folder, folder / "kits" / "figures" / "prod_00"
        path = f"{BIN}:{os.environ['PATH']}"
        self.environment = {**os.environ, "MEDSYNTH_SOCKETS": str(folder), "PATH": path, "OMP_NUM_THREADS": "1"}
        self.processes: list[subprocess.Popen[bytes]] = []

    def run(self, *words: str) -> str:
        """Run a command to its end. Raise SystemExit with its output if it fails."""
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def start(self, folder: Path, *words: str) -> subprocess.Popen[bytes]:
        """Start a process with a group of its own."""
        with (self.folder / f"log-{len(self.processes)}").open("w") as log:
            self.processes.append(
                subprocess.Popen(
                    words, cwd=folder, env=self.environment, stdout=log, stderr=log, start_new_session=True
                )
            )
        return self.processes[-1]

    def provision(self) -> None:
        """Make and restrict the kits, start FLARE's server and clients, and wait until these are registered."""
        with socket.socket() as one:
            one.bind(("localhost", 0))
            port = int(one.getsockname()[1])
        clients = [{"name": name, "type": "client", "org": "hospitals"} for name in SITES]
        server = {"name": "localhost", "type": "server", "org": "hospitals", "fed_learn_port": port}
        lead = {"name": ADMINISTRATOR, "type": "admin", "org": "hospitals", "role": "project_admin"}
        project = {"api_version": 3, "name": "figures", "participants": [server, *clients, lead], "builders": BUILDERS}
        (self.folder / "project.yml").write_text(json.dumps(project))
        self.run("nvflare", "provision", "-p", "project.yml", "-w", "kits")
        for name in ("localhost", *SITES):
            self.run("medsynth", "federate", "allow", str(self.kits / name))
            self.start(self.folder, "bash", str(self.kits / name / "startup" / "sub_start.sh"))
        log, until = self.kits / "localhost" / "log.txt", time.monotonic() + 240
        while not (log.exists() and log.read_text().count("joined. Sent token") == len(SITES)):
            if time.monotonic() > until:
                raise SystemExit("FLARE's clients did not join its server.")
            time.sleep(1)

    def fit(self, digest: str) -> float:
        """Start the sites and fit by the command line. Return the seconds of the fit."""
        sites = [
            self.start(self.folder / name, "medsynth", "federate", "site", "../study.yaml", "t.csv", "--name", name,
                       "--key", "key", "--accept", digest, "--sockets", str(self.folder), "--force")
            for name in SITES
        ]  # fmt: skip
        while not all((self.folder / f"{name}.medsynth-socket").exists() for name in SITES):
            if any(process.poll() is not None for process in sites):
                raise SystemExit("A site did not start.")
            time.sleep(0.2)
        started = time.perf_counter()
        kit = str(self.kits / ADMINISTRATOR)
        self.run("medsynth", "federate", "fit", "study.yaml", "--kit", kit, "--user", ADMINISTRATOR, "--force")
        seconds = time.perf_counter() - started
        if any(process.wait(120) for process in sites):
            raise SystemExit("A site did not end with the study.")
        return seconds

    def end(self) -> None:
        """End all processes."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def written_study(folder: Path, frames: list[Any], rows: int, schema: Any, given: Any) -> str:
    """Write tables, keys and the study's file. Return the study's digest."""
    keys = {}
    for name, frame in zip(SITES, frames, strict=True):
        (folder / name).mkdir()
        frame.to_csv(folder / name / "t.csv", index=False)
        keys[name] = write_key(folder / name / "key").public
    content = {
        "name": "figures", "schema": schema.to_dict(), "epsilon": given.epsilon, "rows": rows, "trust": given.trust,
        "method": given.method, "preset": PRESETS.get(given.method), "sites": keys,
    }  # fmt: skip
    (folder / "study.yaml").write_text(json.dumps(content))  # JSON is YAML.
    return str(study_of(content).digest)


def main(words: list[str]) -> None:
    """Fit as often as asked, and print figures."""
    parser = options("federation-provisioned", __doc__, data=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=3.7)
    parser.add_argument("--method", default="mixture")
    parser.add_argument("--trust", choices=["none", "server", "secure-sum"], default="secure-sum")
    given = parser.parse_args(words)
    train, test, schema, target = tables.load("thyroid", given.data)
    found: list[list[float]] = []
    with tempfile.TemporaryDirectory() as place:
        deployment = Deployment(Path(place))
        try:
            digest = written_study(Path(place), parts(train, target, 3, "same"), len(train), schema, given)
            deployment.provision()
            for run in range(given.runs):
                seconds = deployment.fit(digest)
                model = medsynth.load(Path(place) / "figures.medsynth")
                found.append([*figures(medsynth.sample(model, len(train)), train, test, schema, target), seconds])
                print(f"{run}: mean {found[-1][0]:.4f}, two-way {found[-1][1]:.4f}, {seconds:.0f} s", flush=True)
        finally:
            deployment.end()
    for name, values in zip(("mean", "two_way", "seconds"), zip(*found, strict=True), strict=True):
        print(f"{name}: {spread(values, 4)}, {len(values)} runs")
