"""Files appear whole or not at all: what fails half way leaves what was there, and no part of a file."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

import pytest

from medsynth.errors import MedsynthError, OutputExists
from medsynth.io.atomic import atomic_write


def full(file: BinaryIO) -> None:
    """A disk that is full after some bytes."""
    file.write(b"half of it")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def interrupted(file: BinaryIO) -> None:
    file.write(b"half of it")
    raise KeyboardInterrupt


def test_what_was_there_stays_when_the_disk_is_full(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"before")
    with pytest.raises(MedsynthError, match="No space left.*unchanged"):
        atomic_write(path, full, force=True)
    assert path.read_bytes() == b"before" and os.listdir(tmp_path) == ["model"]


def test_an_interrupt_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        atomic_write(tmp_path / "model", interrupted)
    assert not os.listdir(tmp_path)


def test_a_folder_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(MedsynthError, match="another `output`"):
        atomic_write(tmp_path / "nowhere" / "model", lambda file: file.write(b"x"))


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
def test_private_files_are_their_owners_alone(tmp_path: Path, private: bool, mode: int) -> None:
    path = tmp_path / "rows.csv"
    atomic_write(path, lambda file: file.write(b"1"), private=private)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    with pytest.raises(OutputExists, match="`force`"):
        atomic_write(path, full)
    assert path.read_bytes() == b"1"
