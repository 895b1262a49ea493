"""The page: well formed, alone, readable, equal to its JSON twin; the shareable variant without a real row."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medsynth.report.build import build, save
from medsynth.report.document import Report
from medsynth.report.page.render import TEMPLATES, page

ROOT = Path(__file__).parents[2]
VOID = re.compile(r"<!DOCTYPE html>")


@pytest.fixture(scope="module")
def html(report: Any) -> Any:
    return page(report)


@pytest.fixture(scope="module")
def tree(html: Any) -> Any:
    return ElementTree.fromstring(VOID.sub("", html).replace("&#160;", " "))


def test_it_is_well_formed_and_stands_alone(html: Any, tree: Any) -> None:
    assert html.startswith("<!DOCTYPE html>") and tree.tag == "html" and tree.get("lang") == "en"
    for element in tree.iter():
        for name in ("src", "href", "action", "data"):
            assert (element.get(name) or "#").startswith("#"), (element.tag, element.get(name))
    assert "url(" not in html and "@import" not in html and "http" not in html.replace("http-equiv", "")
    assert len(html.encode()) < 3_000_000


def test_ids_are_unique_and_links_lead_somewhere(tree: Any) -> None:
    ids = [e.get("id") for e in tree.iter() if e.get("id")]
    assert len(ids) == len(set(ids))
    assert {e.get("href")[1:] for e in tree.iter("a")} <= set(ids)
    for element in tree.iter():
        for reference in (element.get("aria-labelledby") or "").split():
            assert reference in ids


def test_every_figure_has_words(tree: Any) -> None:
    drawings = list(tree.iter("svg"))
    assert len(drawings) > 25
    for drawing in drawings:
        assert drawing.get("role") == "img" and drawing.find("title").text and drawing.find("desc").text
    for table in tree.iter("table"):
        assert all(head.get("scope") in ("col", "rowgroup") for head in table.iter("th"))


def numbers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)


def test_every_number_shown_stands_in_the_twin(tree: Any, report: Any) -> None:
    known = set(numbers(json.loads(report.model_dump_json())))
    shown = list(tree.iter("data"))
    assert len(shown) > 200
    for element in shown:
        value, text = float(element.get("value")), "".join(element.itertext())
        assert value in known
        plain = text.replace(",", "").replace("\N{MINUS SIGN}", "-").replace("\N{NO-BREAK SPACE}%", "")
        if not plain.startswith(("below", "above")):
            read = float(plain) / (100 if "%" in text else 1)
            assert read == pytest.approx(value, abs=0.06, rel=0.06)


def test_the_twin_has_a_published_schema(report: Any) -> None:
    published = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    assert published == Report.model_json_schema(mode="serialization")
    assert Report.model_validate_json(report.model_dump_json()) == report


def luminance(colour: Any) -> Any:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Any, other: Any) -> Any:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast() -> None:
    """WCAG AA, by day and in the dark: 4.5 for words, 3 for strokes that carry meaning."""
    style = (TEMPLATES / "report.css").read_text()
    light, _, dark = style.partition("prefers-color-scheme: dark")
    day = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", light))
    night = day | dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", dark))
    assert night["paper"] != day["paper"]
    for colour in (day, night):
        for name in ("ink", "soft", "good", "bad", "none", "limits", "real"):
            assert contrast(colour[name], colour["paper"]) >= 4.5, name
        for name in ("banner", "open"):
            assert contrast("#ffffff", colour[name]) >= 4.5, name
        for name in ("real", "synthetic", "chance", "heat", "block"):
            assert contrast(colour[name], colour["paper"]) >= 3, name
    assert not re.findall(r"(?:fill|stroke|color|background): #(?!fff)", style)  # all others are named, and so checked


def test_every_bar_and_cell_names_itself(tree: Any, report: Any) -> None:
    """Under the pointer, and in a table: no bar is without its label."""
    hovers = [element.find("title").text for element in tree.iter("rect") if element.find("title") is not None]
    fidelity = report.sections["fidelity"]
    for column in fidelity.columns:
        for label in column.labels:
            assert any(text.startswith(f"{label}: real ") for text in hovers)
    rows = {tuple("".join(c.itertext()) for c in row.iter("td"))[:2] for row in tree.iter("tr")}
    assert {(c.name, label) for c in fidelity.columns for label in c.labels} <= rows
    assert any(text.startswith("age_years and ") for text in hovers)


def test_the_shareable_variant_has_read_no_real_row(model: Any, synthetic: Any, report: Any) -> None:
    """Whatever the real rows are, the variant is the same: it is made without them, and says nothing they would."""
    shared = build(synthetic=synthetic, real=None, drawn_by_model=True, model=model, title="clinic")
    content = json.loads(shared.model_dump_json())
    empty = {"utility", "importance", "inference", "fidelity", "quality", "over_time", "tables", "subgroups", "attacks"}
    empty |= {"outcomes", "relations", "time_to_event", "criteria", "structure", "approval"}
    assert {key for key, value in content["sections"].items() if value is None} == empty
    source = content["sections"]["source"]
    assert source["real_rows"] is source["train_rows"] is source["digest"] is None
    html = page(shared)
    assert "Shareable" in html and "internal" not in html.lower()
    internal = set(numbers(json.loads(report.model_dump_json())["sections"]["fidelity"])) | {600.0, 1000.0}
    public = set(numbers(content))
    secrets = {v for v in internal if v not in public and abs(v) > 1e-3}
    values = {float(v) for v in re.findall(r'<data value="([^"]+)"', html)}
    assert len(secrets) > 100 and not values & secrets


def test_files_are_whole_private_and_not_overwritten(report: Any, tmp_path: Path) -> None:
    from medsynth.errors import OutputExists

    path, twin = save(report, tmp_path / "a.report.html")
    assert twin.name == "a.report.json" and json.loads(twin.read_text())["format"] == 7
    assert path.stat().st_mode & 0o077 == 0
    before = path.read_bytes()
    twin.unlink()
    with pytest.raises(OutputExists):
        save(report, path)
    assert path.read_bytes() == before and not twin.exists()


@pytest.mark.nightly
@pytest.mark.slow
def test_words_of_the_table_cannot_break_the_page(halves: Any, synthetic: Any) -> None:
    evil = "<script>alert(1)</script>"
    swap = {"diagnosis": {"overt": evil}}
    made = build(synthetic=synthetic.replace(swap), real=halves[1].head(200).replace(swap), title=evil)
    html = page(made)
    assert evil not in html and "&lt;script&gt;" in html
    utility: Any = made.sections["utility"]
    assert isinstance(utility.mean_loss.value, float)
