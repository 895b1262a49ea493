"""The machine of a fit: its device is what was asked for, or an error; its threads are given back."""

import os
import sys

import pytest
import torch

from medsynth.cores import one_thread
from medsynth.errors import MedsynthError
from medsynth.fitting.planning import choose_device
from medsynth.fitting.training import versions


@pytest.mark.parametrize(("there", "asked", "given"), [
    (True, "auto", "cuda"), (True, "cuda", "cuda"), (True, "cpu", "cpu"), (False, "auto", "cpu"), (False, "cpu", "cpu"),
])  # fmt: skip
def test_the_device(monkeypatch: pytest.MonkeyPatch, there: bool, asked: str, given: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert choose_device(asked) == given


def test_a_device_that_is_not_there_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MedsynthError, match='no CUDA device here. Use `device="cpu"`'):
        choose_device("cuda")


def test_threads_are_given_back_after_an_error() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(ZeroDivisionError), one_thread():
            assert torch.get_num_threads() == 1
            raise ZeroDivisionError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_pytorch_that_is_imported_later_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with pytest.raises(ZeroDivisionError), one_thread():
        assert os.environ["OMP_NUM_THREADS"] == "1"
        raise ZeroDivisionError
    assert "OMP_NUM_THREADS" not in os.environ


def test_versions_are_those_installed() -> None:
    assert versions()["torch"] == torch.__version__ and set(versions()) == {
        "python", "medsynth", "torch", "opacus", "numpy",
    }  # fmt: skip
