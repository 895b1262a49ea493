"""The commands as a person types them, in process."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from commands import good, run
from medsynth_cli import demo
from medsynth_cli.main import app
from medsynth_sample_data import simulate

from medsynth.schema import Schema

pytestmark = pytest.mark.usefixtures("quick")
FIT = ["fit", "patients.csv", "--epsilon", "3.7", "--rows", "300"]


def test_the_straight_way(patients: Path, cohort: pd.DataFrame) -> None:
    good("fit", "patients.csv", "--epsilon", "3.7")
    good("sample", "-n", "1000")
    drawn = pd.read_csv("patients.synthetic.csv")
    assert list(drawn.columns) == list(cohort.columns) and len(drawn) == 1000
    assert drawn.dtypes.to_dict() == pd.read_csv("patients.csv").dtypes.to_dict()
    result = good("ledger", "--verify")
    assert "class-by-bin marginals" in result.stdout and "Verified" in result.stdout
    assert "histogram.age_years" in good("inspect").stdout


def test_fit_json_is_one_object_alone(patients: Path) -> None:
    result = good(*FIT, "--json")
    facts = json.loads(result.stdout)
    assert {"model", "method", "epsilon", "epsilon_asked", "delta", "rows", "device"} <= set(facts)
    assert 0.9 * 3.7 < facts["epsilon"] <= 3.7 and facts["rows"] == 300 and result.stderr == ""


def test_sampled_rows_obey_the_schema(fitted_patients: Path, clinic: Schema) -> None:
    from medsynth.io.reader import read
    from medsynth.schema.codec import encode

    good("sample", "--seed", "1")
    strict = {name: c.model_copy(update={"out_of_range": "error"}) for name, c in clinic.columns.items()}
    table = read("patients.synthetic.csv")
    encode(table, clinic.model_copy(update={"columns": strict}))
    assert len(table.cells) == 300


def test_nothing_is_overwritten_without_force(fitted_patients: Path) -> None:
    before = fitted_patients.with_name("patients.medsynth").read_bytes()
    result = run(*FIT)
    assert result.exit_code == 1 and "--force" in result.stderr
    assert (fitted_patients.parent / "patients.medsynth").read_bytes() == before
    good(*FIT, "--force")
    good("sample", "-n", "5")
    assert run("sample", "-n", "5").exit_code == 1


def test_sample_to_standard_output_repeats_with_a_seed(fitted_patients: Path) -> None:
    one, two = (good("sample", "-n", "7", "--output", "-", "--seed", "3").stdout for _ in range(2))
    assert one == two and len(one.splitlines()) == 8
    assert one != good("sample", "-n", "7", "--output", "-", "--seed", "4").stdout


@pytest.mark.statistical
def test_a_model_may_be_an_argument_as_in_ledger(fitted_patients: Path) -> None:
    name = next(Path().glob("*.medsynth")).name
    by_option = good("sample", "-n", "20", "--seed", "3", "--model", name, "--output", "-").stdout
    assert good("sample", name, "-n", "20", "--seed", "3", "--output", "-").stdout == by_option
    assert "Name the model once" in run("sample", name, "--model", name).stderr
    assert "Name the model once" in run("report", name, "--model", name).stderr


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (("--epsilon", "3,7"), "Write 3.7"),
        (("--epsilon", "1", "--holdout", "25%"), "0.25"),
        (("--epsilon", "1", "--delta", "1e-6x"), "1e-6"),
        (("--epsilon", "25 %"), "0.25"),
    ],
)
def test_a_number_that_is_written_otherwise_is_refused_with_the_cure(patients: Path, words: Any, cure: str) -> None:
    result = run("fit", "patients.csv", *words)
    assert result.exit_code == 2 and cure in result.stderr


def test_holdout_splits_by_coins_and_marks_private(patients: Path, cohort: pd.DataFrame) -> None:
    """Held out are 75 of 300 rows, give or take 7.5: bounds of 4.6 and 5.3 deviations, false-alarm rate 3e-6."""
    result = good(*FIT, "--holdout", "0.25")
    train, heldout = pd.read_csv("patients.train.csv"), pd.read_csv("patients.heldout.csv")
    assert len(train) + len(heldout) == 300 and 40 < len(heldout) < 115
    both = pd.concat([train, heldout]).astype(str).sort_values(list(cohort.columns)).reset_index(drop=True)
    whole = pd.read_csv("patients.csv").astype(str).sort_values(list(cohort.columns)).reset_index(drop=True)
    pd.testing.assert_frame_equal(both, whole)
    assert "PRIVATE" in result.stderr
    for part in ("train", "heldout"):
        assert stat.S_IMODE(os.stat(f"patients.{part}.csv").st_mode) == 0o600
    assert json.loads(good("inspect", "--json").stdout)["rows"] == 225  # declared, not drawn


def test_an_interrupt_leaves_nothing_and_is_reported(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medsynth.mixture.method import LatentMixture

    def stop(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LatentMixture, "fit", stop)
    result = run(*FIT)
    assert result.exit_code == 130 and "No output was written" in result.stderr
    assert not (patients.parent / "patients.medsynth").exists()


# The child handles SIGINT even where this session was started with it ignored, as under nohup and some CI runners.
CHILD = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
{moment}
from medsynth_cli.main import main
sys.argv[0] = "medsynth"
main()
"""
# The signal is raised at a state of the child, not after some seconds.
MOMENTS = {
    "importing": """
class Importing:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Importing())
""",
    "planning": """
from medsynth.privacy.accounting import accountant
accountant.epsilon = lambda *args: signal.raise_signal(signal.SIGINT)
""",
    "training": "",  # the signal comes from outside, once the checkpoint grows
}


