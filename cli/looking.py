"""Show a person what cells look like, on the terminal alone, and ask what of it a draft may declare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from .console import notify

if TYPE_CHECKING:
    from medsynth.io.table import Table

INTRO = """\
What follows is PRIVATE: it shows cells, for your eyes alone. What you take becomes public, marked `seen: true`: kinds
and forms, no value. y takes an entry, n leaves it open, a takes it and all others, q leaves all others open."""
YES, NO, ALL, REST = "y", "n", "a", "q"


@dataclass
class Looking:
    """What a person takes, by table and column, and the rules of a single table. Without `ask`, all of it is taken."""

    tables: Mapping[str, Table]
    ask: bool
    taken: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    comma: bool = False
    _always: str = ""  # the answer to all other questions, if it was given

    def __post_init__(self) -> None:
        from medsynth.fitting.looking import dates_that_follow, has_decimal_commas, looks, rules_that_hold
        from medsynth.schema import clinical, declared, drafts

        if self.ask:
            notify(INTRO)
        for table, data in self.tables.items():
            own = self.taken[table] = {}
            for number, (name, found) in enumerate(looks(data).items(), 1):
                entry = drafts.proposal(name, found)
                if entry is None:
                    continue
                place = f"{table}: " if len(self.tables) > 1 else f"{number}/{len(data.header)} "
                loss = f" A fit loses {found.loss}." if found.loss else ""
                text = f"{place}{name}: {found.cells}.{loss}\n    {declared.yaml_text(entry, flow=True)}"
                if self._takes(text):
                    own[name] = entry
        if len(self.tables) != 1:
            return
        if has_decimal_commas(data):
            self.comma = self._takes("decimal commas: sampled rows have them, too.\n    decimal_comma: seen")
        named = {name: one.declaration() for name in data.header if (one := clinical.look_up(name)) is not None}
        entries = {name: one for name, one in {**named, **own}.items() if one}
        held = rules_that_hold(data, entries, drafts.suggested_rules(data.header))
        for second, first in dates_that_follow(data, entries).items():
            held.pop(drafts.order_rule(first, second), None)
            if self._takes(f"{second}: some days after {first}, which a fit learns.\n    after: {first}"):
                own[second] = {**entries[second], "after": first}
        for rule, broken in held.items():
            self.rules += [rule] if self._takes(f"rule {rule}: {broken or 'no'} rows break it.") else []

    @property
    def count(self) -> int:
        """The number of entries and rules that were taken."""
        return len(self.rules) + self.comma + sum(map(len, self.taken.values()))

    def _takes(self, text: str) -> bool:
        """Return whether the person takes an entry."""
        answer = self._always or ("" if self.ask else YES)
        if not answer:
            notify(text)
        while answer not in (YES, NO, ALL, REST):
            answer = (
                typer.prompt("    Take it? [y/n/a/q]", default=YES, show_default=False, err=True).strip().lower()[:1]
            )
        if answer in (ALL, REST):
            self._always = answer
        return answer in (YES, ALL)
