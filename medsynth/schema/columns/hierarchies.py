"""Hierarchies of codes: ICD-10 and ATC by their shapes, others as trees that a schema declares. All of them are public.

Every code has a position on one line, where each node of the hierarchy is an interval that contains its children.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

System = Literal["icd10", "icd10-plain", "atc"]
Tree = Mapping[str, Any]  # maps a group's name to such a tree, or to a list of codes


@dataclass(frozen=True)
class Node:
    """A code or a group of codes: positions `start` to `stop` - 1. `depth` counts from one."""

    label: str
    start: int
    stop: int
    depth: int


@dataclass(frozen=True)
class CodePattern:
    """Codes of a fixed shape: `pattern` finds the parts, each one of `options`; `joint` is written before the third.

    A shorter code has the first position of its node, which no child has.
    """

    pattern: re.Pattern[str]
    options: tuple[tuple[str, ...], ...]
    joint: str = ""

    @property
    def size(self) -> int:
        """The number of positions."""
        return len(self.options[0]) * self._inside(1)

    @property
    def depth(self) -> int:
        """The number of levels."""
        return len(self.options)

    def _inside(self, depth: int) -> int:
        """Return the number of positions of a node at that depth."""
        return math.prod(len(some) + 1 for some in self.options[depth:])

    def _below(self, node: Node | None, option: int) -> Node:
        depth = node.depth if node else 0
        word = self.options[depth][option]
        label = (node.label if node else "") + (self.joint if depth == 2 else "") + word
        wide = self._inside(depth + 1)
        start = (node.start + wide * (option + 1)) if node else wide * option
        return Node(label, start, start + wide, depth + 1)

    def chain(self, text: str) -> tuple[Node, ...]:
        """Return the nodes that contain a code, the coarsest first; none for a text that is not a code of this shape.

        >>> [node.label for node in SYSTEMS["icd10"].chain("E11.90")]
        ['E', 'E11', 'E11.9']
        """
        match = self.pattern.match(text.strip().upper())
        if match is None:
            return ()
        found: list[Node] = []
        for some, part in zip(self.options, match.groups(), strict=True):
            if not part:
                break
            found.append(self._below(found[-1] if found else None, some.index(part)))
        return tuple(found)

    def children(self, node: Node | None) -> list[Node]:
        """Return the nodes below a node, or the coarsest ones."""
        depth = node.depth if node else 0
        return [self._below(node, k) for k in range(len(self.options[depth]))] if depth < self.depth else []


_LETTERS = tuple(string.ascii_uppercase)
_LETTERS_AND_DIGITS = tuple(string.digits + string.ascii_uppercase)
_TWO_DIGITS = tuple(f"{k:02}" for k in range(100))
_CATEGORY = tuple(a + b for a in string.digits for b in _LETTERS_AND_DIGITS)
# Characters after the first one behind the dot, and marks, are left out: a public coarsening.
_ICD = re.compile(r"([A-Z])(?:([0-9][0-9A-Z])(?:\.?([0-9A-Z])[0-9A-Z]{0,4})?[*+!#]?)?$")
_ATC = re.compile(r"([A-Z])(?:([0-9]{2})(?:([A-Z])(?:([A-Z])([0-9]{2})?)?)?)?$")
SYSTEMS: dict[str, CodePattern] = {
    "icd10": CodePattern(_ICD, (_LETTERS, _CATEGORY, _LETTERS_AND_DIGITS), "."),
    "icd10-plain": CodePattern(_ICD, (_LETTERS, _CATEGORY, _LETTERS_AND_DIGITS)),
    "atc": CodePattern(_ATC, (_LETTERS, _TWO_DIGITS, _LETTERS, _LETTERS, _TWO_DIGITS)),
}


class Branches:
    """A tree as a schema declares it: groups by name, of groups or of lists of codes. A group's name is a code as well.

    >>> [node.label for node in Branches({"medicine": ["heart", "kidney"], "surgery": []}).chain("kidney")]
    ['medicine', 'kidney']
    """

    def __init__(self, tree: Tree) -> None:
        self._below: dict[str | None, list[Node]] = {}
        self._chains: dict[str, tuple[Node, ...]] = {}
        self.depth = 0
        self.size = self._grow(tree, None, (), 0)

    def _grow(self, tree: Tree | Sequence[str], parent: Node | None, above: tuple[Node, ...], at: int) -> int:
        """Give positions to all nodes below `parent`, from `at`; return the next free position."""
        if not isinstance(tree, Mapping | list | tuple) or not all(isinstance(name, str) for name in tree):
            raise TypeError("a tree must consist of groups and lists of words")
        below = []
        for name in tree:
            if name in self._chains:
                raise ValueError(f"{name!r} is in the hierarchy twice")
            inner = tree[name] if isinstance(tree, Mapping) else ()
            self._chains[name] = ()
            node = Node(name, at, at + 1 + _count(inner), len(above) + 1)
            self._chains[name] = (*above, node)
            self.depth = max(self.depth, node.depth)
            self._grow(inner, node, (*above, node), at + 1)
            below.append(node)
            at = node.stop
        self._below[parent.label if parent else None] = below
        return at

    def chain(self, text: str) -> tuple[Node, ...]:
        return self._chains.get(text, ())

    def children(self, node: Node | None) -> list[Node]:
        return self._below[node.label if node else None]


def _count(tree: Tree | Sequence[str]) -> int:
    return sum(1 + (_count(tree[name]) if isinstance(tree, Mapping) else 0) for name in tree)


Hierarchy = CodePattern | Branches


def hierarchy(declared: str | Tree) -> Hierarchy:
    """Return the hierarchy that a schema names or declares as a tree. Raise ValueError if a name occurs twice in it."""
    return SYSTEMS[declared] if isinstance(declared, str) else Branches(declared)
