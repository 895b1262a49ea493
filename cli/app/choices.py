"""What a person has chosen on the page, and the commands that follow from it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from medsynth.fitting.settings import PUBLIC_PATIENTS
from medsynth.io.atomic import atomic_write
from medsynth.io.formats import SUFFIXES, SavedAs, name_of

HOLDOUT = 0.25  # probability of a row to be held out
MADE = (".train", ".heldout", ".synthetic", ".structure")  # ends of names of tables that medsynth has written
FORMATS = (".csv", ".parquet", ".sav", ".dta", ".xpt")
ENCODINGS = ("", "cp1252", "cp1250", "iso-8859-15", "utf-16")  # of text files; empty: UTF-8, or as a mark says
WHO = ("one", "several")  # answers to the question whether a patient can have several rows
LARGEST = 1 << 20  # bytes of a file of choices
LARGEST_EPSILON, LARGEST_NUMBER = 1000.0, 10**18  # below which they are
LEAST_LINES = {"skip_lines": 0, "header_lines": 1, "skip_rows": 0, "skip_last_rows": 0}
LINES = re.compile("[0-9]{1,6}")
UNPRINTABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")  # no page can show, and no form can return such a text


def _named(end: str) -> property:
    """Return the property of a file that is named after the table, by how its name ends."""
    return property(lambda choices: f"{choices.name}.{end}")


@dataclass
class Choices:
    """The choices of one table. They are public: no cell is among them."""

    table: str = ""
    who: str = ""  # one of WHO, or empty before the person has answered
    unit: str = ""
    max_rows: int = 1
    patients: int = 0  # their number, if it is public
    order: str = ""
    encoding: str = ""
    skip_lines: str = ""
    header_lines: str = ""
    skip_rows: str = ""
    skip_last_rows: str = ""
    header_is_names: bool = False
    codes: str = ""
    target: str = ""
    epsilon: float = 3.7
    holdout: bool = True
    public: str = ""
    citation: str = ""
    public_patients: str = PUBLIC_PATIENTS[0]
    approved: bool = False  # whether the last fit was to keep to the plan on file
    rows: int = 10000
    where: list[str] = field(default_factory=list)
    replicates: int = 0
    format: str = ".csv"
    shareable: bool = False

    schema = _named("schema.yaml")
    model = _named("medsynth")
    checkpoint = _named("medsynth-checkpoint")  # of an interrupted fit
    approval = _named("plan.html")  # the page for approval
    approved_plan = _named("plan.json")  # written next to that page

    @property
    def name(self) -> str:
        """The table's name without its ending, which all files of its fit begin with."""
        return name_of(Path(self.table))

    @property
    def synthetic(self) -> str:
        """The name of its synthetic table."""
        return f"{self.name}.synthetic{self.format}"

    @property
    def page(self) -> str:
        """The name of its report."""
        return f"{self.name}.{'open.' if self.shareable else ''}report.html"

    @property
    def saved(self) -> SavedAs:
        """How the table was saved."""
        counts = {name: int(lines) for name, lines in self.counts_of_lines.items() if lines}
        return SavedAs(encoding=self.encoding or None, header_is_names=self.header_is_names, **counts)

    @property
    def counts_of_lines(self) -> dict[str, str]:
        """How many lines are not patients, as typed, by setting; empty without an answer."""
        return {name: getattr(self, name) for name in LEAST_LINES}

    @property
    def saved_as(self) -> list[str]:
        """The words of a command that say how the table was saved, if not as usual."""
        found = ["--encoding", self.encoding] if self.encoding else []
        for name, lines in self.counts_of_lines.items():
            found += [f"--{name.replace('_', '-')}", lines] if lines else []
        return found + ["--header-is-names"] * self.header_is_names

    def _settings(self, declared: bool) -> list[str]:
        found = ["--epsilon", f"{self.epsilon:g}", *self.saved_as]
        found += ["--one-row-a-patient"] * (self.who == "one")
        if self.unit and not declared:
            found += ["--unit", self.unit, "--max-rows", str(self.max_rows)]
        if self.codes and not declared:
            found += [f"--na-values={','.join(self.codes.split())}"]  # one word: a code may begin with a minus sign
        found += ["--patients", str(self.patients)] if self.unit and self.patients else []
        if self.public:
            found += [f"--public={self.public}", f"--citation={self.citation}"]
            found += ["--public-patients", self.public_patients]
        return found + (["--target", self.target] if self.target else [])

    def plan(self, declared: bool) -> list[str]:
        """Return the command that plans the fit. `declared`: by a schema file, which names the patients itself."""
        return ["plan", operand(self.table), *self._settings(declared)]

    def approve(self, declared: bool, review: str | None) -> list[str]:
        """Return the command that writes the page for approval. `declared`: as in `plan`."""
        return [*self.plan(declared), "--page", self.approval, *(["--review", review] if review else [])]

    def check(self) -> list[str]:
        """Return the command that compares the table with its schema."""
        return ["schema", "check", operand(self.table), *self.saved_as]

    def fit(self, declared: bool, *, plan: bool = False, resume: bool = False, force: bool = False) -> list[str]:
        """Return the command that fits, or goes on with an interrupted fit. `declared`: as in `plan`. `plan`: whether
        the fit keeps to the plan on file.
        """
        more = ["--holdout", f"{HOLDOUT:g}"] if self.holdout else []
        words = ["fit", operand(self.table), *self._settings(declared), *more, *["--plan", self.approved_plan] * plan]
        return [*words, *["--resume"] * resume, *["--force"] * force]

    def sample(self, *, force: bool = False) -> list[str]:
        """Return the command that draws rows."""
        found = ["sample", operand(self.model), "-n", str(self.rows), "-o", self.synthetic]
        found += [word for condition in self.where for word in ("--where", condition)]
        return found + (["--replicates", str(self.replicates)] if self.replicates else []) + ["--force"] * force

    def report(self, review: str | None, *, plan: bool = False, force: bool = False) -> list[str]:
        """Return the command that writes the report. `plan`: as in `fit`."""
        found = ["report", operand(self.model), "--synthetic", self.synthetic, "--output", self.page]
        found += ["--shareable"] * self.shareable + (["--review", review] if review else [])
        return found + ["--plan", self.approved_plan] * plan + self.saved_as + ["--force"] * force

    def package(self, review: str | None, *, force: bool = False) -> list[str]:
        """Return the command that writes the folder to hand over."""
        words = ["metadata", operand(self.model), "--synthetic", self.synthetic]
        return [*words, *(["--review", review] if review else []), *["--force"] * force]

    def save(self, folder: Path) -> None:
        """Write the choices next to the table, for the next start."""
        text = json.dumps(asdict(self), indent=1)
        atomic_write(folder / f"{self.name}.medsynth-app", text.encode(), force=True)