def until_the_checkpoint_grows(process: subprocess.Popen[str], path: Path) -> None:
    sizes = {0}
    while len(sizes) < 4:
        assert process.poll() is None, process.communicate()
        if path.exists():
            sizes.add(path.stat().st_size)
        time.sleep(0.005)


@pytest.mark.matrix
@pytest.mark.nightly_for("training")
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_real_interrupt_leaves_what_was_there(
    patients: Path, cohort: pd.DataFrame, clinic: Schema, moment: str
) -> None:
    """While importing, planning or training: what was there before stays, and no part of a file is left."""
    before = {"patients.csv", "patients.schema.yaml", "patients.medsynth"}
    (patients.parent / "patients.medsynth").write_bytes(b"before")
    plain = {n: c for n, c in clinic.columns.items() if n == clinic.target or c.kind in ("binary", "count")}
    plain = {n: c for n, c in plain.items() if n == clinic.target or not c.missing}
    cohort[list(plain)].to_csv("patients.csv", index=False)
    (patients.parent / "patients.schema.yaml").write_text(
        clinic.model_copy(update={"columns": plain, "rules": ()}).to_yaml()
    )
    words = ["fit", "patients.csv", "--epsilon", "3.7", "--force", "--preset", "thyroid-study"]
    script = CHILD.format(moment=MOMENTS[moment])
    process = subprocess.Popen([sys.executable, "-c", script, *words], stderr=subprocess.PIPE, text=True)
    if moment == "training":
        # The preset trains for some twenty seconds more: it cannot be done before the signal comes.
        until_the_checkpoint_grows(process, patients.with_suffix(".medsynth-checkpoint"))
        process.send_signal(signal.SIGINT)
    _, messages = process.communicate()
    assert process.returncode == 130 and "No output was written" in messages and "Traceback" not in messages
    kept = {f"patients.medsynth-{end}" for end in ("checkpoint", "ledger", "ledger.lock")}  # what was measured counts
    assert set(os.listdir()) == before | (kept if moment == "training" else set())
    assert ("add --resume to the same command" in messages) is (moment == "training")
    assert (patients.parent / "patients.medsynth").read_bytes() == b"before"


def test_a_plan_shows_what_learning_a_schema_measures(patients: Path) -> None:
    facts = json.loads(good("plan", "patients.csv", "--epsilon", "3.7", "--json").stdout)
    labels = [a["label"] for a in facts["measurements"]]
    assert facts["rows"] == 300 and not any(label.startswith("schema:") for label in labels)
    os.remove("patients.schema.yaml")
    learned = json.loads(good("plan", "patients.csv", "--epsilon", "3.7", "--json").stdout)["measurements"]
    assert [a["label"] for a in learned if a["label"].startswith("schema:")][0] == "schema: kinds of columns"
    assert {a["label"] for a in learned} > set(labels)


def test_plan_spends_nothing_and_shows_the_budget() -> None:
    facts = json.loads(good("plan", "3772", "--epsilon", "3.7", "--json").stdout)
    assert facts["epsilon"] <= 3.7 and abs(sum(a["share"] for a in facts["measurements"]) - 1) < 1e-9
    assert "one-way marginals" in good("plan", "3772", "--epsilon", "3.7").stdout


def test_schema_commands(patients: Path) -> None:
    assert "thyroid" in good("schema", "list").stdout
    assert "tsh" in good("schema", "show", "thyroid").stdout
    assert "meets" in good("schema", "check", "patients.csv").stdout
    os.rename("patients.csv", "other.csv")
    good("schema", "draft", "other.csv")
    text = (patients.parent / "other.schema.yaml").read_text()
    assert "TODO" in text and "antenatal" not in text
    assert "A fit learns this" in good("schema", "check", "other.csv").stdout


