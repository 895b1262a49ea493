"""The library names parameters and the command line names flags; one table translates."""

import ast
import inspect
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from medsynth_cli.flags import COMMANDS, FLAGS, QUOTED, hints, register, translated
from medsynth_cli.main import app
from pydantic import BaseModel

import medsynth
from medsynth.errors import NEEDS_SCHEMA, SchemaError

register(typer.main.get_command(app))
ROOT = Path(__file__).parents[2] / "medsynth"
SOURCES = {path: path.read_text() for path in sorted(ROOT.rglob("*.py"))}
FLAG = re.compile(r"(^|[\s(`>'\"])--[a-z]|`medsynth \w")
MAYBE = re.compile(r"--[a-z]|`medsynth ")  # in a file that has no such string either
# Parameters that no command offers: the command line fills them in itself.
PYTHON_ONLY = {"checkpoint", "notice", "progress", "columns", "title", "commands", "notes", "step"}
PYTHON_ONLY |= {"budget_table", "model_name", "drawn_by_model", "phase", "disjoint", "fits", "linked", "patients"}
PYTHON_ONLY |= {"split_number", "fitted_rows", "looks", "estimates", "variances"}


def texts(pattern: re.Pattern[str]) -> list[tuple[str, str, bool]]:
    """(place, text, whether it is a docstring) of every string literal of the files in which a pattern is found."""
    found = []
    for path, content in SOURCES.items():
        if not pattern.search(content):
            continue
        nodes = list(ast.walk(ast.parse(content)))
        bodies = [node.body for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
        docs = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append((f"{path.relative_to(ROOT)}:{node.lineno}", node.value, id(node) in docs))
    return [*found, *((path.name, path.read_text(), False) for path in ROOT.rglob("*.yaml"))]


def test_the_library_names_no_flag_and_no_command() -> None:
    """But for the flags of another program, the browser."""
    found = [f"{place}: {text.strip()[:90]}" for place, text, _ in texts(MAYBE) if FLAG.search(text)]
    found = [text for text in found if not text.startswith("report/page/pdf.py:")]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("template", sorted(ROOT.rglob("templates/*.html")), ids=lambda path: path.name)
def test_the_page_names_no_flag(template: Path) -> None:
    text = re.sub(r"<style>.*?</style>|style=\"[^\"]*\"|\{#.*?#\}", "", template.read_text(), flags=re.DOTALL)
    assert not re.findall(r"[\s>(]--[a-z][a-z-]+(?![a-z-]*\s*:)", text)


@cache
def schema_keys() -> set[str]:
    """The keys that a person writes in a schema, a review or thresholds."""
    from medsynth.report.data.verdict import Review
    from medsynth.report.sections.registry import questions
    from medsynth.schema import Schema
    from medsynth.schema.columns.parts import Answers, Parts
    from medsynth.schema.columns.registry import KINDS
    from medsynth.schema.linked import LinkedTable, LinkedTables
    from medsynth.schema.schema import TimeToEvent

    models: list[type[BaseModel]] = [
        Schema,
        TimeToEvent,
        LinkedTable,
        LinkedTables,
        Review,
        *KINDS.values(),
        Parts,
        Answers,
    ]
    own = {field.alias or key for model in models for key, field in model.model_fields.items()}
    table_one = {"mean", "sd", "median", "q1", "q3", "percent"}
    return {*questions(), *own, *table_one, "others", "limits", "determines"}


def test_what_messages_quote_is_a_parameter_or_a_schema_key() -> None:
    known = set(FLAGS) | schema_keys() | PYTHON_ONLY | {"Int64"}  # a type of pandas
    strange = [
        f"{place}: `{name}`"
        for place, text, is_doc in texts(QUOTED)
        if not is_doc
        for name, _ in QUOTED.findall(text)
        if name not in known
    ]
    assert not strange, "\n".join(strange)


@pytest.mark.parametrize("verb", ["fit", "sample", "plan", "build"])
def test_every_parameter_of_the_library_has_a_flag(verb: str) -> None:
    from medsynth.report.build import build

    functions: dict[str, Callable[..., Any]] = {"build": build}
    function = functions.get(verb) or getattr(medsynth, verb)
    assert set(inspect.signature(function).parameters) - PYTHON_ONLY <= set(FLAGS)


@pytest.mark.parametrize("advice", COMMANDS.values())
def test_an_error_whose_words_give_the_advice_of_a_hint_carries_it(advice: str) -> None:
    """Each message of an error with such words stands in a call with the value that the hint belongs to."""
    words, value = advice.partition(":")[0].lower(), "NEEDS_MODEL" if "model" in advice else "NEEDS_SCHEMA"
    sources = "\n".join(path.read_text() for path in (Path(medsynth.__file__).parent).rglob("*.py"))
    assert words in sources.lower() and f", {value}" in sources


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("Give a larger `epsilon`.", "Give a larger --epsilon."),
        ("Zero does not switch it off; `no_dp` does.", "Zero does not switch it off; --no-dp does."),
        ('Use `device="cpu"`.', "Use --device cpu."),
        ("Offered with `no_dp=True` alone.", "Offered with --no-dp alone."),
        ("`settings` lots", "--set lots"),
        ("`groups` and `n`", "--subgroup and -n"),
        ("`table` and `nothing`", "TABLE and `nothing`"),
    ],
)
def test_messages_are_translated(text: str, typed: str) -> None:
    assert translated(text) == typed


def test_hints_name_the_table() -> None:
    assert hints(SchemaError("Any words.", NEEDS_SCHEMA), "t.csv") == ["Draft a schema: medsynth schema draft t.csv"]
    assert hints(SchemaError("Draft a schema."), "t.csv") == []
