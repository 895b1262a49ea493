"""What a method is: facts that need no torch, and the module that is imported once it is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..privacy.accounting.calibration import Query
from .settings import MethodConfig

if TYPE_CHECKING:
    from ..privacy.queries.rows import Codes

Progress = Callable[[int, int], None]  # steps done, steps in all
Arrays = dict[str, NDArray[np.float32]]


class MethodModule(Protocol):
    """The code of a method, or of one of its presets, as a module of these names.

    `rows` are the declared ones where the row is the unit of privacy, else as many rows as would meet the same noise.
    """

    Config: type[MethodConfig]

    def queries(self, config: Any, rows: int, columns: int, epsilon: float) -> list[Query]:
        """What a fit measures, each with its noise relative to the others'. It reads public numbers alone."""

    def notes(self, config: Any, rows: int, columns: int, epsilon: float) -> list[str]:
        """Notes on the plan, for a person, a sentence or two each."""

    @property
    def train(self) -> Callable[..., Arrays]:
        """`train(config, schema, vault, plan, seed, device, progress)`: the tensors that `generate` needs.

        It measures exactly what `queries` planned. With the capability `public_rows` it also takes `public`, the codes
        of rows that the user declared public, (rows, columns), or None.
        """

    @property
    def generate(self) -> Callable[..., Codes]:
        """`generate(tensors, config, schema, rows, count, seed)`: `count` synthetic rows as codes, (count, columns).

        With the capability `conditional_sampling` it also takes `where`, ranges of codes by column, `balance`, whether
        classes are drawn evenly, and `fixed`, codes of some columns by row, (count,) each.
        """

    @property
    def replicated(self) -> Callable[..., Iterator[Arrays]]:
        """`replicated(config, schema, plan, tensors, count, seed)`: the tensors of plausible generators, one by one.

        With the capability `replicable` alone.
        """


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A method with other defaults or networks: `module` is the dotted name of its code."""

    summary: str
    module: str


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method by its public facts: `module` is the dotted name of its code, a `MethodModule`.

    `summary`: one line for help and documents. `presets`: by name. `no_claim`: why a model of this method makes no
    privacy claim, or None where it makes one. `conditional_sampling`: rows are drawn given values of some columns.
    `public_rows`: it learns from rows that the user declares public. `microbatches`: it has a setting of this name.
    `replicable`: its models keep their measurements, by which plausible generators are fitted again.
    """

    name: str
    summary: str
    module: str
    presets: Mapping[str, Preset] = field(default_factory=dict)
    conditional_sampling: bool = False
    public_rows: bool = False
    microbatches: bool = False
    replicable: bool = False
    no_claim: str | None = None

    @property
    def makes_claim(self) -> bool:
        """Whether a fit of this method with a budget makes a privacy claim."""
        return self.no_claim is None

    def load(self, preset: str | None = None) -> MethodModule:
        """The code of the method or of one of its presets, imported now."""
        name = self.module if preset is None else self.presets[preset].module
        return cast(MethodModule, importlib.import_module(name))