def load(folder: Path, table: str) -> Choices:
    """Return the choices that were saved for a table; the usual ones without a file, or of a damaged one."""
    usual = Choices(table=table, format=next((form for form in FORMATS if table.lower().endswith(form)), ".csv"))
    path = folder / f"{name_of(Path(table))}.medsynth-app"
    try:
        if not is_inside(folder, path.name) or path.stat().st_size > LARGEST:
            return usual
        content = json.loads(path.read_text(encoding="utf-8"))
        kept = {one.name: content.get(one.name, getattr(usual, one.name)) for one in fields(Choices)}
        kept["who"] = kept["who"] or "several" * bool(kept["unit"])  # files of earlier versions do not say it
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return usual
    same_types = all(type(value) is type(getattr(usual, name)) for name, value in kept.items())
    own = same_types and kept["table"] == table and (not kept["public"] or is_inside(folder, kept["public"]))
    return Choices(**kept) if own and _possible(Choices(**kept)) else usual


def _possible(choices: Choices) -> bool:
    """Return whether the forms could have led to these choices."""
    texts = [choices.unit, choices.order, choices.codes, choices.target, *choices.where, choices.citation]
    numbers = [(choices.max_rows, 1), (choices.patients, 0), (choices.rows, 1), (choices.replicates, 0)]
    return (
        all(isinstance(text, str) and not UNPRINTABLE.search(text) for text in texts)
        and all(least <= number < LARGEST_NUMBER for number, least in numbers)
        and 0 < choices.epsilon < LARGEST_EPSILON
        and choices.format in FORMATS
        and choices.who in ("", *WHO)
        and (choices.who == "several") == bool(choices.unit)
        and choices.encoding in ENCODINGS
        and choices.public_patients in PUBLIC_PATIENTS
        and are_few(choices.counts_of_lines)
    )


def are_few(counts: Mapping[str, str]) -> bool:
    """Return whether counts of lines, by setting, are empty or whole numbers of up to six digits."""
    return all(not text or (LINES.fullmatch(text) and int(text) >= LEAST_LINES[name]) for name, text in counts.items())


def is_inside(folder: Path, name: str) -> bool:
    """Return whether a file or a folder of that name is in the folder. A link that leads out of it is not."""
    try:
        path = (folder / name).resolve()
        return path.parent == folder and (path.is_file() or path.is_dir())
    except (OSError, ValueError):
        return False


def files(folder: Path) -> list[str]:
    """Return the names of the files in a folder, sorted, without hidden ones and without links that lead out of it."""
    found = (path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return sorted(name for name in found if not UNPRINTABLE.search(name) and is_inside(folder, name))


def tables(folder: Path) -> list[str]:
    """Return the names of the tables in a folder that medsynth has not written, sorted."""
    found = (name for name in files(folder) if name.lower().endswith(SUFFIXES))
    return [name for name in found if not name_of(Path(name)).endswith(MADE)]


def operand(name: str) -> str:
    """Return a file's name as a word of a command that is not read as an option."""
    return f"./{name}" if name.startswith("-") else name


def shown(words: list[str]) -> str:
    """Return a command as a person types it."""
    return shlex.join(["medsynth", *words])
