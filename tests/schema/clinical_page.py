"""Print the page of the catalogue of clinical columns, from its files.

    python tests/schema/clinical_page.py > docs/reference/clinical.md

A test compares the page with this output.
"""

from medsynth.schema import clinical
from medsynth.schema.declared import bundled_files

HEAD = """# Clinical columns

This page is for those who draft a schema. It lists the clinical variables that `medsynth schema draft` finds by the
header alone, with the widest plausible range of each. These are limits of what a body or an assay can show. They are
not normal ranges.

No cell is read for this. The files are `schemas/clinical/*.yaml`, and `medsynth/schema/clinical.py` looks names up.
There, `look_up` finds a variable, `rules` writes rules between columns, and `sex_of_code` answers for a code of ICD-10.

## How a header is read

- **A header must name one variable in full.** It can also contain a unit of this variable and words that say when a
  value was taken, such as `admission`, `max` or `Tag 2`. Any other word, or another unit, and nothing is found. So
  nothing is found for a mean, a change or a ratio of values.
- Case, accents, blanks and signs do not count: `Größe (cm)`, `groesse_cm` and `Grosse.cm.` are one name.
- **A name of at most two characters needs a unit**: `K (mmol/l)` is potassium, and nothing is found for `K`, `pt` or
  `pH`. A name in *italics* needs none. If several variables share a name, the unit decides: `RR (mmHg)`, `RR (/min)`.
- **A range needs a unit**, from the header or a usual one, which is marked. The draft leaves the range of `creatinine`
  open, because it can be in mg/dl or in µmol/l.
- Ranges in other units are converted, and rounded outwards to three digits.
- If people write levels in several ways, the draft leaves them open.

## Sources of ranges

Of several sources the widest range is listed, unless the limit is one by definition.
"""
RULES = """## Rules

`clinical.rules` writes these rules for the columns that a table has. A rule with units needs these units, and one
marked "same unit" the same unit in all columns. `x.yes` is the level of x with this meaning. A schema can take a rule
only if no row breaks it. So check that first: some hospitals record sums and indexes by other formulas.

| rule | units | reason |
|---|---|---|"""
ONE_SEX = """## Diagnoses of one sex

These groups of ICD-10 (WHO) occur in one sex only, by the titles of its chapters and categories. We compared them with
the conditions of one sex in OHDSI's DataQualityDashboard (`OMOP_CDMv5.4_Concept_Level.csv`, Apache-2.0). The sex that
an administration records can differ.
"""


def range_text(name: str, unit: str | None) -> str:
    """Return a range with its unit."""
    one = clinical.variables()[name]
    ends, digits = clinical.ends(one, unit)
    if ends is None:
        return unit or ""
    low, high = (f"{end:,.12g}" for end in ends)
    usual = " (usual)" if unit and unit == one.get("usual_unit") else ""
    decimals = f", {digits} decimal{'s' * (digits != 1)}" if digits else ""
    return f"{low} to {high}{f' {unit}' if unit else ''}{usual}{decimals}"


def line(name: str) -> str:
    """Return the table line of a variable."""
    one = clinical.variables()[name]
    names = "; ".join(", ".join(one[language]) for language in ("en", "de", "fr"))
    short = ", ".join([f"*{word}*" for word in one.get("alone", ())]
                      + [word for word in one.get("short", ()) if word not in one.get("alone", ())])  # fmt: skip
    ranges = "<br>".join(range_text(name, unit) for unit in one.get("units", [None]))
    levels = one.get("levels", "")
    if isinstance(levels, str):
        values = f"levels: {levels.replace('_', ' ')}" if levels else ranges
    else:
        values = "<br>".join(", ".join(map(str, levels_of)) for levels_of in levels)
    values = values or one["kind"]
    source = clinical.content("words")["sources"][one.get("source", "own")] if "bounds" in one else ""
    scale = ", log scale" if one.get("scale") == "log" else ""
    return f"| `{name}` | {names} | {short} | {values}{scale} | {source} |"


def page() -> str:
    """Return the whole page."""
    words, relations = clinical.content("words"), clinical.content("relations")
    lines = [HEAD, *(f"- {text[0].upper()}{text[1:]}." for text in words["sources"].values()), ""]
    for name in bundled_files("clinical"):
        if name not in clinical.SHARED:
            group = clinical.content(name)
            lines += [
                f"## {group['title']}",
                "",
                "| variable | names | short | values | source |",
                "|---|---|---|---|---|",
            ]
            lines += [*map(line, group["variables"]), ""]
    lines += ["## Levels", "", "| levels | usual ways to write them |", "|---|---|"]
    for name, family in words["levels"].items():
        sets = "<br>".join(", ".join(map(str, one)) for one in family["sets"])
        lines.append(f"| {name.replace('_', ' ')}: {', '.join(family['meanings'])} | {sets} |")
    lines += ["", RULES]
    for rule in relations["rules"]:
        units = rule.get("units", "")
        shown = (
            "same unit"
            if units == "same"
            else ", ".join(f"{key}: {unit}" for key, unit in units.items())
            if units
            else ""
        )
        lines.append(f"| `{rule['rule']}` | {shown} | {rule['why']} |")
    lines += ["", ONE_SEX]
    lines += ["| sex | groups |", "|---|---|"]
    lines += [f"| {sex} | {', '.join(codes)} |" for sex, codes in relations["one_sex"].items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
