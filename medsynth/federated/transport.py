"""How messages reach sites: a protocol of two methods, in one process, or between processes of one machine.

A site is a process of its own, with the table; whatever carries messages between machines (`flare.py`) is another,
which reaches it by a socket in a folder and holds nothing but bytes. Neither side reads a pickle.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from ..errors import MedsynthError
from .messages import MOST_BYTES

Answer = Callable[[bytes], bytes]
Came = Callable[[str], None]
SUFFIX = ".medsynth-socket"
LONGEST_SOCKET = 100  # bytes of a socket's path, which systems limit
LENGTH = 8  # bytes that hold the length of a message
LOOK = 0.2  # seconds after which whoever listens looks whether it is done


class Transport(Protocol):
    """What carries messages to sites."""

    def call(self, sites: Sequence[str], message: bytes, came: Came) -> Mapping[str, bytes]:
        """The answers of those sites that gave one, by name. A site that cannot be reached is not among them.

        `came` is told each site's name once it has answered, where that can be known before all have.
        """


class InProcess:
    """Sites in this process, by name: for tests, and for figures. Counts the bytes of all messages."""

    def __init__(self, sites: Mapping[str, Answer]) -> None:
        self.sites, self.sent, self.received = dict(sites), 0, 0

    def call(self, sites: Sequence[str], message: bytes, came: Came = lambda name: None) -> Mapping[str, bytes]:
        """The answers, one site after another."""
        found = {}
        for name in sites:
            with contextlib.suppress(ConnectionError):
                found[name] = self.sites[name](message)
                came(name)
                self.sent += len(message)
                self.received += len(found[name])
        return found


class Sockets:
    """Sites in other processes of this machine, each with a socket of its name in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def call(self, sites: Sequence[str], message: bytes, came: Came = lambda name: None) -> Mapping[str, bytes]:
        """The answers, all sites at once."""
        with ThreadPoolExecutor(max(1, len(sites))) as pool:
            found = pool.map(lambda name: self._ask(name, message, came), sites)
            return {name: answer for name, answer in zip(sites, found, strict=True) if answer is not None}

    def _ask(self, name: str, message: bytes, came: Came) -> bytes | None:
        with contextlib.suppress(OSError):
            answer = ask(socket_of(self._folder, name), message)
            came(name)
            return answer
        return None


def socket_of(folder: Path, name: str) -> Path:
    """The socket of a site, or of a fit, in a folder."""
    return folder / f"{name}{SUFFIX}"


def send(connection: socket.socket, message: bytes) -> None:
    """One message. Raises OSError where nobody takes it."""
    connection.sendall(len(message).to_bytes(LENGTH, "little") + message)


def receive(connection: socket.socket) -> bytes:
    """One message. Raises OSError where none comes whole, or it is longer than any can be."""
    size = int.from_bytes(_exactly(connection, LENGTH), "little")
    if size > MOST_BYTES:
        raise ConnectionError("too long a message")
    return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        some = connection.recv(min(count - len(found), 1 << 20))
        if not some:
            raise ConnectionError("the other end left")
        found += some
    return bytes(found)


def connected(path: Path) -> socket.socket:
    """A connection to whoever listens at a socket. Raises OSError where nobody does."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def ask(path: Path, message: bytes) -> bytes:
    """The answer of whoever listens at a socket. Raises OSError where nobody does."""
    with connected(path) as connection:
        send(connection, message)
        return receive(connection)


@contextlib.contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A socket that its owner alone can reach. Raises MedsynthError where there can be none."""
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        raise MedsynthError(f"The path of the socket {path} is too long. Name a folder with a shorter one.")
    listener = socket.socket(socket.AF_UNIX)
    try:
        os.fchmod(listener.fileno(), 0o600)  # what Linux makes the file with; a umask would be that of all threads
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        os.chmod(path, 0o600)
    except OSError as error:
        listener.close()
        raise MedsynthError(f"The socket {path} cannot be opened ({error.strerror}).") from None
    try:
        listener.settimeout(LOOK)
        listener.listen()
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


def accepted(listener: socket.socket, done: Callable[[], bool]) -> socket.socket | None:
    """The next connection, or None once `done`."""
    while not done():
        with contextlib.suppress(TimeoutError):
            connection, _ = listener.accept()
            connection.setblocking(True)
            return connection
    return None


def serve(path: Path, answer: Answer, done: Callable[[], bool]) -> None:
    """Answer whoever connects, one message a connection, until `done`."""
    with listening(path) as listener:
        while (connection := accepted(listener, done)) is not None:
            with contextlib.suppress(OSError), connection:
                send(connection, answer(receive(connection)))
