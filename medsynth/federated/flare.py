"""Carry messages with NVIDIA FLARE: jobs that pass bytes from the server's socket to each site's socket, and back.

A job contains no code. It names the two relays below, which are part of every site's medsynth. So a site can forbid
jobs with their own code (FLARE's `byoc`) and allow only these classes. Neither relay sees a table. Each FLARE process
is started with MEDSYNTH_SOCKETS, the folder of the sockets of the site or of the fit.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from nvflare.collab import CollabRecipe, collab

from ..errors import MedsynthError
from .kit import CLASSES
from .transport import Came, accepted, ask, connected, listening, packed, receive, send, socket_of, unpacked

FOLDER = "MEDSYNTH_SOCKETS"
ANSWER_SECONDS = 900.0  # longest time for one answer of a site
LOGIN_SECONDS = 60.0  # longest time for FLARE's server to answer an administrator
START_SECONDS = 300.0  # longest time for FLARE to start a job
END_SECONDS = 60.0  # longest time for FLARE to end a job


def _folder() -> Path:
    return Path(os.environ.get(FOLDER, "."))


class RelaySite:
    """At a FLARE client: pass a message to the site's process on the same machine, and return its answer."""

    @collab.publish  # type: ignore[untyped-decorator]
    def answer(self, message: bytes) -> bytes:
        """Return the site's answer. Raise OSError if its process is not running; this counts as no answer."""
        return ask(socket_of(_folder(), str(collab.site_name)), message)


class RelayServer:
    """At the FLARE server: pass each message of the fit, a process on the same machine, to the sites that it names."""

    def __init__(self, fit: str, seconds: float = ANSWER_SECONDS) -> None:
        self.fit, self.seconds = fit, seconds

    @collab.main  # type: ignore[untyped-decorator]
    def relay(self) -> None:
        """Relay messages until the fit ends or its process is gone."""
        known = {client.name for client in collab.clients}
        with suppress(OSError), connected(socket_of(_folder(), self.fit)) as connection:
            while True:
                head, message = unpacked(receive(connection))
                names = [name for name in head["sites"] if name in known]
                answers = self._asked(names, message) if names else {}
                sizes = {name: len(answer) for name, answer in answers.items()}
                send(connection, packed({"sizes": sizes}, b"".join(answers[name] for name in sorted(sizes))))

    def _asked(self, names: list[str], message: bytes) -> dict[str, bytes]:
        group = collab.get_clients(names)(timeout=self.seconds)
        return {str(name): answer for name, answer in group.answer(message=message) if isinstance(answer, bytes)}


class Flare:
    """The fit's connection to a job's relay. Raises MedsynthError if the relay is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def call(self, sites: Sequence[str], message: bytes, came: Came) -> Mapping[str, bytes]:
        """Return the answers of the sites that gave one, by name. They all arrive together."""
        try:
            send(self._connection, packed({"sites": list(sites)}, message))
            head, body = unpacked(receive(self._connection))
        except OSError:
            raise MedsynthError(
                "The FLARE job has ended. The measurements are saved: fit again with `resume`."
            ) from None
        found = {}
        place = 0
        for name in sorted(head["sizes"]):
            found[name] = body[place : place + head["sizes"][name]]
            place += head["sizes"][name]
        return found


def write_job(folder: Path, name: str, least: int) -> Path:
    """Write the FLARE job of the fit `name`, two relays and no code. Return its folder."""
    recipe: Any = CollabRecipe(job_name=name, server=RelayServer(name), client=RelaySite(), min_clients=least)
    recipe.export(str(folder))
    for code in folder.rglob("custom"):
        shutil.rmtree(code)
    return folder / name


Ended = Callable[[], bool]
Submit = Callable[[Path], AbstractContextManager[Ended]]


@contextmanager
def relayed(name: str, folder: Path, submit: Submit, least: int) -> Iterator[Flare]:
    """Submit the job of the fit `name` and wait for its relay at the fit's socket in `folder`.

    `submit` takes the job's folder and yields a function that returns whether the job has ended. Raises MedsynthError
    if no relay connects.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(listening(socket_of(folder, name)))
        jobs = stack.enter_context(tempfile.TemporaryDirectory())
        ended = stack.enter_context(submit(write_job(Path(jobs), name, least)))
        until = time.monotonic() + START_SECONDS
        connection = accepted(listener, lambda: ended() or time.monotonic() > until)
        if connection is None:
            reason = "ended the job before it" if ended() else f"started no job within {START_SECONDS:.0f} s that"
            raise MedsynthError(
                f"FLARE {reason} reached this fit. Check that FLARE's server runs on this machine with {FOLDER}="
                f"{folder.absolute()}, that {least} sites have joined it, and that server and sites allow medsynth's "
                "classes. The file log.txt in the server's kit says more."
            )
        with connection:
            yield Flare(connection)
        until = time.monotonic() + END_SECONDS
        while not ended() and time.monotonic() < until:  # the relay ends by itself when the connection closes
            time.sleep(0.2)


def submitted(kit: Path, user: str) -> Submit:
    """Return a function that submits a job to a running FLARE deployment, as the administrator of this kit."""

    @contextmanager
    def submit(job: Path) -> Iterator[Ended]:
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        try:
            with redirect_stdout(sys.stderr):  # FLARE prints to standard output
                session: Any = new_secure_session(user, str(kit), timeout=LOGIN_SECONDS, command_timeout=LOGIN_SECONDS)
                number = session.submit_job(str(job))
        except Exception as error:  # FLARE raises various errors if no server answers
            raise MedsynthError(
                f"FLARE took no job from the kit {kit} ({type(error).__name__}). Check that it is an administrator's "
                "kit, that its server runs, and that this machine can reach the server's port."
            ) from None
        looked = time.monotonic()
        status = ""

        def ended() -> bool:
            """Return whether the job has ended. Ask the server at most every two seconds."""
            nonlocal looked, status
            if time.monotonic() - looked > 2:
                looked = time.monotonic()
                status = str(session.get_job_meta(number).get("status", ""))
            return status.startswith("FINISHED")

        try:
            yield ended
        finally:
            session.close()

    return submit


def simulated(sites: Sequence[str], folder: Path) -> Submit:
    """Return a function that runs a job in FLARE's simulator on this machine, to try a study."""

    @contextmanager
    def submit(job: Path) -> Iterator[Ended]:
        workspace = job.parent / "simulation"
        local = workspace / "local"
        local.mkdir(parents=True)
        (local / "resources.json").write_text(json.dumps({"format_version": 2, "class_allow_list": list(CLASSES)}))
        words = [sys.executable, "-m", "nvflare.private.fed.app.simulator.simulator", str(job), "-w", str(workspace)]
        words += ["-c", ",".join(sites), "-t", str(len(sites))]
        environment = {**os.environ, FOLDER: str(folder.absolute())}
        with (folder / "simulator.log").open("w") as log:
            process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=environment)
        try:
            yield lambda: process.poll() is not None
        finally:
            process.terminate()
            process.wait()

    return submit
