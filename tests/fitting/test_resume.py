"""A fit that is killed can be resumed: its noisy answers are used again, none is drawn twice."""

import random
import runpy
import stat
from pathlib import Path

import numpy as np
import pytest
from medsynth_cli.app import app
from typer.testing import CliRunner

import medsynth
from medsynth.errors import MedsynthError, UsageError
from medsynth.methods.registry import CLAIMING
from medsynth.privacy import shards, vault
from medsynth.privacy.checkpoint import Checkpoint

FACTS = {"plan": {"h": [1.5, 2]}, "table": "abc"}


def test_answers_come_back_bit_for_bit_and_in_order(tmp_path):
    path = tmp_path / "x.medsynth-checkpoint"
    first = Checkpoint(path, FACTS, resume=False)
    arrays = [np.random.default_rng(0).normal(size=(3, 4)), np.array(2.5)]
    first.keep("h", arrays)
    first.keep("g", [], "text")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Checkpoint(path, FACTS, resume=True)
    assert again.seed == first.seed and again.answers == 2
    found, _ = again.recall("h")
    assert all((a == b).all() and a.shape == b.shape for a, b in zip(found, arrays, strict=True))
    assert again.recall("g") == ([], "text") and again.recall("h") is None


def test_any_half_written_tail_is_cut_off(tmp_path):
    path = tmp_path / "x"
    journal = Checkpoint(path, FACTS, resume=False)
    ends = []
    for k in range(4):
        journal.keep("h", [np.full(5, float(k))])
        ends.append(path.stat().st_size)
    content = path.read_bytes()
    for length in range(0, len(content) + 1, 7):
        path.write_bytes(content[:length])
        again = Checkpoint(path, FACTS, resume=True)
        assert again.answers == sum(end <= length for end in ends)
        if length >= ends[0]:
            assert path.stat().st_size == max(end for end in ends if end <= length)


def test_another_fits_answers_are_refused(tmp_path):
    Checkpoint(tmp_path / "x", FACTS, resume=False).keep("h", [])
    with pytest.raises(UsageError, match="another fit"):
        Checkpoint(tmp_path / "x", {**FACTS, "table": "other"}, resume=True)
    journal = Checkpoint(tmp_path / "x", FACTS, resume=False)
    journal.keep("h", [np.zeros(2)])
    with pytest.raises(MedsynthError, match="plan"):
        Checkpoint(tmp_path / "x", FACTS, resume=True).recall("g")


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("method", CLAIMING)
@pytest.mark.parametrize("declared", [True, False], ids=["schema", "learned"])
def test_a_resumed_fit_draws_no_answer_twice_and_ends_in_the_same_model(
    method, declared, quick, tmp_path, cohort, clinic, monkeypatch
):
    """Killed after every second answer until it is done. All that was drawn is what one whole fit draws."""
    path, real, drawn = tmp_path / "c", vault.noised, []
    options = {"epsilon": 40, "schema": clinic if declared else None, "method": method, "rows": 300, "checkpoint": path}
    keep = Checkpoint.keep

    def keeping(self, label, arrays, text=""):
        keep(self, label, arrays, text)
        drawn.append([a.copy() for a in arrays])
        if len(drawn) % 2 == 0 and len(drawn) < 13:
            raise Killed

    monkeypatch.setattr(Checkpoint, "keep", keeping)
    for turn in range(40):
        try:
            model = medsynth.fit(cohort, resume=turn > 0, **options)
            break
        except Killed:
            continue
    assert turn > 0 and model.ledger.complete and model.epsilon <= 40
    answers = sum(e.count for e in model.ledger.entries if not e.label.startswith("schema"))
    assert len(drawn) == answers + (not declared)
    # The same answers again, from the file alone, make the same model: nothing else random went into it.
    monkeypatch.setattr(Checkpoint, "keep", keep)
    for room in (vault, shards):
        monkeypatch.setattr(room, "noised", lambda *args: pytest.fail("an answer was drawn twice"))
    same = medsynth.fit(cohort, resume=True, **options)
    assert real is not vault.noised
    assert all((same.tensors[name] == tensor).all() for name, tensor in model.tensors.items())


def test_answers_without_noise_are_never_taken_for_private_ones(quick, tmp_path, cohort, clinic):
    """A fit with --no-dp follows the plan of some epsilon: its file must not serve a fit that makes a claim."""
    from medsynth.fitting.pipeline import NO_DP_BUDGET

    options = {"schema": clinic, "rows": 300, "checkpoint": tmp_path / "c", "method": "independent"}
    medsynth.fit(cohort, no_dp=True, **options)
    with pytest.raises(UsageError, match="another fit"):
        medsynth.fit(cohort, epsilon=NO_DP_BUDGET, resume=True, **options)


def test_changed_tables_and_settings_are_not_resumed(quick, patients, cohort):
    run = CliRunner().invoke
    patients.with_suffix(".medsynth-checkpoint").write_bytes(b"")
    medsynth.fit("patients.csv", epsilon=4, checkpoint=patients.with_suffix(".medsynth-checkpoint"))
    for words in (["--epsilon", "3"], ["--epsilon", "4", "--method", "independent"], ["--epsilon", "4", "--seed", "1"]):
        done = run(app, ["fit", "patients.csv", *words, "--resume"])
        assert done.exit_code == 2 and "another fit" in done.stderr
    cohort.iloc[:299].to_csv("patients.csv", index=False)
    done = run(app, ["fit", "patients.csv", "--epsilon", "4", "--rows", "300", "--resume"])
    assert done.exit_code == 2 and "another fit" in done.stderr
    assert run(app, ["fit", "patients.csv", "--epsilon", "4"]).exit_code == 0  # without --resume it begins anew
    assert not patients.with_suffix(".medsynth-checkpoint").exists()


def test_killed_at_random_moments_and_resumed(tmp_path):
    """kill -9, five times at random states of one fit's checkpoint; then it ends in a valid model, within its plan."""
    kills = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "kills.py"))
    whole = kills["prepared"](tmp_path, lots=50)
    assert kills["chain"](tmp_path, whole, random.Random(4), 5, lots=50)
