"""No row decides what a text file's header is: random files and their neighbours, in which one row is another.

A file has a header of some style, below nothing, comments, blank lines, a mark or a line `sep=`. In its neighbour one
row is emptied, or odd. Header, delimiter, encoding, layout and the texts of all other rows are the same, or both files
are refused with the same message. A row that is no record of the header's width is refused itself.
"""

import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from medsynth.errors import MedsynthError
from medsynth.fitting.private_table import possible_targets, table_header
from medsynth.fitting.settings import TableSettings
from medsynth.io import reader
from medsynth.io.formats import SavedAs

NAMES = ["id", "#id", "# a note", "age", "x;y", "a,b", "2019", "male", "no", "a\tb", "sep=;", "ü", "two\nlines", "l\rf",
         'q"', "{", "[", "B12", " id "]  # fmt: skip
WORDS = ["flu", "54", "#p1", "HIV\npositive", "a,b", "x;y;z", "1,5", 'say "8"', "", "no", "sep=;", "{", "\r", "ü"]
ODD_WORDS = [
    *WORDS,
    "a,b,c,d,e",
    ";;;;;",
    "|||",
    "\t\t",
    '"',
    "#",
    "# a, b",
    "\n#x,y\n",
    "sep=,",
    "[{",
    "0.5",
    "x" * 300,
]
MALFORMED = ["{0}{1}more", "few", 'a"b{0}{1}', '"open{0}{1}', '{1}"']  # {0}: the delimiter; {1}: a usual row


def field(word: str, delimiter: str, *, quoted: bool) -> str:
    """A field as programs write it."""
    if quoted or any(sign in word for sign in '"\r\n' + delimiter) or not word:
        return '"{}"'.format(word.replace('"', '""'))
    return word


class File:
    """A random file: what precedes its rows, the rows, and how a person declares it."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.delimiter, self.end = draw, draw.choice(",;\t|"), draw.choice(["\n", "\r\n"])
        self.width = draw.randint(1, 4) if self.delimiter == "," else draw.randint(2, 4)
        quoted = draw.random() < 0.3
        names = [field(name, ",;\t|", quoted=quoted) for name in draw.sample(NAMES, self.width)]
        header = self.delimiter.join(names)
        style = draw.choice(["usual"] * 5 + ["R", "blank first", "blank last", "open", "stray"])
        self.more = int(style in ("R", "blank first", "blank last"))
        header = {
            "blank first": f"{self.delimiter}{header}",
            "blank last": f"{header}{self.delimiter}",
            "open": f'{header}{self.delimiter}"open',
            "stray": f'a"b{self.delimiter}{header}',
        }.get(style, header)
        above = draw.choice(["", "", "", "\n", "  \n\n", "# a note\n", '# a "note\n\n#b,c\n', "x\ny;z\n"])
        separator = draw.choice(["", "", "", f"sep={self.delimiter}\n", f"SEP={self.delimiter}\n"])
        self.head = (separator + above + header + "\n").replace("\n", self.end)
        lines = separator.count("\n") + above.count("\n")
        self.encoding = draw.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"])
        skipped = [lines] if above.startswith("x") else [None, lines] if "#" in above else [None, lines, 0]
        declared = None if self.encoding.startswith("utf") else self.encoding
        self.saved = SavedAs(
            encoding=declared,
            skip_lines=draw.choice(skipped),
            header_lines=draw.choice([None, 1, 1 + len(re.findall("[\r\n]", header))]),
            header_is_names=draw.random() < 0.5,
        )
        self.rows = [self.row(WORDS) for _ in range(draw.randint(3, 6))]

    def row(self, words: list[str]) -> str:
        """A record of the rows' width. In a table of one column, and under R's short header, its last field is full."""
        found = [self.draw.choice(words) for _ in range(self.width + self.more)]
        found[-1] = found[-1] or "x"
        return self.delimiter.join(field(word, self.delimiter, quoted=self.draw.random() < 0.2) for word in found)

    def neighbour(self) -> tuple[int, list[str], bool]:
        """A row's position, the rows with another one there, and whether it is a record of the same width."""
        place = self.draw.randrange(len(self.rows))
        kind = self.draw.choice(["empty", "odd", "odd", "malformed"])
        if kind == "malformed":
            text = self.draw.choice(MALFORMED).format(self.delimiter, self.row(["a", "b"]))
        else:
            text = self.row([""] if kind == "empty" else ODD_WORDS)
        return place, [*self.rows[:place], text, *self.rows[place + 1 :]], kind != "malformed"

    def write(self, path: Path, rows: list[str]) -> None:
        path.write_bytes((self.head + "".join(f"{row}{self.end}" for row in rows)).encode(self.encoding))


def outcome(call: Callable[[], object]) -> object:
    """What a call returns, or its error."""
    try:
        return call()
    except MedsynthError as error:
        return re.sub(r"line \d+", "line N", f"{type(error).__name__}: {error}")  # odd rows may have several lines


def read(path: Path, saved: SavedAs) -> tuple[object, list[list[str]]]:
    """The facts about a table, and its rows' texts: the same in memory and in pieces."""
    table, large = reader.read(path, saved), reader.read_large(path, saved)
    cells = table.cells.to_numpy().tolist()
    assert [row for piece in large.chunks() for row in piece.cells.to_numpy().tolist()] == cells
    assert (table.header, table.form, table.file_form) == (large.header, large.form, large.file_form)
    return (table.header, table.form, table.file_form, table.rows), cells


def check(path: Path, seed: int) -> str:
    """Compare a random file with a neighbour. Return what came of both."""
    file = File(random.Random(seed))
    place, others, wellformed = file.neighbour()
    settings, found = TableSettings(**vars(file.saved)), list[tuple[object, ...]]()
    for rows in (file.rows, others):
        file.write(path, rows)
        calls = (partial(read, path), partial(table_header, path))
        found.append((*(outcome(partial(call, file.saved)) for call in calls),
                      outcome(partial(possible_targets, path, settings))))  # fmt: skip
    (first, names, targets), (second, *more) = found
    assert names == more[0], seed
    if isinstance(first, str) and isinstance(second, str):
        assert first == second or not wellformed, (seed, first, second)
        return "both refused"
    if isinstance(first, str) or isinstance(second, str):
        assert not wellformed, (seed, first, second)
        return "one row refused"
    assert isinstance(first, tuple) and isinstance(second, tuple)
    assert first[0] == second[0] and targets == more[1], seed
    rest = [[row for k, row in enumerate(cells) if k != place] for _, cells in (first, second)]
    assert rest[0] == rest[1], seed
    return "both read"


def check_all(path: Path, seeds: range) -> None:
    """Compare a file of each seed with a neighbour. All that can come of them does."""
    found = [check(path, seed) for seed in seeds]
    shares = {what: found.count(what) / len(found) for what in set(found)}
    print(shares)
    assert shares["both read"] > 0.15 and shares["both refused"] > 0.15 and shares["one row refused"] > 0.02


def test_no_row_decides_the_header(tmp_path: Path) -> None:
    check_all(tmp_path / "t.csv", range(120))


@pytest.mark.nightly
def test_no_row_decides_the_header_of_many_files(tmp_path: Path) -> None:
    check_all(tmp_path / "t.csv", range(5000))
