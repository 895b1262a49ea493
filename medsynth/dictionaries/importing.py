"""Import a dictionary: recognise its form by its content, choose one of its tables, and write that table's schema.

A new form is a file of this folder, a test of its header or its keys, and a line in `_sheet` or `_json`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import SchemaError, did_you_mean, some
from ..io.formats import TableFile, is_catalogue
from ..schema.header import keys
from ..schema.rules import parse
from ..schema.schema import Schema
from . import codebook, croissant, csvw, frictionless, omop, redcap, redcap_project, statistical
from .declare import TODO, Outcome, declared
from .entry import DescribedTable, Entry
from .files import MAX_CHARACTERS, MAX_FIELDS, Faults, Lines, Sheet, read_json, read_sheet, read_text, start_of
from .write import counted, schema_text, summary_lines

LONGEST = 200  # characters of a name, a unit or a code
FORMS = (
    redcap.FORM,
    frictionless.FORM,
    csvw.FORM,
    croissant.FORM,
    omop.FORM,
    omop.SCAN,
    statistical.FORM,
    codebook.FORM,
)


@dataclass(frozen=True)
class ImportedSchema:
    """A schema as YAML text. `form`: of the dictionary; `outcomes`: by column; `remarks`: about what
    is not a column; `unfinished`: whether a TODO is left.
    """

    text: str
    form: str
    outcomes: dict[str, Outcome]
    remarks: tuple[str, ...]
    unfinished: bool

    @property
    def has_rows(self) -> bool:
        """Whether the dictionary is a file that has the table's rows as well."""
        return self.form == statistical.FORM

    @property
    def message(self) -> str:
        """Return what became of the entries, in words."""
        return "\n".join([f"{self.form}: {counted(self.outcomes)}.", *summary_lines(self.outcomes, self.remarks)])


def import_schema(
    paths: Sequence[Path], header: Sequence[str] | None = None, name: str = "", of: str | None = None,
    encoding: str | None = None, *, labels_are_public: bool = False,
) -> ImportedSchema:  # fmt: skip
    """Return the schema of a table from its dictionary. No row of a table is read.

    Args:
        paths: The dictionary; for REDCap also the project's XML file, event mapping and list of repeating forms.
        header: The table's column names, if they are known: the schema gets these columns, in this order.
        name: Of the table.
        of: The table in the dictionary, if it describes several; by default the one of that `name` or header.
        encoding: Of dictionaries in text.
        labels_are_public: Whether the labels of an SPSS, Stata or SAS file come from public knowledge, not from rows.

    Raises SchemaError for a dictionary that cannot be read, with the line of each fault.
    """
    path, form, tables = _read(paths, header or (), encoding, labels_are_public)
    table = _chosen(tables, of, name, header or (), path)
    faults = Faults(str(path))
    entries = _entries(table, header, faults)
    outcomes = dict[str, Outcome]()
    for entry in entries.values():
        try:
            outcomes[entry.name] = declared(entry)
        except ValueError as error:  # its kind stays open, too: a fit learns it
            outcomes[entry.name] = Outcome({"kind": TODO}, (), (str(error).rstrip("."),))
    faults.check()
    remarks = table.remarks
    if header is not None:
        unused = [one.name for one in table.entries if one.name not in outcomes and not one.only_if_in_table]
        remarks += (f"not columns of the table: {', '.join(unused)}",) if unused else ()
        outcomes = {column: outcomes.get(column) or _not_described(column) for column in header}
    if not outcomes:
        raise SchemaError(f"{path} describes no column.")
    if not any(column in entries for column in outcomes):
        raise SchemaError(f"{path} describes none of the table's columns. Check that it is the table's dictionary.")
    rules, lost = _rules(table, outcomes)
    name = name or table.name or path.stem
    head = table.head if "unit" not in table.head or table.head["unit"] in outcomes else {}
    if table.head and not head:
        lost.append(f"a record may have several rows, but the table has no {table.head['unit']}: no unit is declared")
    content = {"name": name, **head, "columns": {n: one.column for n, one in outcomes.items()}, "rules": rules}
    unfinished = None in head.values() or any(one.open for one in outcomes.values())
    if not unfinished:
        Schema.from_dict(content, str(path))
    remarks = (*remarks, *lost)
    text = schema_text(name, f"{path.name}, a {form}", outcomes, head, rules, remarks)
    return ImportedSchema(text, form, outcomes, remarks, unfinished)


