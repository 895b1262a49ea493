"""The checkpoint: records whole or not at all, in order, of one fit alone."""

import hashlib
import json
import re
import shutil
import stat
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from medsynth.errors import MedsynthError, UsageError
from medsynth.privacy.checkpoint import RECORD_HEAD, Checkpoint, sole_user

FACTS = {"plan": {"h": [1.5, 2]}, "table": "abc"}


def test_records_come_back_bit_for_bit_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "x.medsynth-checkpoint"
    first = Checkpoint(path, FACTS, resume=False)
    arrays = [np.random.default_rng(0).normal(size=(3, 4)), np.array(2.5)]
    first.store("h", arrays, [])
    first.store("g", [np.zeros(0)], ["ward", 'é, "x"'])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Checkpoint(path, FACTS, resume=True)
    assert again.seed == first.seed and again.remaining == 2
    first_record, second_record = again.replay("h"), again.replay("g")
    assert first_record and second_record
    (found, _), (empty, names) = first_record, second_record
    assert not isinstance(found, Mapping) and not isinstance(empty, Mapping)
    assert all((a == b).all() and a.shape == b.shape for a, b in zip(found, arrays, strict=True))
    assert [array.shape for array in empty] == [(0,)] and names == ["ward", 'é, "x"']
    assert again.replay("h") is None


def test_any_half_written_tail_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "x"
    checkpoint = Checkpoint(path, FACTS, resume=False)
    ends = []
    for k in range(4):
        checkpoint.store("h", [np.full(5, float(k))], [])
        ends.append(path.stat().st_size)
    content = path.read_bytes()
    for length in range(0, len(content) + 1, 7):
        path.write_bytes(content[:length])
        again = Checkpoint(path, FACTS, resume=True)
        assert again.remaining == sum(end <= length for end in ends)
        if length >= ends[0]:
            assert path.stat().st_size == max(end for end in ends if end <= length)


def record(body: bytes) -> bytes:
    return RECORD_HEAD.pack(len(body), hashlib.sha256(body).digest()) + body


def header(metadata: object) -> bytes:
    text = json.dumps({"__metadata__": metadata}).encode()
    return struct.pack("<Q", len(text)) + text


CRAFTED = {
    "junk": b"junk" * 100,
    "no header": record(b""),
    "no json": record(bytes(8)),
    "a list": record(struct.pack("<Q", 2) + b"[]"),
    "deep": record(struct.pack("<Q", 200_000) + b"[" * 200_000),
    "nothing about it": record(struct.pack("<Q", 2) + b"{}"),
    "no facts": record(header({})),
    "a changed first record": RECORD_HEAD.pack(4, bytes(32)) + b"abcd",
}


@pytest.mark.parametrize("name", CRAFTED)
def test_what_is_no_checkpoint_is_refused_and_left(tmp_path: Path, name: str) -> None:
    (tmp_path / "x").write_bytes(CRAFTED[name])
    with pytest.raises(MedsynthError, match="not a checkpoint of this version.*`force`"):
        Checkpoint(tmp_path / "x", FACTS, resume=True)
    assert (tmp_path / "x").read_bytes() == CRAFTED[name]


@pytest.mark.parametrize("metadata", [{"label": "h", "names": "3"}, {"label": "h"}, {"label": "h", "names": "{"}])
def test_a_crafted_release_is_refused(tmp_path: Path, metadata: dict[str, str]) -> None:
    Checkpoint(tmp_path / "x", FACTS, resume=False).store("h", [], [])
    with (tmp_path / "x").open("ab") as file:
        file.write(record(header(metadata)))
    with pytest.raises(MedsynthError, match="not a checkpoint of this version"):
        Checkpoint(tmp_path / "x", FACTS, resume=True)


def test_a_folder_is_no_checkpoint_to_resume(tmp_path: Path) -> None:
    with pytest.raises(MedsynthError, match="cannot be read"):
        Checkpoint(tmp_path, FACTS, resume=True)


def test_another_fits_records_are_refused(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "x", FACTS, resume=False).store("h", [], [])
    with pytest.raises(UsageError, match="another fit"):
        Checkpoint(tmp_path / "x", {**FACTS, "table": "other"}, resume=True)
    checkpoint = Checkpoint(tmp_path / "x", FACTS, resume=False)
    checkpoint.store("h", [np.zeros(2)], [])
    with pytest.raises(MedsynthError, match="plan"):
        Checkpoint(tmp_path / "x", FACTS, resume=True).replay("g")


