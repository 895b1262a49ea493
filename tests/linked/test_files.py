"""Folders of tables: what is written, proven, held out, reported and refused, through the command line."""

from __future__ import annotations

import json
import re
import shutil
import stat
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.errors import OutputExists, TableError, UsageError
from medsynth.fitting.holdout import HoldOut, hold_out_tables
from medsynth.fitting.source import bundled, find
from medsynth.io.atomic import refuse_existing
from medsynth.io.formats import USUAL
from medsynth.io.split import number_of
from medsynth.report.build import build
from medsynth.report.several_tables import linked_facts, read_tables, reports, target_of
from medsynth.sampling.draw import Draw
from medsynth.sampling.provenance import PARQUET, drawn_by, write_sample
from medsynth.schema.linked import LinkedTables

Frames = dict[str, pd.DataFrame]
run = CliRunner()


@pytest.fixture
def saved(model: medsynth.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model as a file in an empty folder, which becomes the current one."""
    monkeypatch.chdir(tmp_path)
    return model.save(tmp_path / "ward.medsynth")


def invoked(*words: str, code: int = 0) -> dict[str, Any]:
    found = run.invoke(app, [*words, "--json"])
    assert found.exit_code == code, found.output
    content: dict[str, Any] = json.loads(found.stdout if code == 0 else found.stderr.splitlines()[-1])
    return content


@pytest.mark.nightly_for("parquet")
@pytest.mark.matrix
@pytest.mark.parametrize("parquet", [False, True], ids=["csv", "parquet"])
def test_folders_are_drawn_again_to_the_last_cell(model: medsynth.Model, saved: Path, parquet: bool) -> None:
    folder = saved.parent / "out"
    write_sample(model, saved, folder, Draw(patients=60, seed=3), ending=PARQUET if parquet else ".csv")
    assert drawn_by(model, folder)
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"{n}.{'parquet' if parquet else 'csv'}" for n in ("consent", "patients", "stays", "tests")]
    file = folder / f"stays.{'parquet' if parquet else 'csv'}"
    rows = pd.read_parquet(file) if parquet else pd.read_csv(file, dtype=str)
    rows.loc[0, "ward"] = "lung" if rows.loc[0, "ward"] != "lung" else "heart"
    rows.to_parquet(file, index=False) if parquet else rows.to_csv(file, index=False)
    assert not drawn_by(model, folder)
    file.unlink()
    assert not drawn_by(model, folder) and not drawn_by(model, saved.parent / "nothing")


@pytest.mark.nightly
def test_nothing_is_overwritten_unasked(model: medsynth.Model, saved: Path) -> None:
    folder = saved.parent / "out"
    write_sample(model, saved, folder, Draw(patients=20, seed=3))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(OutputExists):
        write_sample(model, saved, folder, Draw(patients=20, seed=4))
    with pytest.raises(OutputExists, match="another form"):
        write_sample(model, saved, folder, Draw(patients=20, seed=4), ending=PARQUET)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    write_sample(model, saved, folder, Draw(patients=20, seed=4), force=True)
    assert drawn_by(model, folder) and {path: path.read_bytes() for path in folder.iterdir()} != before
    (saved.parent / "file").write_text("x")
    for place, words in ((saved.parent / "file", "is a file"), (saved.parent / "no" / "out", "no folder")):
        with pytest.raises(medsynth.MedsynthError, match=words):
            write_sample(model, saved, place, Draw(patients=20, seed=4), force=True)
    assert not [path for path in saved.parent.iterdir() if path.name.startswith(".medsynth")]


def test_a_draw_that_fails_leaves_no_folder(model: medsynth.Model, saved: Path) -> None:
    """A new folder goes, and a folder with other files keeps them."""
    folder, impossible = saved.parent / "out", Draw(patients=5, seed=1, where="nothing=1")
    with pytest.raises(UsageError):
        write_sample(model, saved, folder, impossible)
    assert not folder.exists()
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(UsageError):
        write_sample(model, saved, folder, impossible)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_patient_is_held_out_from_all_tables(ward: Path, frames: Frames, tmp_path: Path) -> None:
    files = HoldOut.of(ward, tmp_path / "ward.medsynth", tmp_path / "checkpoint", list(find(ward).tables.tables))
    private, number = hold_out_tables(find(ward), files, 0.4, USUAL, resume=False)
    assert private.rows == 180  # expected, whatever the coins left
    parts = [{path.stem: pd.read_csv(path, dtype=str) for path in folder.iterdir()} for folder in files.waiting]
    for name, frame in frames.items():
        whose = [set(part[name]["patient"]) for part in parts]
        assert not whose[0] & set(parts[1]["patients"]["patient"]) and not whose[1] & set(
            parts[0]["patients"]["patient"]
        )
        assert sorted(pd.concat([part[name] for part in parts])["patient"]) == sorted(frame["patient"])
    assert private.cells["stays"].rows == len(parts[0]["stays"])
    again, same = hold_out_tables(find(ward), files, 0.4, USUAL, resume=True)
    assert same == number and again.facts() == private.facts() and again.rows == 180
    files.publish()
    assert number_of(files.heldout) == number
    assert not any(path.name.startswith("checkpoint") for path in tmp_path.iterdir())
    for path in (files.train / "stays.csv", files.heldout / "patients.csv"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not any(folder.exists() for folder in files.waiting)
    with pytest.raises(OutputExists):
        refuse_existing(files.moves[0][1], force=False)
    with pytest.raises(TableError, match="fewer than two patients"):
        hold_out_tables(find(ward), files, 1 - 1e-12, USUAL, resume=False)


def test_a_split_that_cannot_be_written_waits(ward: Path, tmp_path: Path) -> None:
    files = HoldOut.of(ward, tmp_path / "ward.medsynth", tmp_path / "checkpoint", list(find(ward).tables.tables))
    hold_out_tables(find(ward), files, 0.4, USUAL, resume=False)
    files.train.write_text("in the way")
    with pytest.raises(medsynth.MedsynthError, match=r"The model is saved; its rows are in .*checkpoint\.train"):
        files.publish()
    names = {f"{name}.csv" for name in find(ward).tables.tables}
    assert all({file.name for file in folder.iterdir()} == names for folder in files.waiting)


def test_rows_that_do_not_belong_are_counted(tables: LinkedTables, frames: Frames) -> None:
    """Against tables that were spoilt by hand, one mistake of each kind."""
    good = {n: f.astype(str).replace({"NaT": "", "nan": ""}).reset_index(drop=True) for n, f in frames.items()}
    clean = linked_facts(tables, good, good, {"stays": "x"})
    for line in clean.tables:
        assert line.orphans == line.too_early == 0 and line.real_rows_a_patient == line.rows_a_patient
        most = tables.tables[line.table].max_rows
        assert line.beyond == (good[line.table].groupby("patient").size() - most).clip(lower=0).sum()
    assert clean.tables[1].page == "x"
    bad = {name: frame.copy() for name, frame in good.items()}
    bad["consent"].loc[3, "patient"] = "stranger"
    bad["tests"].loc[0, "stay"] = "nowhere"
    other = bad["stays"]["patient"] != bad["tests"].loc[1, "patient"]
    bad["tests"].loc[1, "stay"] = bad["stays"].loc[other, "stay"].iloc[0]
    bad["tests"].loc[2, "taken"] = "1990-01-01"
    bad["tests"].loc[1, "taken"] = "2024-12-31"
    bad["patients"] = pd.concat([bad["patients"], bad["patients"].head(1)])
    found = {line.table: line for line in linked_facts(tables, bad, None, {}).tables}
    assert (found["consent"].orphans, found["tests"].orphans, found["tests"].too_early) == (1, 2, 1)
    assert found["patients"].beyond == 1 and found["stays"].orphans == 0


@pytest.mark.nightly
def test_what_waits_is_gone_after_an_error_and_kept_for_a_fit_that_goes_on(
    ward: Path, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real rows are left nowhere by a fit that failed, though an older model stands; by one that was interrupted they
    wait for `--resume`, which ends with the same split.
    """
    from medsynth.fitting import pipeline, training

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("medsynth.patients.training.SIMULATED", 500)
    words = ["fit", "ward", "--epsilon", "9", "--holdout", "0.5", "--method", "independent", "--rows", "300"]
    (tmp_path / "ward.medsynth").write_text("older")
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "open_releases", lambda *args: (_ for _ in ()).throw(TableError("failed")))
        assert invoked(*words, "--force", code=1)["error"] == "failed"
    assert not list(tmp_path.glob("*checkpoint*")) and (tmp_path / "ward.medsynth").read_text() == "older"
    with monkeypatch.context() as patch:
        patch.setattr(training, "train_later", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        found = run.invoke(app, [*words, "--force"])
    assert found.exit_code == 130 and "add --resume to the same command" in found.stderr
    waiting = tmp_path / "ward.medsynth-checkpoint.train" / "stays.csv"
    before = waiting.read_bytes()
    invoked(*words, "--force", "--resume")
    assert (tmp_path / "ward.train" / "stays.csv").read_bytes() == before and not list(tmp_path.glob("*checkpoint*"))


def test_a_draft_of_a_folder_passes_once_its_todos_are_filled(ward: Path, frames: Frames) -> None:
    (ward / "ward.tables.yaml").unlink()
    made = Path(str(invoked("schema", "draft", str(ward))["tables"]))
    text = made.read_text()
    assert "key: patient\n" in text and text.index("  patients:") < text.index("  consent:") < text.index("  stays:")
    assert not any(cell in text for cell in ("K1", "kidney", "2005", "178"))
    assert invoked("plan", str(ward), "--epsilon", "1")["rows"] == 300  # what is TODO is learned
    filled = re.sub(r"  #.*", "", text)
    for found, by in (
        (r"(order|max_rows): TODO", ""), (r"(born|admitted|discharged|taken|done): TODO", r"\1: {kind: date}"),
        (r"value: TODO", "value: {kind: continuous, bounds: [0, 300], decimals: 1}"),
        (r"ward: TODO", "ward: {kind: categorical, levels: [heart, kidney, lung]}"),
    ):  # fmt: skip
        filled = re.sub(found, by, filled)
    made.write_text(filled)
    assert invoked("plan", str(ward), "--epsilon", "1")["rows"] == 300
    invoked("schema", "draft", str(ward), code=1)
    invoked("schema", "draft", str(ward.parent), code=1)
    shown = run.invoke(app, ["schema", "show", "omop"]).stdout
    assert LinkedTables.from_yaml(shown) == bundled("omop") and "omop" in str(invoked("schema", "list")["schemas"])


@pytest.mark.nightly
def test_pages_of_several_tables(model: medsynth.Model, drawn: Frames, frames: Frames, tables: LinkedTables) -> None:
    """A page on patients, with every table in one line, and a page for each order; shareable without a real row."""
    texts = {n: f.head(400).astype(str).replace({"NaT": "", "nan": "", "None": ""}) for n, f in drawn.items()}
    shared = reports(model, texts, make=partial(build, drawn_by_model=True), page_of="{}.html".format)
    assert list(shared) == ["", "stays", "tests"] and all(report.shareable for report in shared.values())
    record: Any = shared[""].sections["tables"]
    assert [line.table for line in record.tables] == list(tables.tables)
    assert record.tables[1].page == "stays.html"
    assert record.tables[1].real_rows_a_patient is None
    for report in shared.values():
        assert report.sections["claim"] is not None
    assert "tables" not in shared["stays"].sections or shared["stays"].sections["tables"] is None
    assert target_of(tables, "stays") == "died" and target_of(tables, "tests") == "value"


@pytest.mark.nightly
@pytest.mark.usefixtures("few_trees")
@pytest.mark.slow
def test_from_the_command_line(ward: Path, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """fit, sample, report, plan, ledger: as a person would, in one folder."""
    monkeypatch.chdir(tmp_path)
    plan = invoked("plan", "ward", "--epsilon", "3.7", "--method", "independent")
    assert plan["rows"] == 300 and plan["epsilon"] <= 3.7
    made = invoked("fit", "ward", "--epsilon", "9", "--holdout", "0.5", "--method", "independent", "--rows", "300")
    assert made["model"] == "ward.medsynth" and made["rows"] == 150 and made["claims"]
    assert (ward / "ward.medsynth-ledger").exists() and not list(tmp_path.glob("*checkpoint*"))
    invoked("fit", "ward", "--epsilon", "1", "--method", "independent", code=1)  # the model is there
    drawn = invoked("sample", "--patients", "150", "--seed", "5")
    assert drawn["patients"] == 150 and len(drawn["files"]) == 4
    invoked("sample", "-n", "150", code=1)
    refused = ("--balance", "--replicates 3", "-o ward.heldout", "--where-any x=1", "-n 5 --patients 5")
    for words in (["sample", *options.split()] for options in refused):
        assert "Error" not in str(invoked(*words, code=2).get("claims"))
    again = ("fit", "ward", "--epsilon", "1", "-o", "other.medsynth")
    for option in ("--unit", "--target", "--schema"):
        assert "is for one table" in str(invoked(*again, option, "x", code=2)["error"])
    shared = invoked("report", "--output", "open.html")
    assert [page["report"] for page in shared["pages"]] == [
        "open.html", "open.stays.report.html", "open.tests.report.html"]  # fmt: skip
    text = (tmp_path / "open.html").read_text()
    assert "Several tables" in text and 'href="open.stays.report.html"' in text
    held = pd.read_csv(tmp_path / "ward.heldout" / "patients.csv")
    record = json.loads((tmp_path / "open.json").read_text())["sections"]["tables"]
    assert record["patients"] == 150 and record["tables"][0]["real_rows_a_patient"] == 1.0 and len(held) > 100
    attempts = json.loads((tmp_path / "open.json").read_text())["sections"]["tuning"]
    assert attempts["fits_on_this_table"] == 1 and attempts["counted"]
    verdicts = {v["key"]: v["outcome"] for v in shared["pages"][0]["verdicts"]}
    assert verdicts["rows_apart"] == verdicts["rules_broken"] == "within"
    assert "There is no file absent.csv" in str(invoked("report", "--real", "absent.csv", code=1)["error"])
    shutil.rmtree(tmp_path / "ward.heldout")
    invoked("report", "--output", "seen.html")
    seen = json.loads((tmp_path / "seen.json").read_text())
    outcomes = {line["key"]: line["outcome"] for line in seen["sections"]["verdicts"]["lines"]}
    assert seen["fitted_rows"] and outcomes["rows_apart"] == "within" and outcomes["two_way_gap"] != "within"


@pytest.mark.nightly
def test_an_internal_report_compares_both_sides(
    model: medsynth.Model, drawn: Frames, frames: Frames, tmp_path: Path
) -> None:
    from .conftest import simulated, write

    held = {n: f.replace({f"K{k}": f"H{k}" for k in range(300)}) for n, f in simulated(150, 9).items()}
    synthetic = {n: f.astype(str).replace({"NaT": "", "nan": "", "None": ""}) for n, f in drawn.items()}
    real = read_tables(model.tables or pytest.fail(), write(held, tmp_path / "held"))
    pages = reports(model, synthetic, real, make=partial(build, drawn_by_model=True))
    record: Any = pages[""].sections["tables"]
    assert record.tables[1].real_rows_a_patient > 1 > record.tables[1].real_without > 0
    assert pages["stays"].sections["over_time"] is not None
    (tmp_path / "held" / "stays.csv").write_text("patient\nH1\nH2\n")
    with pytest.raises(TableError, match="has no column 'stay'"):
        read_tables(model.tables or pytest.fail(), tmp_path / "held")


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["--where-any", "ward=heart"], "such as stays.ward=heart"),
        (["--balance"], "Draw each class by itself with --where"),
        (["--replicates", "5"], "one row per patient.*fit it with --inference"),
    ],
)
def test_options_of_one_table_say_what_to_do_instead(
    words: list[str], cure: str, model: medsynth.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model.save("ward.medsynth")
    done = CliRunner().invoke(app, ["sample", "ward.medsynth", "-n", "20", *words])
    assert done.exit_code == 2 and re.search(cure, done.stderr.replace("\n", " ")), done.stderr
    in_python = words[0].removeprefix("--").replace("-", "_")
    with pytest.raises(UsageError, match=cure.replace("--where", "`where`").replace("--inference", "`inference`")):
        medsynth.sample_tables(model, 20, **{in_python: words[-1]})  # type: ignore[arg-type]
