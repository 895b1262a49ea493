"""What a person has chosen on the page, and the commands that follow from it."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from medsynth.io.atomic import atomic_write
from medsynth.io.formats import SUFFIXES, name_of

HOLDOUT = 0.25  # probability of a row to be held out
MADE = (".train", ".heldout", ".synthetic", ".structure")  # ends of names of tables that medsynth has written
FORMATS = (".csv", ".parquet", ".sav", ".dta", ".xpt")


@dataclass
class Choices:
    """The choices of one table. `changes` counts them, so that an old page in another tab replaces nothing newer.

    `declared`: whether there is a schema file. It declares the patients and the codes of missing values itself.
    """

    table: str = ""
    unit: str = ""
    max_rows: int = 1
    order: str = ""
    encoding: str = ""
    codes: str = ""
    declared: bool = False
    target: str = ""
    epsilon: float = 3.7
    holdout: bool = True
    rows: int = 10000
    where: list[str] = field(default_factory=list)
    replicates: int = 0
    format: str = ".csv"
    shareable: bool = False
    changes: int = 0

    @property
    def name(self) -> str:
        """The table's name without its ending, which all files of its fit begin with."""
        return name_of(Path(self.table))

    @property
    def schema(self) -> str:
        """The name of its schema file."""
        return f"{self.name}.schema.yaml"

    @property
    def model(self) -> str:
        """The name of its model."""
        return f"{self.name}.medsynth"

    @property
    def checkpoint(self) -> str:
        """The name of the checkpoint of an interrupted fit."""
        return f"{self.name}.medsynth-checkpoint"

    @property
    def synthetic(self) -> str:
        """The name of its synthetic table."""
        return f"{self.name}.synthetic{self.format}"

    @property
    def page(self) -> str:
        """The name of its report."""
        return f"{self.name}.{'open.' if self.shareable else ''}report.html"

    @property
    def saved_as(self) -> list[str]:
        """The words of a command that say how the table was saved, if not as UTF-8."""
        return ["--encoding", self.encoding] if self.encoding else []

    def _settings(self) -> list[str]:
        found = ["--epsilon", f"{self.epsilon:g}", *self.saved_as]
        if self.unit and not self.declared:
            found += ["--unit", self.unit, "--max-rows", str(self.max_rows)]
        return found + (["--target", self.target] if self.target else [])

    def plan(self) -> list[str]:
        """Return the command that plans the fit."""
        return ["plan", self.table, *self._settings()]

    def check(self) -> list[str]:
        """Return the command that compares the table with its schema."""
        return ["schema", "check", self.table, *self.saved_as]

    def fit(self, *, resume: bool = False, force: bool = False) -> list[str]:
        """Return the command that fits, or goes on with an interrupted fit."""
        more = ["--holdout", f"{HOLDOUT:g}"] if self.holdout else []
        if self.codes and not self.declared:
            more += [f"--na-values={','.join(self.codes.split())}"]  # one word: a code may begin with a minus sign
        return ["fit", self.table, *self._settings(), *more, *["--resume"] * resume, *["--force"] * force]

    def sample(self, *, force: bool = False) -> list[str]:
        """Return the command that draws rows."""
        found = ["sample", self.model, "-n", str(self.rows), "-o", self.synthetic]
        for condition in self.where:
            found += ["--where", condition]
        return found + (["--replicates", str(self.replicates)] if self.replicates else []) + ["--force"] * force

    def report(self, review: str | None, *, force: bool = False) -> list[str]:
        """Return the command that writes the report."""
        found = ["report", self.model, "--synthetic", self.synthetic, "--output", self.page]
        found += ["--shareable"] * self.shareable + (["--review", review] if review else [])
        return found + self.saved_as + ["--force"] * force

    def package(self, review: str | None, *, force: bool = False) -> list[str]:
        """Return the command that writes the folder to hand over."""
        found = ["metadata", self.model, "--synthetic", self.synthetic, *(["--review", review] if review else [])]
        return found + ["--force"] * force

    def save(self, folder: Path) -> None:
        """Write the choices next to the table, for the next start. They are public: no cell is among them."""
        text = json.dumps(asdict(self), indent=1)
        atomic_write(folder / f"{self.name}.medsynth-app", lambda file: file.write(text.encode()), force=True)


def load(folder: Path, table: str) -> Choices:
    """Return the choices that were saved for a table; the usual ones without a file, or of a damaged one."""
    found, path = Choices(table=table), folder / f"{name_of(Path(table))}.medsynth-app"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        kept = {one.name: content[one.name] for one in fields(Choices)}
        kinds = {name: type(getattr(found, name)) for name in kept}
        if kept["table"] == table and all(type(value) is kinds[name] for name, value in kept.items()):
            found = Choices(**kept)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return found


def tables(folder: Path) -> list[str]:
    """Return the names of the tables in a folder that medsynth has not written, sorted."""
    found = (path for path in folder.iterdir() if path.name.lower().endswith(SUFFIXES) and path.is_file())
    inside = (path for path in found if path.resolve().parent == folder and not path.name.startswith("."))
    return sorted(path.name for path in inside if not name_of(path).endswith(MADE))


def shown(words: list[str]) -> str:
    """Return a command as a person types it."""
    return shlex.join(["medsynth", *words])