def test_a_refusal_names_what_differs_and_no_value(tmp_path: Path) -> None:
    facts = {"target": "secret word", "schema": {"a": 1, "b": 2}, "rows": 5, "plan": [1], "split_number": None}
    Checkpoint(tmp_path / "x", facts, resume=False).store("h", [], [])
    swapped = {"b": 2, "a": 1}  # the order of columns counts
    for change, named in (
        ({"target": "other"}, "`target` differs."),
        ({"schema": swapped}, "`schema` differs."),
        ({"rows": 6, "plan": [2]}, "`rows` differs."),
        ({"split_number": "1"}, "`holdout` differs."),
        ({"rows": 6, "target": "other"}, "`target` and `rows` differ."),
        ({"new": 1}, "`new` differs."),
        ({"plan": [2]}, "the version of medsynth differs."),
    ):
        content = (tmp_path / "x").read_bytes()
        with pytest.raises(UsageError, match=f"another fit: {re.escape(named)}") as refused:
            Checkpoint(tmp_path / "x", {**facts, **change}, resume=True)
        assert "secret" not in str(refused.value) and (tmp_path / "x").read_bytes() == content


def test_attempts_are_told_apart_and_are_no_records(tmp_path: Path) -> None:
    """Copies share the attempts from before they were made, and none after."""
    path, other = tmp_path / "x", tmp_path / "y"
    first = Checkpoint(path, FACTS, resume=False)
    assert not first.resumed and len(first.attempts) == 1
    first.store("h", [np.zeros(2)], [])
    shutil.copy(path, other)
    ids = {name: Checkpoint(name, FACTS, resume=True).resume() for name in (path, other)}
    for name, attempts in ids.items():
        again = Checkpoint(name, FACTS, resume=True)
        assert again.resumed and again.remaining == 1 and again.labels == ["h"] and again.attempts == attempts
    assert ids[path][0] == ids[other][0] == first.attempts[0] and ids[path][1] != ids[other][1]


def test_arrays_are_stored_by_name_where_they_have_one(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path / "x", FACTS, resume=False)
    first.store("h", {"b": np.ones(2), "a": np.zeros(3), "0": np.full(1, 7.0)}, [])
    record = Checkpoint(tmp_path / "x", FACTS, resume=True).replay("h")
    assert record is not None and isinstance(record[0], dict)
    assert {name: array.tolist() for name, array in record[0].items()} == {"a": [0] * 3, "b": [1] * 2, "0": [7]}


def test_one_user_at_a_time(tmp_path: Path) -> None:
    with sole_user(tmp_path / "x"):
        with pytest.raises(MedsynthError, match="still running"), sole_user(tmp_path / "x"):
            pytest.fail("two users")
        with sole_user(tmp_path / "y"):
            pass
    with sole_user(tmp_path / "x"):
        pass
    assert not list(tmp_path.iterdir())
    with pytest.raises(MedsynthError, match="cannot be written"), sole_user(tmp_path / "none" / "x"):
        pytest.fail("no such folder")


def test_a_file_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(MedsynthError, match="cannot be written"):
        Checkpoint(tmp_path / "folder", FACTS, resume=False)


def test_without_a_file_there_is_nothing_to_resume(tmp_path: Path) -> None:
    assert Checkpoint(tmp_path / "x", FACTS, resume=True).remaining == 0 and not (tmp_path / "x").exists()


def test_a_record_that_was_changed_is_used_by_nobody(tmp_path: Path) -> None:
    """As long as it was, but not what was written: neither it nor what follows is taken for a release."""
    path = tmp_path / "x"
    checkpoint = Checkpoint(path, FACTS, resume=False)
    checkpoint.store("h", [np.full(5, 1.0)], [])
    whole = path.stat().st_size
    checkpoint.store("h", [np.full(5, 2.0)], [])
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    again = Checkpoint(path, FACTS, resume=True)
    assert again.remaining == 1 and path.stat().st_size == whole


def test_a_record_is_on_the_disk_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint(tmp_path / "x", FACTS, resume=False)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(MedsynthError, match="No space left"):
        checkpoint.store("h", [np.zeros(2)], [])
