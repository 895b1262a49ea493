"""What server and sites send one another: a JSON head and a body, as bytes. No pickle, no code, no noise."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import QueryError

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
