"""The checkpoint of a fit: its releases, stored before they are used, so that a killed fit never draws one twice.

A record is on disk, whole, before anything is done with it. A record that a crash left half-written was used by nobody
and is cut off. The file is private: it holds the releases of an unfinished fit, and the secret placement of rows in
shards. It is to be removed once the model is saved.

The file begins with facts: everything on which its records depend. A fit that differs in one of them is refused. Each
start and each resume has an attempt id of its own, by which the budget file recognises copies (`budget.py`).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from ..errors import MedsynthError, UsageError
from ..io.atomic import sole_writer

Floats = NDArray[np.float64]
Arrays = Sequence[Floats] | Mapping[str, Floats]
FORMAT = 4  # of the file
DERIVED = ("format", "plan", "noise")  # facts that follow from others and from the version
OPTIONS = {"split_number": "holdout"}  # facts that have the name of another option
ATTEMPT = "secret: attempt"  # the label of a record with the id of a resume
NAMED, PLACED = "of ", "at "  # how the keys of arrays begin: with a name, or with their place alone
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
RECORD_HEAD = struct.Struct("<Q32s")  # length and checksum of a record
MAX_RECORD_BYTES = 1 << 32


class Checkpoint:
    """The records of one fit at `path`, in order. `facts` name everything on which they depend, one option each.

    With `resume` the records on file are replayed first. Raises UsageError, which names the options that differ, where
    they are another fit's.
    """

    def __init__(self, path: Path, facts: dict[str, Any], *, resume: bool) -> None:
        self.path, self._facts = path, json.dumps({"format": FORMAT, **facts})
        self._records: list[tuple[str, Arrays, list[str]]] = []
        self._resumes: list[str] = []  # attempt ids of all resumes, in order
        # Of public streams, where the fit was given none: a resumed fit repeats it.
        self.seed = int.from_bytes(os.urandom(7))
        whole = self._read() if resume and path.exists() else 0
        self.resumed = whole > 0  # whether a fit that was killed has left anything here
        self.count = len(self._records)  # records on file, replayed or not
        try:
            if whole:
                os.truncate(path, whole)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise MedsynthError(f"The checkpoint {path} cannot be written ({error.strerror}).") from None

    @property
    def remaining(self) -> int:
        """How many records on file are still to be replayed."""
        return len(self._records)

    @property
    def labels(self) -> list[str]:
        """Their labels, in order."""
        return [label for label, _, _ in self._records]

    @property
    def attempts(self) -> tuple[str, ...]:
        """The ids of the start and of all resumes, in order. Copies share the ids from before they were made."""
        return (f"{self.seed:014x}", *self._resumes)

    def begin(self) -> None:
        """Put the facts on disk, so that a fit that is killed at its first measurement goes on with its charge."""
        if not self.path.exists():
            self._write({"facts": self._facts, "seed": str(self.seed)}, [])

    def resume(self) -> tuple[str, ...]:
        """Give this resume an attempt id, on disk when this returns. Returns the ids of all attempts so far."""
        self._resumes.append(secrets.token_hex(7))
        self._write({"label": ATTEMPT, "names": json.dumps(self._resumes[-1:])}, [])
        return self.attempts

    def replay(self, label: str) -> tuple[Arrays, list[str]] | None:
        """The next record on file, its numbers and names, or None where all were replayed.

        Raises MedsynthError if it has another label.
        """
        if not self._records:
            return None
        found, arrays, names = self._records.pop(0)
        if found != label:
            raise MedsynthError(f"{self.path} does not fit this version's plan. Start anew without `resume`.")
        return arrays, names

    def rest(self) -> list[tuple[str, Arrays, list[str]]]:
        """All records that are still to be replayed, at once: label, numbers and names. None is left."""
        found, self._records = self._records, []
        return found

    def store(self, label: str, arrays: Arrays, names: list[str]) -> None:
        """Put a record on disk, whole, before it is used. The file begins with the first one.

        `arrays` that have names are stored under these, others by their place.
        """
        self.begin()
        self._write({"label": label, "names": json.dumps(names)}, arrays)
        self.count += 1

    def _write(self, metadata: dict[str, str], arrays: Arrays) -> None:
        from safetensors.numpy import save

        if isinstance(arrays, Mapping):
            keyed = {f"{NAMED}{name}": array for name, array in arrays.items()}
        else:
            keyed = {f"{PLACED}{place}": array for place, array in enumerate(arrays)}
        body = save({key: np.array(a, np.float64, order="C") for key, a in keyed.items()}, metadata)
        try:
            with os.fdopen(os.open(self.path, APPEND, 0o600), "ab") as file:
                file.write(RECORD_HEAD.pack(len(body), hashlib.sha256(body).digest()) + body)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise MedsynthError(
                f"{self.path}: {error.strerror}. Free some space, then fit again with `resume`."
            ) from None

    def _read(self) -> int:
        """Read the whole records. Returns the length of the file that they fill."""
        try:
            content, place = self.path.read_bytes(), 0
        except OSError as error:
            raise MedsynthError(f"The checkpoint {self.path} cannot be read ({error.strerror}).") from None
        while place + RECORD_HEAD.size <= len(content):
            length, digest = RECORD_HEAD.unpack_from(content, place)
            body = content[place + RECORD_HEAD.size : place + RECORD_HEAD.size + min(length, MAX_RECORD_BYTES)]
            intact = hashlib.sha256(body).digest() == digest
            if len(body) < length <= MAX_RECORD_BYTES or (place and not intact):
                break  # half-written at a crash, and used by nobody
            try:
                if not intact:
                    raise ValueError("the first record is none")
                self._take(body, first=not place)
            except (LookupError, RecursionError, TypeError, ValueError, struct.error, SafetensorError):
                raise MedsynthError(
                    f"{self.path} is no checkpoint of this version, or was altered. Start anew with `force` and "
                    "without `resume`."
                ) from None
            place += RECORD_HEAD.size + length
        return place

    def _take(self, body: bytes, *, first: bool) -> None:
        """Take over one record that is whole: the first one's seed, where it is of this fit, or a release."""
        from safetensors.numpy import load

        (size,) = struct.unpack_from("<Q", body)
        metadata = json.loads(body[8 : 8 + size])["__metadata__"]
        if first:
            self._check(json.loads(metadata["facts"]))
            self.seed = int(metadata["seed"])
            return
        tensors, names = load(body), json.loads(metadata["names"])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("names are words")
        if metadata["label"] == ATTEMPT:
            self._resumes += names
            return
        arrays: Arrays = {key.removeprefix(NAMED): tensor for key, tensor in tensors.items() if key.startswith(NAMED)}
        arrays = arrays or [tensors[f"{PLACED}{k}"] for k in range(len(tensors))]
        self._records.append((str(metadata["label"]), arrays, names))

    def _check(self, stored: dict[str, Any]) -> None:
        """Raises UsageError, which names what differs and no value of it, unless the `stored` facts are this fit's."""
        own = json.loads(self._facts)
        differ = [
            name for name in {**own, **stored}
            if name not in own or name not in stored or json.dumps(own[name]) != json.dumps(stored[name])
        ]  # fmt: skip
        if not differ:
            return
        named = dict.fromkeys(f"`{OPTIONS.get(name, name)}`" for name in differ if name not in DERIVED)
        if not named or "format" in differ:
            named = {"the version of medsynth": None}
        raise UsageError(
            f"{self.path} is of another fit: {' and '.join(named)} {'differs' if len(named) == 1 else 'differ'}. "
            "Fit as it was begun, or start anew with `force` and without `resume`."
        )


@contextmanager
def sole_user(path: Path) -> Iterator[None]:
    """Let no other fit use the checkpoint at `path` meanwhile. Raises MedsynthError if another fit uses it."""
    with ExitStack() as lock:
        try:
            lock.enter_context(sole_writer(path))
        except OSError as error:
            raise MedsynthError(f"The checkpoint {path} cannot be written ({error.strerror}).") from None
        except MedsynthError:
            raise MedsynthError(
                f"Another fit that is still running uses the checkpoint {path}. Wait until it has ended, or use "
                "another `checkpoint`."
            ) from None
        yield