def _read(
    paths: Sequence[Path], header: Collection[str], encoding: str | None, labels_are_public: bool
) -> tuple[Path, str, list[DescribedTable]]:
    """Return the dictionary's path, its form and its tables.

    The other files describe a REDCap project, or are the catalogue of a SAS file.
    """
    project = redcap_project.Project()
    found = list[tuple[Path, Sheet | str | DescribedTable]]()
    starts = {path: start_of(path) for path in paths}
    catalogue = next((path for path in paths if is_catalogue(path)), None)
    for path, start in starts.items():
        if path == catalogue:
            continue
        file = TableFile.of(path)
        if file.statistical:
            table = statistical.statistical(path, file.kind, encoding, catalogue, labels_are_public=labels_are_public)
            found.append((path, table))
        elif start.startswith(b"<"):
            project = project.joined(redcap_project.project_xml(path))
        elif file.kind != "workbook" and start.startswith((b"{", b"[")):
            found.append((path, read_text(path, encoding)))
        elif redcap_project.is_project((sheet := read_sheet(path, encoding)).header):
            project = project.joined(redcap_project.project_lists(sheet))
        else:
            found.append((path, sheet))
    if len(found) != 1:
        what = "the data dictionary is missing" if not found else f"{found[1][0]} is a second dictionary"
        raise SchemaError(
            f"{what}. Pass one dictionary and, for REDCap, files that describe its project. REDCap exports the data "
            "dictionary as a CSV file. A catalogue of SAS formats goes with its SAS file."
        )
    path, content = found[0]
    faults = Faults(str(path))
    if isinstance(content, DescribedTable):
        form = statistical.FORM
        tables = [content]
    elif isinstance(content, Sheet):
        form, tables = _sheet(content, project, header, faults)
    else:
        form, tables = _json(path, content, header, faults)
    faults.check()
    if catalogue and form != statistical.FORM:
        raise SchemaError(f"{path} is a {form}. Only a SAS file can be passed with a catalogue of SAS formats.")
    if project != redcap_project.Project() and form != redcap.FORM:
        raise SchemaError(f"{path} is a {form}. Only a REDCap dictionary can be passed with files about a project.")
    return path, form, tables


def _sheet(
    sheet: Sheet, project: redcap_project.Project, header: Collection[str], faults: Faults
) -> tuple[str, list[DescribedTable]]:
    """Return the form of a dictionary with one line per entry, and its tables."""
    if redcap.is_redcap(sheet.header):
        return redcap.FORM, [redcap.redcap(sheet, project, header, faults)]
    if omop.is_omop(sheet.header):
        return omop.FORM, omop.omop(sheet, faults)
    if omop.is_scan(sheet.header):
        return omop.SCAN, omop.scan_report(sheet, faults)
    if codebook.is_codebook(sheet.header):
        return codebook.FORM, [codebook.codebook(sheet, header, faults)]
    raise SchemaError(
        f"{faults.where} is not a dictionary of a known form: {', '.join(FORMS)}. A codebook needs a header with "
        "column, type, and minimum, maximum or codes. Start from the template of `schema template`."
    )


def _json(path: Path, text: str, header: Collection[str], faults: Faults) -> tuple[str, list[DescribedTable]]:
    """Return the form of a dictionary in JSON, and its tables."""
    content = read_json(path, text)
    lines = Lines(text)
    if csvw.is_csvw(content):
        return csvw.FORM, csvw.csvw(content, lines, header, faults)
    if croissant.is_croissant(content):
        return croissant.FORM, croissant.croissant(content, lines, faults)
    if frictionless.is_frictionless(content):
        return frictionless.FORM, frictionless.frictionless(content, lines, faults)
    raise SchemaError(f"{path} is JSON, but not a dictionary of a known form: {', '.join(FORMS)}.")


