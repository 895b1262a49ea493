"""The script for a borrowed GPU: without one it says so, and with one it names what failed or had no time."""

import time
from pathlib import Path

import pytest
import torch

from tests.benchmarks import gpu_check
from tests.benchmarks.gpu_check import Part


def test_without_a_gpu_every_part_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    gpu_check.main([])
    said = capsys.readouterr().out
    assert "no CUDA device here" in said and all(part.name in said for part in gpu_check.PARTS)


def alive(process: str) -> bool:
    """Whether a process is there and not only waiting to be buried."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are seen in /proc")
def test_each_part_is_done_failed_stopped_or_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A part that is stopped takes the processes that it started with it."""
    file = tmp_path / "process"
    parts = (
        Part("data", ["false"], needs_data=True), Part("good", ["true"]), Part("bad", ["false"]),
        Part("long", ["sh", "-c", f"sleep 600 & echo $! > {file}; wait"]), Part("last", ["true"]),
    )  # fmt: skip
    for name, value in {"PARTS": parts, "LEAST_SECONDS": 0.1, "public_folder": lambda: None}.items():
        monkeypatch.setattr(gpu_check, name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a card")
    with pytest.raises(SystemExit):
        gpu_check.main(["--minutes", "0.06"])
    lines = capsys.readouterr().out.splitlines()
    said = dict(line.strip("| ").split(" | ")[:2] for line in lines if line.startswith("| "))
    assert said["good"] == "done" and said["bad"] == "FAILED" and "MEDSYNTH_DATA" in said["data"]
    assert said["long"] == "NOT FINISHED: stopped" and said["last"] == "NOT RUN: no time left"
    end = time.monotonic() + 30
    while alive(file.read_text().strip()) and time.monotonic() < end:  # a killed process needs a moment to go
        time.sleep(0.05)
    assert not alive(file.read_text().strip())
