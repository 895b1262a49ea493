"""Define the messages of server and sites, and carry them by function calls or by sockets on one machine.

A message is a JSON head and a body, as bytes. It contains no pickle, no code and no noise setting. A site is a separate
process with the table. Another process carries messages between machines (`flare.py`). It reaches the site by a socket
in a folder, and handles only bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import stat
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
# The keys in the head of a request, by its kind. Other keys are refused.
KEYS = {
    "join": {"format", "study", "run", "kind"},
    "measure": {"format", "study", "run", "kind", "number", "label", "among", "seed", "releases", "query"},
    "finish": {"format", "study", "run", "kind"},
}
Answer = Callable[[bytes], bytes]
Came = Callable[[str], None]
SUFFIX = ".medsynth-socket"
LONGEST_SOCKET = 103  # bytes of a socket's absolute path: the limit of macOS; Linux allows 107
LENGTH = 8  # bytes that hold the length of a message
LOOK = 0.2  # seconds between checks of a listener whether it is done


def packed(head: dict[str, Any], body: bytes = b"") -> bytes:
    """Return head and body as a message."""
    text = json.dumps(head, sort_keys=True, allow_nan=False).encode()
    return len(text).to_bytes(WORDS, "little") + text + body


def unpacked(message: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the head and the body of a message. Raise QueryError for other bytes."""
    size = int.from_bytes(message[:WORDS], "little")
    try:
        head = json.loads(message[WORDS : WORDS + size])
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or len(message) > MOST_BYTES:
        raise QueryError("These bytes are not a message of a federated fit.")
    return head, message[WORDS + size :]


def request(message: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the head and the body of a request with exactly the keys of its kind. Raise QueryError otherwise."""
    head, body = unpacked(message)
    kind = head.get("kind")
    if not isinstance(kind, str) or set(head) != KEYS.get(kind):
        raise QueryError("The kind of the message is unknown, or its keys are not those of its kind.")
    if kind == "measure":
        among = head["among"]
        named = isinstance(among, dict) and all(isinstance(of, str) and NONCE.fullmatch(of) for of in among.values())
        whole = [head["number"], head["seed"], *(head["releases"] if isinstance(head["releases"], list) else [None])]
        counted = all(type(one) is int and 0 <= one <= MOST_SEED for one in whole)
        known = isinstance(head["query"], str) and DIGEST.fullmatch(head["query"])
        if not counted or not isinstance(head["label"], str) or not named or not known:
            raise QueryError("The message is not a valid request for a measurement.")
    return head, body


def digest(message: bytes) -> str:
    """Return the SHA-256 of a message."""
    return hashlib.sha256(message).hexdigest()


def arrays_of(body: bytes) -> list[NDArray[Any]]:
    """Return the arrays in a body. Raise QueryError for other bytes."""
    from safetensors.numpy import load

    try:
        found = load(body)
        return [found[str(k)] for k in range(len(found))]
    except Exception:  # hostile bytes may cause any exception in a parser
        raise QueryError("The message contains no arrays.") from None


def body_of(arrays: Sequence[NDArray[Any]]) -> bytes:
    """Return arrays as the body of a message."""
    from safetensors.numpy import save

    return bytes(save({str(k): np.array(a, order="C") for k, a in enumerate(arrays)}))


def grouped(arrays: Sequence[NDArray[Any]], counts: Sequence[int]) -> list[list[NDArray[Any]]]:
    """Return arrays in groups of these sizes, in order. Raise QueryError if there are too few arrays."""
    if sum(counts) > len(arrays):
        raise QueryError("The message contains fewer arrays than it announces.")
    ends = np.cumsum([0, *counts]).tolist()
    return [list(arrays[first:last]) for first, last in zip(ends, ends[1:], strict=False)]


class Transport(Protocol):
    """A carrier of messages to sites."""

    def call(self, sites: Sequence[str], message: bytes, came: Came) -> Mapping[str, bytes]:
        """Return the answers of the sites that gave one, by name. Sites that cannot be reached are missing.

        `came` is called with each site's name when it has answered, if that is known before all sites have.
        """


class Sockets:
    """Sites in other processes of this machine, each with a socket of its name in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def call(self, sites: Sequence[str], message: bytes, came: Came = lambda name: None) -> Mapping[str, bytes]:
        """Return the answers, asking all sites at once."""
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
    """Return the absolute path of the socket of a site, or of a fit, in a folder. FLARE reaches it by this path."""
    return folder.absolute() / f"{name}{SUFFIX}"


def send(connection: socket.socket, message: bytes) -> None:
    """Send a message. Raise OSError if the other end is gone."""
    connection.sendall(len(message).to_bytes(LENGTH, "little") + message)


def receive(connection: socket.socket) -> bytes:
    """Receive a message. Raise OSError if it is incomplete or too long."""
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
    """Return a connection to the listener at a socket. Raise OSError if there is none."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def ask(path: Path, message: bytes) -> bytes:
    """Return the answer of the listener at a socket. Raise OSError if there is none."""
    with connected(path) as connection:
        send(connection, message)
        return receive(connection)


def mode_in(folder: Path) -> int:
    """Return the mode of sockets in a folder: for the owner alone, and for the group of a folder of mode 2770.

    So FLARE can run under an account that is in this group and cannot read the table.
    """
    return 0o660 if stat.S_IMODE(folder.stat().st_mode) == 0o2770 else 0o600


@contextlib.contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Open a socket that only its owner can reach, or also the group of its folder (`mode_in`).

    Raises MedsynthError if that is impossible.
    """
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        raise MedsynthError(
            f"The path of the socket {path} is longer than {LONGEST_SOCKET} bytes. Name a folder with a shorter path."
        )
    listener = socket.socket(socket.AF_UNIX)
    try:
        mode = mode_in(path.parent)
        os.fchmod(listener.fileno(), mode)  # Linux creates the file with this mode; a umask would affect all threads
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        os.chmod(path, mode)
    except OSError as error:
        listener.close()
        raise MedsynthError(f"Cannot open the socket {path} ({error.strerror}). Name another folder.") from None
    try:
        listener.settimeout(LOOK)
        listener.listen()
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


def accepted(listener: socket.socket, done: Callable[[], bool]) -> socket.socket | None:
    """Return the next connection, or None when `done` is true."""
    while not done():
        with contextlib.suppress(TimeoutError):
            connection, _ = listener.accept()
            connection.setblocking(True)
            return connection
    return None


def serve(path: Path, answer: Answer, done: Callable[[], bool]) -> None:
    """Answer one message per connection, until `done` is true."""
    with listening(path) as listener:
        while (connection := accepted(listener, done)) is not None:
            with contextlib.suppress(OSError), connection:
                send(connection, answer(receive(connection)))
