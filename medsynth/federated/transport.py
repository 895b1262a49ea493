"""What server and sites send one another, and how it reaches them: by function calls, or sockets of one machine.

A message is a JSON head and a body, as bytes. No pickle, no code, no noise. A site is a process of its own, with the
table; whatever carries messages between machines (`flare.py`) is another, which reaches it by a socket in a folder and
holds nothing but bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import MedsynthError, QueryError

MOST_BYTES = 1 << 32  # of a message
WORDS = 4  # bytes that hold the length of a head
NONCE = re.compile(r"[0-9a-f]{32}")  # of a site's start, as requests carry it
DIGEST = re.compile(r"[0-9a-f]{64}")  # of a query
MOST_SEED = 1 << 56
# What the head of a request holds, by its kind: nothing else is taken.
KEYS = {
    "join": {"format", "study", "run", "kind"},
    "measure": {"format", "study", "run", "kind", "number", "label", "among", "seed", "releases", "query"},
    "finish": {"format", "study", "run", "kind"},
}
Answer = Callable[[bytes], bytes]
Came = Callable[[str], None]
SUFFIX = ".medsynth-socket"
LONGEST_SOCKET = 100  # bytes of a socket's path, which systems limit
LENGTH = 8  # bytes that hold the length of a message
LOOK = 0.2  # seconds after which whoever listens looks whether it is done


def packed(head: dict[str, Any], body: bytes = b"") -> bytes:
    """A message."""
    text = json.dumps(head, sort_keys=True, allow_nan=False).encode()
    return len(text).to_bytes(WORDS, "little") + text + body


def unpacked(message: bytes) -> tuple[dict[str, Any], bytes]:
    """The head and the body of a message. Raises QueryError for bytes that are none."""
    size = int.from_bytes(message[:WORDS], "little")
    try:
        head = json.loads(message[WORDS : WORDS + size])
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or len(message) > MOST_BYTES:
        raise QueryError("These bytes are no message of a federated fit.")
    return head, message[WORDS + size :]


def request(message: bytes) -> tuple[dict[str, Any], bytes]:
    """The head and the body of a request, with exactly the keys of its kind. Raises QueryError for anything else."""
    head, body = unpacked(message)
    kind = head.get("kind")
    if not isinstance(kind, str) or set(head) != KEYS.get(kind):
        raise QueryError("The message is of no known kind, or says more than a message of its kind may.")
    if kind == "measure":
        among = head["among"]
        named = isinstance(among, dict) and all(isinstance(of, str) and NONCE.fullmatch(of) for of in among.values())
        whole = [head["number"], head["seed"], *(head["releases"] if isinstance(head["releases"], list) else [None])]
        counted = all(type(one) is int and 0 <= one <= MOST_SEED for one in whole)
        known = isinstance(head["query"], str) and DIGEST.fullmatch(head["query"])
        if not counted or not isinstance(head["label"], str) or not named or not known:
            raise QueryError("The message asks for no measurement.")
    return head, body


def digest(message: bytes) -> str:
    """SHA-256 of a message."""
    return hashlib.sha256(message).hexdigest()


def arrays_of(body: bytes) -> list[NDArray[Any]]:
    """The arrays of a body. Raises QueryError for bytes that hold none."""
    from safetensors.numpy import load

    try:
        found = load(body)
        return [found[str(k)] for k in range(len(found))]
    except Exception:  # whatever a parser makes of somebody else's bytes
        raise QueryError("The message holds no arrays.") from None


def body_of(arrays: Sequence[NDArray[Any]]) -> bytes:
    """Arrays as the body of a message."""
    from safetensors.numpy import save

    return bytes(save({str(k): np.array(a, order="C") for k, a in enumerate(arrays)}))


def grouped(arrays: Sequence[NDArray[Any]], counts: Sequence[int]) -> list[list[NDArray[Any]]]:
    """Return arrays in groups of these sizes, one after another. Raises QueryError where they are fewer."""
    if sum(counts) > len(arrays):
        raise QueryError("The message says of more arrays than it holds.")
    ends = np.cumsum([0, *counts]).tolist()
    return [list(arrays[first:last]) for first, last in zip(ends, ends[1:], strict=False)]


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