def test_a_table_with_a_bundled_header_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medsynth.schema import bundled

    monkeypatch.chdir(tmp_path)
    names = bundled()["thyroid"].names
    row = dict.fromkeys(names, "0") | {"class": "1"}
    pd.DataFrame([row, row | {"class": "2"}, row | {"class": "3"}] * 20).to_csv("uci.csv", index=False)
    result = good("fit", "uci.csv", "--epsilon", "3.7", "--verbose")
    assert "thyroid" in result.stderr and "mIU/l" in result.stderr and "[0" in result.stderr


@pytest.mark.nightly
@pytest.mark.usefixtures("few_trees")
@pytest.mark.slow
def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of fewer patients and rows than a person gets: `make release-check` simulates and samples them all."""
    fewer = {name: (rows // 5, seed) for name, (rows, seed) in simulate.COMMITTED.items()}
    monkeypatch.setattr(simulate, "COMMITTED", fewer)
    monkeypatch.setattr(demo, "SAMPLED_ROWS", 1_000)
    monkeypatch.chdir(tmp_path)
    result = good("demo")
    assert "1,000" in result.stdout
    assert len(pd.read_csv("medsynth-demo/clinic.synthetic.csv")) == 1_000
    assert "Simulated thyroid clinic" in (tmp_path / "medsynth-demo" / "clinic.report.html").read_text()
    assert run("demo").exit_code == 1


@pytest.mark.nightly
def test_microbatches_and_presets_are_charged(patients: Path) -> None:
    good(*FIT, "--method", "dp-cgan", "--microbatches", "8")
    rows = json.loads(good("ledger", "--json").stdout)["events"]
    assert [row["sensitivity"] for row in rows if row["label"] == "critic gradient sum"] == [2.0]


def test_verify_refuses_a_claim_that_is_too_small(fitted_patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medsynth.privacy.accounting import accountant

    monkeypatch.setattr(accountant, "cross_check", lambda events, delta: 3.9)
    result = run("ledger", "--verify")
    assert result.exit_code == 1 and "The claim is wrong" in result.stderr


def test_verify_refuses_a_model_without_a_claim(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medsynth import rng

    monkeypatch.setattr(rng, "system_entropy", lambda: rng.SeededEntropy(1))
    good(*FIT)
    result = run("ledger", "--verify")
    assert result.exit_code == 1 and "no privacy claim" in result.stderr


def test_neighbours_print_the_same_bytes(patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under fixed noise, tables that differ in one row leave the same output and ledger.

    Which pairs are the strongest, and in how many bins, follows from noisy counts: so do the sensitivity of their
    measurement, what is expected of the columns and, a little, the size of the model.
    """
    from medsynth import rng

    monkeypatch.setattr(rng, "system_entropy", lambda: rng.SeededEntropy(11))
    frame, outputs, sizes = pd.read_csv("patients.csv"), [], []
    extreme: dict[str, Any] = {"age_years": 101, "tt4_nmol_l": 799, "diagnosis": "overt"}
    for change in (False, True):
        if change:
            for name, value in extreme.items():
                frame.loc[7, name] = value
        frame.to_csv("patients.csv", index=False)
        Path("patients.medsynth-ledger").unlink(missing_ok=True)  # it says how many fits there were
        results = [good(*FIT, "--seed", "1", "--force"), good(*FIT, "--seed", "1", "--force", "--json")]
        lines = [line for line in results[0].stdout.splitlines() if not line.startswith("With the noise")]
        facts = {key: fact for key, fact in json.loads(results[1].stdout).items() if key != "quality"}
        ledger = json.loads(good("ledger", "--json").stdout)
        (last,) = [entry for entry in ledger["events"] if entry["label"] == "strongest pairs of columns"]
        assert last.pop("sensitivity") == pytest.approx(6.0, rel=0.1)
        sizes.append((patients.parent / "patients.medsynth").stat().st_size)
        outputs.append([lines, facts, *(a.stderr for a in results), ledger])
    assert outputs[0] == outputs[1] and abs(sizes[0] - sizes[1]) < 0.01 * sizes[0]


def commands(group: Any = None, words: tuple[str, ...] = ()) -> Iterator[list[str]]:
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        yield from commands(command, (*words, name)) if hasattr(command, "commands") else [[*words, name]]


@pytest.mark.parametrize("command", [[], ["schema"], *commands()], ids=" ".join)
def test_help_teaches(command: list[str]) -> None:
    text = good(*command, "--help").stdout
    assert "schema" in text if command == ["schema"] else "medsynth" in text
    shows = command == ["app"]  # results on a page
    assert command in ([], ["schema"]) or ("Example" in text and ("--json" in text or shows))


def test_help_is_quick_and_python_dash_m_works() -> None:
    """No module that takes seconds to import is imported, as the list of all imported ones says."""
    words = [sys.executable, "-X", "importtime", "-m", "medsynth_cli", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.stdout.startswith("medsynth ") and "typer" in imported and not imported & {"torch", "pandas"}
