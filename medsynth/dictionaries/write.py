"""The schema that an import writes: one line per column, with what became of the entry as a comment."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date

from ..schema.declared import UNFINISHED
from ..schema.drafts import WHO
from .declare import TODO, Outcome
from .entry import plain

ADVICE = """\
# No row was read. Confirm each guess. Replace each TODO by public knowledge: what the assay can measure, what the form
# offers. Never look up bounds or levels in the table: copies from patients' cells leak.
"""
WORD = re.compile(r"[^\W\d][\w-]*(?: [\w-]+)*")  # a text that YAML reads as itself without quotes
NOT_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"))
MOST_LINES = 40  # entries that a message lists


def scalar(value: object) -> str:
    """Return a value as YAML on one line; texts that could be read as anything else are in quotes.

    >>> [scalar(value) for value in ("mild", "no", "01", "=1+1", 3, TODO, "TODO")]
    ['mild', '"no"', '"01"', '"=1+1"', '3', 'TODO', '"TODO"']
    """
    if value is TODO:
        return "TODO"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e")  # YAML needs a point
    if isinstance(value, list):
        return f"[{', '.join(map(scalar, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{scalar(key)}: {scalar(one)}' for key, one in value.items())}}}"
    if isinstance(value, int | date):
        return str(value)
    text = str(value)
    safe = WORD.fullmatch(text) and text.lower() not in NOT_WORDS and not UNFINISHED.search(text)
    return text if safe else json.dumps(text, ensure_ascii=False)


def schema_text(
    name: str, source: str, outcomes: Mapping[str, Outcome], head: Mapping[str, object], rules: Sequence[str],
    remarks: Sequence[str],
) -> str:  # fmt: skip
    """Return the YAML text of a schema. `source`: the dictionary and its form, in words."""
    lines = [f"# Imported from {plain(source, 200)}: {counted(outcomes)}.", *ADVICE.splitlines()]
    lines += [f"# {plain(remark, 200)}" for remark in remarks[:MOST_LINES]]
    lines += [f"name: {scalar(name)}", "# target: COLUMN  # name the column to predict; without it, it is the last one"]
    lines += [] if "unit" in head else WHO.splitlines()
    lines += [f"{key}: {scalar(TODO if value is None else value)}" for key, value in head.items()]
    lines += ["columns:"]
    for column, outcome in outcomes.items():
        comment = _comment(outcome)
        lines.append(f"  {scalar(column)}: {scalar(outcome.column)}{f'  # {comment}' if comment else ''}")
    lines += ["rules:", *(f"  - {json.dumps(rule, ensure_ascii=False)}" for rule in rules)] if rules else []
    return "\n".join(lines) + "\n"


def _comment(outcome: Outcome) -> str:
    """Return what was guessed or is to do. A text of the dictionary cannot end a comment."""
    parts = [f"guessed: {plain(', '.join(outcome.guesses), 200)}"] if outcome.guesses else []
    parts += [f"TODO: {plain('; '.join(outcome.open), 200)}"] if outcome.open else []
    return "; ".join(parts)


def counted(outcomes: Mapping[str, Outcome]) -> str:
    """Return how many entries were taken, guessed and left to do, in words."""
    found = Counter(outcome.fate for outcome in outcomes.values())
    words = [f"{found[fate]} {fate}" for fate in ("taken", "guessed") if found[fate]]
    words += [f"{found['TODO']} with a TODO"] if found["TODO"] else []
    return ", ".join(words) or "no column"


def summary_lines(outcomes: Mapping[str, Outcome], remarks: Sequence[str]) -> list[str]:
    """Return the lines of a message: what became of each entry that was not simply taken, and the remarks."""
    lines = [
        f"  {plain(name, 40)}: {fate} ({plain('; '.join(outcome.open or outcome.guesses), 200)})"
        for name, outcome in outcomes.items() if (fate := outcome.fate) != "taken"
    ]  # fmt: skip
    lines += [f"  {plain(remark, 200)}" for remark in remarks]
    more = [f"  and {len(lines) - MOST_LINES} more, in the schema's comments"] if len(lines) > MOST_LINES else []
    return [*lines[:MOST_LINES], *more]
