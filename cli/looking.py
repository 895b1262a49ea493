"""Ask a person, on the terminal or on the page alone, what a draft may declare of what cells look like."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from .console import notify

if TYPE_CHECKING:
    from medsynth.io.table import Table

INTRO = """\
What follows is PRIVATE: it shows cells, for your eyes alone. What you take becomes public, marked `seen: true`: kinds
and forms, no value. y takes an entry, n leaves it open, a takes it and all others, q leaves all others open."""
YES, NO, ALL, REST = "y", "n", "a", "q"


class Seen(NamedTuple):
    """What a person is asked about: which entry it is, what its cells look like, and its line of a schema."""

    name: str
    cells: str
    line: str


@dataclass
class Looking:
    """What a person takes, by table and column, and the rules of a single table."""

    tables: Mapping[str, Table]
    takes: Callable[[Seen], bool]
    taken: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    comma: bool = False

    def __post_init__(self) -> None:
        from medsynth.fitting.looking import dates_that_follow, has_decimal_commas, looks, rules_that_hold
        from medsynth.schema import clinical, declared, drafts

        for table, data in self.tables.items():
            own = self.taken[table] = {}
            for number, (name, found) in enumerate(looks(data).items(), 1):
                entry = drafts.proposal(name, found)
                if entry is None:
                    continue
                place = f"{table}: " if len(self.tables) > 1 else f"{number}/{len(data.header)} "
                loss = f" A fit loses {found.loss}." if found.loss else ""
                line = declared.yaml_text(entry, flow=True).strip()
                if self.takes(Seen(f"{table} {name}", f"{place}{name}: {found.cells}.{loss}", line)):
                    own[name] = entry
        if len(self.tables) != 1:
            return
        if has_decimal_commas(data):
            line = "decimal_comma: seen"
            self.comma = self.takes(Seen(line, "decimal commas: sampled rows have them, too.", line))
        named = {name: one.declaration() for name in data.header if (one := clinical.look_up(name)) is not None}
        entries = {name: one for name, one in {**named, **own}.items() if one}
        held = rules_that_hold(data, entries, drafts.suggested_rules(data.header, entries, any_unit=True))
        for second, first in dates_that_follow(data, entries).items():
            held.pop(drafts.order_rule(first, second), None)
            cells = f"{second}: some days after {first}, which a fit learns."
            if self.takes(Seen(f"after {second}", cells, f"after: {first}")):
                own[second] = {**entries[second], "after": first}
        for rule, broken in held.items():
            seen = Seen(f"rule {rule}", f"{broken or 'no'} rows break this rule.", rule)
            self.rules += [rule] if self.takes(seen) else []

    @property
    def count(self) -> int:
        """The number of entries and rules that were taken."""
        return len(self.rules) + self.comma + sum(map(len, self.taken.values()))


def offers(table: Table) -> list[Seen]:
    """Return what a person can take after a look at a single table. It is private."""
    found = list[Seen]()

    def takes(one: Seen) -> bool:
        found.append(one)
        return True

    Looking({"": table}, takes)
    return found


def draft_with(name: str, table: Table, taken: Collection[str]) -> str:
    """Return the YAML of a draft for a single table with the entries of these names."""
    from medsynth.schema.drafts import draft

    looking = Looking({"": table}, lambda one: one.name in taken)
    return draft(name, table.header, looking.taken[""], looking.rules, comma=looking.comma)


class AtTerminal:
    """The answers of a person at a terminal."""

    def __init__(self) -> None:
        notify(INTRO)
        self._always = ""  # the answer to all other questions, if it was given

    def __call__(self, seen: Seen) -> bool:
        """Return whether the person takes an entry."""
        answer = self._always
        if not answer:
            notify(f"{seen.cells}\n    {seen.line}")
        while answer not in (YES, NO, ALL, REST):
            answer = (
                typer.prompt("    Take it? [y/n/a/q]", default=YES, show_default=False, err=True).strip().lower()[:1]
            )
        if answer in (ALL, REST):
            self._always = answer
        return answer in (YES, ALL)
