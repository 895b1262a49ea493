"""FHIR: synthetic OMOP tables as files of resources (ndjson), one per type. No private row is read.

fhir.resources checks each resource against R4B. Only elements that R4 has, too, are used, so both versions read the
files. Each resource has a label that it is synthetic, and a Provenance states how the rows were drawn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from html import escape
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from .. import __version__
from ..artifact import Model, claim, leans_on
from ..dictionaries.concepts import Concept, read_concepts
from ..errors import UsageError
from ..io.atomic import check_outputs, whole_folder, write_together
from ..sampling.provenance import Provenance
from .facts import proven
from .omop import Exported, Repairs, check_cdm, drawn_cells

Json = dict[str, Any]
Concepts = Mapping[str, Concept]
Reader = Callable[[str, Concepts], object]  # from a cell, "" if it is missing, to an element, None without one

HL7 = "http://terminology.hl7.org/CodeSystem"
OMOP = "https://fhir-terminology.ohdsi.org"  # of OHDSI's own concept ids, as other mappings to FHIR have it
SYSTEMS = {
    "SNOMED": "http://snomed.info/sct",
    "LOINC": "http://loinc.org",
    "RxNorm": "http://www.nlm.nih.gov/research/umls/rxnorm",
    "UCUM": "http://unitsofmeasure.org",
    "ATC": "http://www.whocc.no/atc",
    "ICD10": "http://hl7.org/fhir/sid/icd-10",
    "ICD10CM": "http://hl7.org/fhir/sid/icd-10-cm",
    "ICD9CM": "http://hl7.org/fhir/sid/icd-9-cm",
    "NDC": "http://hl7.org/fhir/sid/ndc",
    "CVX": "http://hl7.org/fhir/sid/cvx",
}
GENDERS = {"8507": "male", "8532": "female", "8521": "other"}
CLASSES = {"9201": "IMP", "9202": "AMB", "9203": "EMER", "262": "IMP"}  # of visits
LABELS = {"security": [
    {"system": f"{HL7}/v3-ActReason", "code": "HTEST", "display": "test health data"},
    {"system": "urn:medsynth:label", "code": "synthetic", "display": "SYNTHETIC: drawn by a model"},
]}  # fmt: skip
PROVENANCE = "Provenance"
NO_CONCEPT = {"text": "No matching concept"}
IDENTIFIER = re.compile(r"[A-Za-z0-9.-]{1,64}")
MEASURED = re.compile(r"(<=|>=|<|>|) *(-?\d+(?:\.\d+)?)")


@dataclass(frozen=True, kw_only=True)
class Elements:
    """The resource that a row of a table becomes: constant elements, and those read from a column's cell.

    A row whose table lacks the first of these columns becomes none.
    """

    type: str
    read: tuple[tuple[str, str, Reader], ...]  # the element, with points before its parts; the column; the reader
    constant: Json = field(default_factory=dict)


def _plain(cell: str, concepts: Concepts) -> str | None:
    return cell or None


def _concept(cell: str, concepts: Concepts) -> Json:
    """Return the code of a concept id: in its own vocabulary if the steward's file has it, else the id in OHDSI's."""
    if cell in ("", "0"):
        return NO_CONCEPT
    found = concepts.get(cell)
    name = {"display": found.name} if found and found.name else {}
    if found and found.vocabulary in SYSTEMS:
        return {"coding": [{"system": SYSTEMS[found.vocabulary], "code": found.code, **name}]}
    return {"coding": [{"system": OMOP, "code": cell, **name}]} if cell.isdecimal() else {"text": cell}


def _gender(cell: str, concepts: Concepts) -> str:
    return GENDERS.get(cell, "unknown")


def _class(cell: str, concepts: Concepts) -> Json:
    return {"system": f"{HL7}/v3-ActCode", "code": CLASSES[cell]} if cell in CLASSES else {
        "system": f"{HL7}/v3-NullFlavor", "code": "UNK"}  # fmt: skip


def _reference(table: str, cell: str, concepts: Concepts) -> Json | None:
    return {"reference": f"{TABLES[table].type}/{_id(table, cell)}"} if cell else None


def _quantity(cell: str, concepts: Concepts) -> Json | None:
    """Return a number; "<0.1", at a limit of its assay, has a comparator."""
    if (found := MEASURED.fullmatch(cell)) is None:
        return None
    return {"value": json.loads(found[2]), **({"comparator": found[1]} if found[1] else {})}


def _id(table: str, key: str) -> str:
    name = f"{table.replace('_', '-')}-{key}"
    if not IDENTIFIER.fullmatch(name):
        cure = "Declare such a `shape` of its keys, and fit again."
        raise UsageError(f"{table!r}: FHIR needs keys of letters, digits, points and hyphens, 40 at most. {cure}")
    return name


_PATIENT = ("subject", "person_id", partial(_reference, "person"))
_VISIT = ("visit_occurrence_id", partial(_reference, "visit_occurrence"))
DIED = ("deceasedDateTime", "death_date", _plain)
TABLES = {
    "person": Elements(type="Patient", read=(
        ("gender", "gender_concept_id", _gender), ("birthDate", "year_of_birth", _plain), DIED,
    )),
    "visit_occurrence": Elements(type="Encounter", constant={"status": "finished"}, read=(
        ("class", "visit_concept_id", _class), ("type.", "visit_concept_id", _concept), _PATIENT,
        ("period.start", "visit_start_date", _plain), ("period.end", "visit_end_date", _plain),
    )),
    "condition_occurrence": Elements(type="Condition", read=(
        ("code", "condition_concept_id", _concept), _PATIENT, ("encounter", *_VISIT),
        ("onsetDateTime", "condition_start_date", _plain),
    )),
    "drug_exposure": Elements(type="MedicationStatement", constant={"status": "unknown"}, read=(
        ("medicationCodeableConcept", "drug_concept_id", _concept), _PATIENT, ("context", *_VISIT),
        ("effectivePeriod.start", "drug_exposure_start_date", _plain),
        ("effectivePeriod.end", "drug_exposure_end_date", _plain),
    )),
    **{table: Elements(type="Observation", constant={"status": "final"}, read=(
        ("code", f"{table}_concept_id", _concept), _PATIENT, ("encounter", *_VISIT),
        ("effectiveDateTime", f"{table}_date", _plain), ("valueQuantity", "value_as_number", _quantity),
    )) for table in ("measurement", "observation")},
}  # fmt: skip


def write_fhir(
    model: Model, model_path: Path, synthetic: Path, concepts: Path | None, folder: Path, *, force: bool = False
) -> Exported:
    """Write the OMOP tables in the folder `synthetic` as FHIR resources into `folder`, whole or not at all.

    `concepts`: the file CONCEPT.csv with the codes of concept ids. Raises UsageError unless the model drew these
    tables, as `proven` does, or if they are not OMOP's; TableError for a wrong file of concepts; MedsynthError for a
    folder with other files; OutputExists unless `force`.
    """
    _check(model)
    classes = {name: _class_of(name) for name in dict.fromkeys([*(TABLES[t].type for t in _shown(model)), PROVENANCE])}
    files = {name: folder / f"{name}.ndjson" for name in classes}
    found = proven(model, model_path, synthetic)
    ids = _concept_ids(model)
    known = {} if concepts is None else read_concepts(concepts, ids)
    counts, repairs = dict.fromkeys(classes, 0), Repairs()

    def write(opened: dict[str, BinaryIO]) -> None:
        for content in chain(_resources(model, found, known, repairs), [_provenance(model, found)]):
            classes[content["resourceType"]].model_validate(content)
            line = json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"
            opened[content["resourceType"]].write(line.encode())
            counts[content["resourceType"]] += 1

    with whole_folder(folder, [path.name for path in files.values()]):
        check_outputs(*files.values(), force=force)
        write_together(files, write, force=force)
    uncoded = sorted(one for one in ids if one not in known or known[one].vocabulary not in SYSTEMS)
    return Exported(files=[*files.values()], counts=counts, left_out=_left_out(model), uncoded=uncoded, repairs=repairs)


def _class_of(name: str) -> Any:
    try:
        return getattr(import_module(f"fhir.resources.R4B.{name.lower()}"), name)
    except ImportError:
        raise UsageError("FHIR needs the package fhir.resources. Run: pip install 'medsynth[fhir]'.") from None


def _shown(model: Model) -> list[str]:
    return [table for table in TABLES if model.tables is not None and table in model.tables.tables]


def _check(model: Model) -> None:
    """Raise UsageError unless the model draws OMOP tables with the columns that resources need."""
    check_cdm(model)
    for table in _shown(model):
        for name in (f"{table}_id", TABLES[table].read[0][1]):
            if name not in model.written[table].header:
                raise UsageError(f"{table!r} has no column {name!r}, which FHIR needs. Add it, and fit again.")


def _concept_ids(model: Model) -> set[str]:
    """Return the levels of all columns that become codes, but for 0, no concept."""
    read = [(t, column) for t in _shown(model) for _, column, how in TABLES[t].read if how is _concept]
    columns = [model.written[table].columns.get(name) for table, name in read]
    return {str(level) for column in columns if column is not None for level in column.levels} - {"0", ""}


def _left_out(model: Model) -> list[str]:
    """Return the columns for which no resource has an element, as table.column."""
    used = {(t, column) for t in _shown(model) for column in (f"{t}_id", *(name for _, name, _ in TABLES[t].read))}
    used |= {("death", "person_id"), ("death", DIED[1])}
    written = [(t, name) for t, schema in model.written.items() for name, one in schema.columns.items() if one.written]
    return [f"{t}.{name}" for t, name in written if (t, name) not in used]


def _resources(model: Model, found: Provenance, concepts: Concepts, repairs: Repairs) -> Iterator[Json]:
    """Yield the resources of all rows, drawn again as on file; no file of rows is parsed."""
    for cells in drawn_cells(model, found, repairs):
        if "death" in cells and DIED[1] in cells["death"]:
            died = cells["death"].drop_duplicates("person_id")[["person_id", DIED[1]]]
            cells["person"] = cells["person"].merge(died, on="person_id", how="left").fillna("")
        for table in _shown(model):
            names = [*cells[table].columns]
            known = {*names} - ({_VISIT[0]} - {*model.links(table)})  # a visit that is not a row has no Encounter
            read = [(path, names.index(name), how) for path, name, how in TABLES[table].read if name in known]
            key = names.index(f"{table}_id")
            for row in cells[table].itertuples(index=False, name=None):
                content = {"resourceType": TABLES[table].type, "id": _id(table, row[key]), "meta": LABELS}
                content |= TABLES[table].constant
                for path, place, how in read:
                    if (value := how(row[place], concepts)) is not None:
                        _put(content, path, value)
                yield content


def _put(content: Json, path: str, value: object) -> None:
    """Set an element, or its part after a point. An element that ends with a point is a list."""
    name, point, part = path.partition(".")
    if part:
        content.setdefault(name, {})[part] = value
    else:
        content[name] = [value] if point else value


def _provenance(model: Model, found: Provenance) -> Json:
    """Return the resource that states how all others were made."""
    words = ["SYNTHETIC: medsynth drew all resources from a model.", claim(model), leans_on(model)]
    statement = escape(" ".join(words).strip())
    return {
        "resourceType": PROVENANCE, "id": "synthetic", "meta": LABELS,
        "text": {"status": "generated",
                 "div": f'<div xmlns="http://www.w3.org/1999/xhtml"><p>{statement}</p></div>'},
        "target": [{"display": "All resources in the files of this folder"}],
        "recorded": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "activity": {"coding": [{"system": f"{HL7}/v3-DataOperation", "code": "CREATE", "display": "create"}]},
        "agent": [{
            "type": {"coding": [{"system": f"{HL7}/provenance-participant-type", "code": "assembler"}]},
            "who": {"display": f"medsynth {__version__}"},
        }],
        "entity": [{"role": "derivation",
                    "what": {"display": f"{found.model}, SHA-256 {found.model_sha256}, seed {found.seed}"}}],
    }  # fmt: skip