def _chosen(
    tables: list[DescribedTable], of: str | None, name: str, header: Collection[str], path: Path
) -> DescribedTable:
    """Return the table that is named, else the only one, else the one of the table's name or with its header."""
    names = [table.name for table in tables]
    if of is not None:
        found = [table for table in tables if table.name.lower() == of.lower()]
        if not found:
            raise SchemaError(f"{path} does not describe a table {of!r}.{did_you_mean(of, names)}")
        return found[0]
    same = [table for table in tables if table.name.lower() == name.lower()]
    whole = [table for table in tables if header and {entry.name for entry in table.entries} >= set(header)]
    for found in (tables, same, whole):
        if len(found) == 1:
            return found[0]
    raise SchemaError(f"{path} describes {len(tables)} tables: {some(names, 20)}. Set `of` to one of them.")


def _entries(table: DescribedTable, header: Sequence[str] | None, faults: Faults) -> dict[str, Entry]:
    """Return the entries that become columns, by name. Add faults for names that no column can have, or two have."""
    if sum(not entry.only_if_in_table for entry in table.entries) > MAX_FIELDS:
        raise SchemaError(f"{faults.where}: more than {MAX_FIELDS} entries. Leave out those of other tables.")
    found = dict[str, Entry]()
    lines = dict[str, int]()
    wanted = set(header or ())
    for entry in table.entries:
        labels = (entry.label, *entry.labels.values())
        written = (entry.name, entry.unit, entry.format, entry.low, entry.high, *entry.levels, *entry.missing)
        if entry.name in lines:
            first = f", first in line {lines[entry.name]}" if lines[entry.name] else ""
            faults.add(entry.line, f"{entry.name[:80]!r} is described twice{first}. Remove one.")
        elif max(map(len, labels)) > MAX_CHARACTERS or max(map(len, written)) > LONGEST:
            faults.add(
                entry.line,
                f"{entry.name[:80]!r}: a text is too long. Names and codes have at most {LONGEST} characters.",
            )
        elif not all(map(str.isprintable, written)):
            faults.add(entry.line, f"{entry.name!r}: a name, unit or code contains signs that cannot be printed.")
        elif entry.name in wanted if header is not None else not entry.only_if_in_table:
            found[entry.name] = _by_name(entry)
        lines[entry.name] = entry.line
    return found


def _by_name(entry: Entry) -> Entry:
    """Return an entry as a key if its name is that of one, and the dictionary gives neither levels nor limits."""
    if entry.type in ("", "string", "integer") and not (entry.levels or entry.low or entry.high) and keys([entry.name]):
        return replace(entry, type="key", guesses=("a key, by its name",))
    return entry


def _not_described(column: str) -> Outcome:
    """Return what a schema declares for a column that the dictionary does not describe."""
    if keys([column]):
        return declared(Entry(name=column, line=0, type="key"))
    return Outcome({"kind": TODO}, (), ("kind: the column is not in the dictionary. Copy a line of a similar column.",))


def _rules(table: DescribedTable, outcomes: dict[str, Outcome]) -> tuple[list[str], list[str]]:
    """Return the rules about columns that the schema has, and remarks about the others."""
    kinds = {name: one.column["kind"] for name, one in outcomes.items()}
    numbers = {n: kind not in ("binary", "categorical", "ordinal") for n, kind in kinds.items()
               if kind not in ("identifier", TODO)}  # fmt: skip
    rules, lost = list[str](), list[str]()
    for rule in table.rules:
        try:
            parse(rule, numbers)
            rules.append(rule)
        except ValueError as reason:
            lost.append(f"not a rule of this table ({reason}): {rule}")
    return rules, lost
