"""Where to find several tables: the file that names them and the folder of their files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TableError, UsageError
from ..io.formats import SUFFIXES_TRIED, named
from ..schema.declared import ENDING, bundled_files
from ..schema.linked import LinkedTables

BUNDLED = {"person": "omop"}  # a table that such a folder contains, and the bundled file of tables to use for it
OPTIONAL = ("death",)  # bundled tables that a folder may lack


@dataclass(frozen=True, kw_only=True)
class Source:
    """The tables, the `folder` of their files, and the `name` of outputs."""

    tables: LinkedTables
    folder: Path
    name: str
    declared_in: Path | None = None

    def file(self, table: str) -> Path:
        """Return the file of a table. Raise TableError if it is missing."""
        name = self.tables.tables[table].file or table
        path = self.folder / name
        found = path if path.is_file() else named(self.folder, name)
        if found is None:
            endings = ", ".join(SUFFIXES_TRIED)
            raise TableError(f"{self.folder} has no table {name!r}: tried {name} with {endings}. Check the name.")
        return found

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that a fit reads."""
        own = (self.declared_in,) if self.declared_in else ()
        return (*own, *(self.file(table) for table in self.tables.tables))


def is_linked(path: Path) -> bool:
    """Return whether a path names several tables: a folder, or a file with the ending of files that name them."""
    return path.name.endswith(ENDING) or is_folder(path)


def is_folder(path: Path) -> bool:
    """Return whether there is a folder of that name; False for an impossible name."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def bundled_text(name: str) -> str:
    """Return the text of the file of tables with this name that comes with medsynth."""
    return bundled_files()[name].read_text("utf-8")


def bundled(name: str) -> LinkedTables:
    """Return the tables that it names."""
    return LinkedTables.from_yaml(bundled_text(name), name)


def find(path: Path, notice: Callable[[str], None] = lambda text: None) -> Source:
    """Find the tables that a path names: a file that ends in ENDING, or a folder with such a file or OMOP tables.

    Raises TableError, SchemaError or UsageError.
    """
    if not path.is_dir():
        tables = LinkedTables.load(path)
        return Source(tables=tables, folder=path.parent, name=path.name.removesuffix(ENDING), declared_in=path)
    own = sorted(path.glob(f"*{ENDING}"))
    if len(own) > 1:
        raise UsageError(f"{path} contains several files that name tables. Pass one of them, such as {own[0]}.")
    if own:
        return find(own[0])
    for table, name in BUNDLED.items():
        if named(path, table):
            content: dict[str, Any] = bundled(name).to_dict()
            lacking = [other for other in OPTIONAL if not named(path, other)]
            content["tables"] = {key: one for key, one in content["tables"].items() if key not in lacking}
            left = f", without {', '.join(lacking)}, which the folder lacks" * bool(lacking)
            notice(f"Tables: the bundled {name!r}, recognised by the table {table!r}{left}.")
            return Source(tables=LinkedTables.from_dict(content, name), folder=path, name=path.resolve().name)
    raise TableError(
        f"{path} is a folder without a file *{ENDING} that names its tables (docs/several-tables.md). Write one. If "
        "its files are parts of one table, fit them on a cluster with `scheduler` (docs/how-to/cluster.md)."
    )
