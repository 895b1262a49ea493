"""One person's work in one folder: what was chosen, which commands run, and what the page says."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import yaml

from medsynth.errors import UsageError
from medsynth.io.atomic import atomic_write

from ..looking import Seen
from ..spoken import foreign
from .choices import Choices, is_inside, load
from .door import Door
from .jobs import Jobs
from .words import Refusal, plain

HERE = Path(__file__).parent
REVIEW = "review.yaml"


def languages() -> list[str]:
    """Return the languages that the page's texts exist in."""
    return sorted(path.stem for path in (HERE / "texts").glob("*.yaml"))


class Session:
    """One person's work in one folder: the door, the choices and the commands."""

    def __init__(self, folder: Path, table: str = "", language: str = "en") -> None:
        self.folder = folder
        self.door = Door()
        self.jobs = Jobs(folder)
        self.choices = Choices()
        self.used = time.monotonic()
        self.lock = threading.RLock()
        self.speak(language)
        self.changes = 0  # answers so far, of all tables
        self.refused = ("", dict[str, str]())  # the form that was refused last, and what it contained
        self.looks: list[Seen] = []  # what cells look like, until the person has answered; private, and in no file
        self._told = deque[str]()  # threads append and pop without a lock
        if table:
            self.choose(table)

    def speak(self, language: str) -> None:
        """Show the page in a language."""
        self.language = language
        self.texts: dict[str, Any] = _texts("en") | _texts(language)

    def choose(self, table: str) -> None:
        """Go to a table, with what was chosen for it before."""
        self.choices = load(self.folder, table)
        self.looks = []
        self.jobs.forget(self.folder / self.choices.model)

    def has(self, name: str) -> bool:
        """Return whether a file or folder of that name is in the folder."""
        return is_inside(self.folder, name)

    def read(self, name: str) -> str:
        """Return the text of a file of the folder, or an empty one if there is none."""
        if not self.has(name):
            return ""
        try:
            return (self.folder / name).read_text(encoding="utf-8-sig")
        except (OSError, ValueError):
            raise UsageError(f"{name} cannot be read as UTF-8 text. Save it as UTF-8.") from None

    def state(self) -> str:
        """Return what an answer must name. It is new after each answer, and if a file that a form shows is new."""
        shown = [self.folder / name for name in (self.choices.schema, REVIEW) if self.has(name)]
        return "-".join(map(str, [self.changes, *(path.stat().st_mtime_ns for path in shown)]))

    def change(self, **answers: Any) -> None:
        """Keep answers, and save them next to the table."""
        for name, value in answers.items():
            setattr(self.choices, name, value)
        self.changes += 1
        self.choices.save(self.folder)

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder as a whole. What it replaces was shown to the person first."""
        self.changes += 1
        atomic_write(self.folder / name, text.encode(), force=True)

    def say(self, text: str) -> str:
        """Return one of the page's texts."""
        return str(self.texts[text])

    def refuse(self, **wrong: bool) -> None:
        """Raise Refusal with the first of the page's texts that is true."""
        for text in (text for text, found in wrong.items() if found):
            raise Refusal(self.say(text))

    def tell(self, message: str, *, english: bool = False) -> None:
        """Show a message on the next screen. One of the library is in `english`, which the page says."""
        self._told.append("\n".join(filter(None, [foreign(message, self.texts) * english, self.short(message)])))

    def short(self, message: str) -> str:
        """Return a message in the page's words, with the names of this folder's files alone."""
        return plain(printable(message.replace(f"{self.folder}{os.sep}", "")), self.texts)

    def number(self, value: float, digits: int = 0) -> str:
        """Return a number as the language writes it, with at most this many decimals."""
        text = f"{value:,.{digits}f}".rstrip("0" * bool(digits)).rstrip("." * bool(digits))
        return text.translate(str.maketrans(",.", self.say("separators")))

    @property
    def spoken(self) -> tuple[str, str]:
        """How the language writes numbers, and days."""
        return self.say("separators"), self.say("day")

    def told(self) -> list[str]:
        """Return the messages for the screen that is shown now."""
        return [self._told.popleft() for _ in range(len(self._told))]


def printable(text: str) -> str:
    """Return a text in characters that a page can show: the name of a file may have others."""
    return text.encode(errors="replace").decode()


def _texts(language: str) -> dict[str, Any]:
    return dict(yaml.safe_load((HERE / "texts" / f"{language}.yaml").read_text("utf-8")))
