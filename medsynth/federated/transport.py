"""How messages reach sites: a protocol of two methods, in one process, or between processes of one machine.

A site is a process of its own, with the table; whatever carries messages between machines (`flare.py`) is another,
which reaches it by a socket in a folder and holds nothing but bytes. Neither side reads a pickle.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Protocol

from ..errors import MedsynthError

Answer = Callable[[bytes], bytes]
SUFFIX = ".medsynth-socket"
LONGEST_SOCKET = 100  # bytes of a socket's path, which systems limit


class Transport(Protocol):
    """What carries messages to sites."""

    def call(self, sites: Sequence[str], message: bytes) -> Mapping[str, bytes]:
        """The answers of those sites that gave one, by name. A site that cannot be reached is not among them."""


class InProcess:
    """Sites in this process, by name: for tests, and for figures. Counts the bytes of all messages."""

    def __init__(self, sites: Mapping[str, Answer]) -> None:
        self.sites, self.sent, self.received = dict(sites), 0, 0

    def call(self, sites: Sequence[str], message: bytes) -> Mapping[str, bytes]:
        """The answers, one site after another."""
        found = {}
        for name in sites:
            with contextlib.suppress(ConnectionError):
                found[name] = self.sites[name](message)
                self.sent += len(message)
                self.received += len(found[name])
        return found


class Sockets:
    """Sites in other processes of this machine, each with a socket of its name in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def call(self, sites: Sequence[str], message: bytes) -> Mapping[str, bytes]:
        """The answers, all sites at once."""
        with ThreadPoolExecutor(max(1, len(sites))) as pool:
            found = pool.map(lambda name: self._ask(name, message), sites)
            return {name: answer for name, answer in zip(sites, found, strict=True) if answer is not None}

    def _ask(self, name: str, message: bytes) -> bytes | None:
        with contextlib.suppress(OSError, EOFError):
            return ask(socket_of(self._folder, name), message)
        return None


def socket_of(folder: Path, name: str) -> Path:
    """The socket of a site, or of a fit, in a folder."""
    return folder / f"{name}{SUFFIX}"


def ask(path: Path, message: bytes) -> bytes:
    """The answer of whoever listens at a socket. Raises OSError or EOFError where nobody does."""
    with Client(str(path), family="AF_UNIX") as connection:
        connection.send_bytes(message)
        return connection.recv_bytes()


@contextlib.contextmanager
def listening(path: Path) -> Iterator[Listener]:
    """A socket that its owner alone can reach. Raises MedsynthError where there can be none."""
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        raise MedsynthError(f"The path of the socket {path} is too long. Name a folder with a shorter one.")
    path.unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        listener = Listener(str(path), family="AF_UNIX")
    except OSError as error:
        raise MedsynthError(f"The socket {path} cannot be opened ({error.strerror}).") from None
    finally:
        os.umask(before)
    try:
        yield listener
    finally:
        listener.close()


def serve(path: Path, answer: Answer, done: Callable[[], bool]) -> None:
    """Answer whoever connects, one message a connection, until `done`."""
    with listening(path) as listener:
        while not done():
            with contextlib.suppress(OSError, EOFError), listener.accept() as connection:
                connection.send_bytes(answer(connection.recv_bytes()))
