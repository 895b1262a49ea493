"""The catalogue of clinical columns: names as hospitals write them, ranges in all units, rules, and public tables."""

import math
import os
import runpy
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medsynth.schema import clinical
from medsynth.schema.cells import USUAL_WORDS
from medsynth.schema.clinical import ClinicalColumn, look_up, sex_of_code
from medsynth.schema.columns.column import Column
from medsynth.schema.columns.registry import parse_column
from medsynth.schema.declared import bundled_files, parse_yaml
from medsynth.schema.header import is_person_key, keys
from medsynth.schema.rules import parse

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).parent / "clinical_page.py"
ENTRIES = """en de fr short alone kind units usual_unit bounds other_bounds other_decimals molar_mass decimals scale
levels source mimic"""
HEADERS = {
    "Kreatinin (mg/dl)": "creatinine mg/dl", "crp_mg_l": "crp mg/l", "Hb [g/dL]": "hemoglobin g/dl",
    "HR": "heart_rate /min", "RR_sys": "systolic mmHg", "Temp °C": "temperature °C",
    "creatinine_umol_l": "creatinine umol/l", "SpO2 (%)": "oxygen_saturation %", "Größe (cm)": "height cm",
    "Groesse_cm": "height cm", "Taille (cm)": "height cm", "BMI (kg/m²)": "bmi kg/m2", "Alter (Jahre)": "age years",
    "Leukozyten [/nl]": "leukocytes 10^9/l", "WBC 10^9/L": "leukocytes 10^9/l", "WBC (×10³/µl)": "leukocytes 10^9/l",
    "Kreatinin..µmol.l.": "creatinine umol/l", "C-reaktives Protein (CRP) mg/l": "crp mg/l",
    "Kreatinin_Aufnahme (µmol/l)": "creatinine umol/l", "CRP Tag 2 (mg/l)": "crp mg/l", "CRP, mg per l": "crp mg/l",
    "Creatinine in plasma, umol/L": "creatinine umol/l", "HeartRateMax": "heart_rate /min",
    "Puls [1/min]": "heart_rate /min", "RR (mmHg)": "blood_pressure mmHg", "RR (/min)": "respiratory_rate /min",
    "K (mmol/l)": "potassium mmol/l", "pH arteriell": "ph", "Natrium": "sodium mmol/l",
    "plaquettes (G/l)": "platelets 10^9/l", "Hb (mmol/l)": "hemoglobin mmol/l", "height_in": "height in",
    "Quick (%)": "quick %", "CA 125 (U/ml)": "ca_125 kU/l", "Fréquence cardiaque (/min)": "heart_rate /min",
    "tension artérielle systolique (mmHg)": "systolic mmHg", "HbA1c (mmol/mol)": "hba1c mmol/mol",
    "los_d": "length_of_stay days", "Verweildauer (Tage)": "length_of_stay days", "TSH (mIU/l)": "tsh mU/l",
    "D-Dimere (mg/l FEU)": "d_dimer mg FEU/l", "Hämoglobin": "hemoglobin", "serBilir": "bilirubin",
    "Aufnahmedatum": "admission_date", "Geschlecht": "sex", "Hauptdiagnose (ICD-10)": "main_diagnosis",
    "Raucher": "smoking", "PaO2/FiO2 (mmHg)": "pf_ratio mmHg", "Temperature (°F)": "temperature °F",
    "ALAT (µkat/l)": "alt ukat/l", "eGFR (ml/min/1,73m²)": "egfr ml/min/1.73m2",
}  # fmt: skip
NO_NAMES = """
pt ca k na ph mg Hb RR K+ x y id ward Station Fallnummer Patienten-ID hr_mean RR_min delta_crp crp_change crp_ratio
n_creatinine insulin lithium class target PLZ Bemerkung time temp_diff weight_kg_m2 age_group bmi_class plasma min
date unit hazard_ratio note_crp sodium_intake_mg iron_dose_mg"""
PHRASES = ("Kreatinin (mg/24h)", "CRP (%)", "Temp (mg/dl)", "mean heart rate", "Kreatinin zu Albumin", "", " ", "()",
           "mg/dl", "a b c d e f g h i j k l m n o p", "crp " * 20)  # fmt: skip


def found_text(found: ClinicalColumn | None) -> str:
    return "" if found is None else f"{found.name} {found.unit or ''}".strip()


def test_headers_as_hospitals_write_them() -> None:
    assert {header: found_text(look_up(header)) for header in HEADERS} == HEADERS


def test_a_header_that_is_not_one_variable_finds_nothing() -> None:
    assert [header for header in (*NO_NAMES.split(), *PHRASES) if look_up(header)] == []


def test_a_unit_may_come_from_elsewhere() -> None:
    assert (
        found_text(look_up("Kreatinin", "µmol/l"))
        == found_text(look_up("Kreatinin (µmol/l)", "umol/L"))
        == "creatinine umol/l"
    )
    assert found_text(look_up("K", "mmol/l")) == "potassium mmol/l"
    assert look_up("Kreatinin (mg/dl)", "µmol/l") is look_up("Kreatinin", "kg") is look_up("K", "") is None
    bare = look_up("Kreatinin", "-")
    assert bare and (bare.unit, bare.bounds, bare.decimals, bare.declaration()) == (None, None, None, {})


@settings(deadline=None)
@given(st.sampled_from(sorted(HEADERS)), st.sampled_from([str.upper, str.lower, str.title]), st.sampled_from(" _-."))
def test_case_and_separators_do_not_count(header: str, cased: object, sign: str) -> None:
    """But for signs within units, such as 10^9."""
    assert callable(cased)
    other = cased(header.replace("HeartRateMax", "Heart Rate Max").replace("serBilir", "Serbilir")).replace(" ", sign)
    assert found_text(look_up(other)) == HEADERS[header]


@settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=10) | st.none())
def test_any_text_is_a_header(header: str, unit: str | None) -> None:
    found = look_up(header, unit)
    assert found is None or found.name in clinical.variables()


def test_keys_of_patients_are_not_clinical() -> None:
    """The two lists of names do not overlap: a key is never drafted as a measurement."""
    named = [text for one in clinical.variables().values() for key in clinical.NAMES for text in one.get(key, ())]
    assert [name for name in named if is_person_key(name)] == keys(named) == []


def test_names_are_unique_in_each_language() -> None:
    for language in ("en", "de", "fr"):
        owners: dict[str, set[str]] = {}
        for name, one in clinical.variables().items():
            for text in one[language]:
                owners.setdefault("".join(clinical.spelled(text)), set()).add(name)
        assert {text: of for text, of in owners.items() if len(of) > 1} == {}, language
    shared = {text: of for text, of in clinical._index("names").items() if len(of) > 1}
    for text, of in shared.items():  # abbreviations: their units differ, so a unit decides
        units = Counter(unit for name in of for unit in clinical.variables()[name].get("units", ["none"]))
        assert max(units.values()) == 1, (text, of)


def test_entries_are_known_and_each_range_has_a_source() -> None:
    words = clinical.content("words")
    assert len(clinical.variables()) >= 150
    assert len(clinical.variables()) == sum(
        len(clinical.content(name)["variables"]) for name in bundled_files("clinical") if name not in clinical.SHARED
    )
    for name, one in clinical.variables().items():
        assert set(one) <= set(ENTRIES.split()) and all(one[language] for language in ("en", "de", "fr")), name
        assert set(one.get("units", ())) <= set(words["units"]), name
        assert {one["usual_unit"]} <= set(one["units"]) if "usual_unit" in one else True, name
        assert one.get("source", "own") in words["sources"], name
        assert all(len(text) <= clinical.SHORT and text in one["short"] for text in one.get("alone", ())), name
        assert "bounds" in one or one.get("kind") in ("binary", "categorical", "ordinal", "date", "parts"), name


def all_columns() -> Iterator[ClinicalColumn]:
    """Each variable in each unit."""
    for name, one in clinical.variables().items():
        for unit in one.get("units", [""]):
            yield clinical._column(name, unit, frozenset())


def test_each_entry_makes_a_column_of_a_schema() -> None:
    for found in all_columns():
        for levels in found.level_sets or [found.levels]:
            declared = replace(found, levels=levels).declaration()
            if not declared:
                assert found.kind in ("date", "parts", "categorical"), found
                continue
            column = parse_column(declared)
            assert isinstance(column, Column) and column.size > 1, found


# Factors of tables of conversion in textbooks, from the first to the second unit.
FACTORS = {
    "creatinine": ("mg/dl", "umol/l", 88.4), "glucose": ("mg/dl", "mmol/l", 0.0555),
    "urea": ("mg/dl", "mmol/l", 0.1665), "cholesterol": ("mg/dl", "mmol/l", 0.02586),
    "triglycerides": ("mg/dl", "mmol/l", 0.01129), "bilirubin": ("mg/dl", "umol/l", 17.1),
    "calcium": ("mmol/l", "mg/dl", 4.008), "uric_acid": ("mg/dl", "umol/l", 59.48),
    "hemoglobin": ("g/dl", "mmol/l", 0.6206), "magnesium": ("mg/dl", "mmol/l", 0.4114),
    "pco2": ("mmHg", "kPa", 0.1333), "phosphate": ("mg/dl", "mmol/l", 0.3229),
    "urea_nitrogen": ("mg/dl", "mmol/l", 0.357), "iron": ("ug/dl", "umol/l", 0.179),
    "free_t4": ("pmol/l", "ng/dl", 0.0777), "vitamin_d": ("ug/l", "nmol/l", 2.496),
    "vitamin_b12": ("ng/l", "pmol/l", 0.738), "cortisol": ("nmol/l", "ug/dl", 0.03625),
    "testosterone": ("ug/l", "nmol/l", 3.467), "alt": ("U/l", "ukat/l", 0.01667),
    "lactate": ("mmol/l", "mg/dl", 9.008), "weight": ("kg", "lb", 2.2046), "height": ("cm", "in", 0.3937),
    "insulin": ("mU/l", "pmol/l", 7.0), "albumin_creatinine_ratio": ("mg/g", "mg/mmol", 0.1131),
    "folate": ("ug/l", "nmol/l", 2.266), "estradiol": ("ng/l", "pmol/l", 3.671),
    "leukocytes": ("10^9/l", "/ul", 1000), "crp": ("mg/l", "mg/dl", 0.1), "troponin_t": ("ng/l", "ug/l", 0.001),
    "egfr": ("ml/min/1.73m2", "ml/min/1.73m2", 1),
}  # fmt: skip
AFFINE = {"temperature": ("°C", "°F", 1.8, 32.0), "hba1c": ("%", "mmol/mol", 10.93, -23.5)}


def ends_in(name: str, unit: str) -> np.ndarray:
    found = clinical._column(name, unit, frozenset())
    assert found.bounds is not None
    return np.array(found.bounds)


def test_units_that_convert_agree() -> None:
    """By factors from elsewhere, and for all units of a quantity by their sizes: the same range within rounding."""
    for name, (one, other, factor) in FACTORS.items():
        np.testing.assert_allclose(ends_in(name, other), factor * ends_in(name, one), rtol=0.03, atol=1, err_msg=name)
    for name, (one, other, factor, start) in AFFINE.items():
        np.testing.assert_allclose(ends_in(name, other), factor * ends_in(name, one) + start, atol=5, err_msg=name)
    sizes = clinical.content("words")["units"]
    for name, variable in clinical.variables().items():
        units = variable.get("units", ()) if "bounds" in variable else ()
        for one in units[:1]:
            for other in units:
                if sizes[one]["of"] == sizes[other]["of"] and other not in variable.get("other_bounds", {}):
                    factor = sizes[one]["size"] / sizes[other]["size"]
                    first, last = factor * ends_in(name, one)
                    step = 10.0 ** (math.floor(math.log10(max(-first, last))) - 2)
                    own = ends_in(name, other)
                    assert 0 <= first - own[0] + 1e-9 * max(1, abs(first)) <= 1.1 * step, (name, one, other)
                    assert 0 <= own[1] - last + 1e-9 * max(1, abs(last)) <= 1.1 * step, (name, one, other)


def test_unconvertible_units_state_their_bounds() -> None:
    sizes = clinical.content("words")["units"]
    for name, one in clinical.variables().items():
        for unit in one.get("units", ())[1:]:
            kinds = {sizes[one["units"][0]]["of"], sizes[unit]["of"]}
            moles = kinds == {"gram", "mole"} and "molar_mass" in one
            assert len(kinds) == 1 or moles or unit in one.get("other_bounds", {}) or "bounds" not in one, (name, unit)


def folder_of(name: str) -> Path:
    places = [os.environ.get("MEDSYNTH_DATA"), ROOT.parent / "shared" / "data"]
    found = next((Path(place) / name for place in places if place and (Path(place) / name).exists()), None)
    if found is None:
        pytest.skip(f"no public files of {name}: set MEDSYNTH_DATA to their folder")
    return found


UNITS_OF_MIMIC = {"Fraction inspired oxygen": "fraction", "Troponin-I": "ug/l", "Troponin-T": "ug/l", "Albumin": "g/dl",
                  "Urine output": "ml"}  # fmt: skip


def test_ranges_contain_the_valid_ranges_of_mimic_extract() -> None:
    """A lowest value of 0 there means that none is set. One that is taken over has the widest range there."""
    table = pd.read_csv(folder_of("clinical") / "mimic_extract_ranges.csv").groupby("LEVEL2").first()
    rows = table.to_dict("index")
    for name, one in clinical.variables().items():
        if "mimic" not in one:
            continue
        row = rows[one["mimic"]]
        low, high = ends_in(name, UNITS_OF_MIMIC.get(one["mimic"], one["units"][0] if "units" in one else ""))
        assert high >= row["VALID HIGH"] and (low <= row["VALID LOW"] or row["VALID LOW"] == 0), name
        if one["source"] == "mimic" if "source" in one else False:
            assert high in (row["OUTLIER HIGH"], row["VALID HIGH"]), name
    named = {one["mimic"] for one in clinical.variables().values() if "mimic" in one}
    lacking = set(table.index[table["VALID HIGH"].notna()]) - named
    assert lacking == {"Capillary refill rate"}  # it is a yes or no there


PUBLIC = {
    "pbc": {"age": "years", "serBilir": "mg/dl", "serChol": "mg/dl", "albumin": "g/dl", "alkaline phosphatase": "U/l",
            "SGOT": "U/l", "platelets": "10^9/l", "prothrombin": "s"},
    "diabetes130": {"time_in_hospital": "days"},
    "sklearn": {"age": "years", "bmi": "kg/m2", "map": "mmHg", "cholesterol": "mg/dl", "ldl": "mg/dl", "hdl": "mg/dl",
                "glucose": "mg/dl"},
    "statsmodels": {"age": "years"},
    "thyroid": {"age": "years"},
}  # fmt: skip
WRONG: dict[tuple[str, str], int] = {}  # cells of public tables that are listed errors


def public_table(name: str) -> pd.DataFrame:
    if name == "pbc":
        found = pd.read_csv(folder_of(name) / "pbc2.csv.gz")
        return found.rename(columns={"alkaline": "alkaline phosphatase"})
    if name == "diabetes130":
        return pd.read_csv(folder_of(name) / "diabetic_data.zip", usecols=["time_in_hospital"])
    if name == "thyroid":
        folder = folder_of(name)
        parts = [pd.read_csv(folder / f"ann-{part}.data", sep=r"\s+", header=None) for part in ("train", "test")]
        return pd.DataFrame({"age": pd.concat(parts)[0] * 100})
    if name == "statsmodels":
        from statsmodels.datasets import heart

        return pd.DataFrame(heart.load_pandas().data)
    from sklearn.datasets import load_diabetes

    frame: pd.DataFrame = load_diabetes(as_frame=True, scaled=False).frame
    return frame.rename(columns={"bp": "map", "s1": "cholesterol", "s2": "ldl", "s3": "hdl", "s6": "glucose"})


@pytest.mark.nightly_for("sklearn", "diabetes130")
@pytest.mark.parametrize("name", PUBLIC)
def test_no_value_of_a_public_table_lies_outside(name: str) -> None:
    table = public_table(name)
    for column, unit in PUBLIC[name].items():
        found = look_up(column, unit)
        assert found and found.bounds, column
        values = pd.to_numeric(table[column]).dropna().to_numpy(float)
        outside = int(((values < found.bounds[0]) | (values > found.bounds[1])).sum())
        assert len(values) > 50 and outside == WRONG.get((name, column), 0), (column, outside)


def with_levels(found: ClinicalColumn) -> ClinicalColumn:
    return replace(found, levels=found.level_sets[0]) if found.level_sets else found


def test_each_rule_is_about_variables_and_is_one_of_a_schema() -> None:
    """In the units that it needs, with the names of columns as people write them."""
    for rule in clinical.content("relations")["rules"]:
        named = {key for key, _ in clinical._IN_RULE.findall(rule["rule"])}
        assert named <= set(clinical.variables()) and rule["why"], rule
        units = rule.get("units", {})
        wanted = units if isinstance(units, dict) else {}
        columns = {}
        for key in named:
            unit = wanted.get(key, clinical.variables()[key].get("units", [""])[0])
            columns[f"{key} (1)"] = with_levels(clinical._column(key, unit, frozenset()))
        texts = [text for text in clinical.rules(columns) if all(f"`{name}`" in text for name in columns)]
        parsed = parse(texts[0], {name: not found.level_sets for name, found in columns.items()})
        assert parsed.columns | {parsed.defines or texts[0]} - {texts[0]} == set(columns), rule
        assert bool(parsed.defines) == (" = " in rule["rule"] and "implies" not in rule["rule"]), rule


def columns_of(*headers: str) -> dict[str, ClinicalColumn]:
    found = {header: look_up(header) for header in headers}
    return {header: column for header, column in found.items() if column}


def test_rules_join_columns_of_the_same_moment_and_unit() -> None:
    rules = clinical.rules(
        columns_of("sbp_1", "dbp_1", "RR_sys", "RR_dia", "sbp_max", "HDL (mg/dl)", "Cholesterin (mmol/l)")
    )
    assert rules == ["sbp_1 > dbp_1", "RR_sys > RR_dia"]
    weights = columns_of("Gewicht Aufnahme (kg)", "Größe (cm)", "BMI Aufnahme", "Gewicht max (kg)", "BMI max")
    assert clinical.rules(weights) == ["`BMI Aufnahme` = `Gewicht Aufnahme (kg)` / `Größe (cm)` / `Größe (cm)` * 10000"]
    assert (
        clinical.rules(columns_of("sbp", "systolic", "dbp")) == clinical.rules(columns_of("HDL", "cholesterol")) == []
    )
    assert clinical.rules({"a`b": look_up("sbp"), "dbp": look_up("dbp")}) == []  # type: ignore[dict-item]


def test_rules_about_levels_write_them_as_the_column_does() -> None:
    both = columns_of("schwanger", "Geschlecht")
    assert clinical.rules(both) == []
    known = {
        "schwanger": replace(both["schwanger"], levels=("Ja", "Nein")),
        "Geschlecht": replace(both["Geschlecht"], levels=("m", "w", "d")),
    }
    assert clinical.rules(known) == ['schwanger = "Ja" implies Geschlecht = "w"']
    unclear = known | {"Geschlecht": replace(both["Geschlecht"], levels=(0, 1))}  # which of them is female?
    assert clinical.rules(unclear) == []


def test_families_of_levels_contain_the_usual_words() -> None:
    """Which a fit without a schema knows: the lists agree."""
    sets = {
        frozenset(str(level).lower() for level in one)
        for family in clinical.content("words")["levels"].values()
        for one in family["sets"]
    }
    for words in USUAL_WORDS:
        if {"yes", "female", "m", "alive", "dead", "died", "former", "positive", "neg"} & set(words):
            assert frozenset(words) in sets, words
    for family in clinical.content("words")["levels"].values():
        assert all(2 <= len(one) <= len(family["meanings"]) for one in family["sets"])


FEMALE = "O9A.1 C51 C53.9 C58 D06 D07.0 D25.1 O00 O80.0 O99.8 N70 N92.1 N80.1 N98 Z34.9 Q96.0 R87 S37.5 T19.3 E28.2"
MALE = "C60 C61 C62.1 C63 D07.5 D29.1 D40 N40 N45.0 N50 Q53.1 Q98 R86 Z12.5 B26.0 N51"
BOTH = "P00.1 C50.9 C64 D07 D24 E11.9 I10 N39.0 N60 N62 N64 N99 P07.1 Q56 R88 Z38.0 Z00 I86 S37.0 Z40 A33 A35 D05"


def test_diagnoses_of_one_sex() -> None:
    assert [code for code in FEMALE.split() if sex_of_code(code) != "female"] == []
    assert [
        code
        for code in MALE.split()
        if sex_of_code(code) != "male" or sex_of_code(code.replace(".", "").lower()) != "male"
    ] == []
    assert [code for code in BOTH.split() if sex_of_code(code)] == []


def test_the_c_library_reads_the_catalogue_as_schemas_are_read() -> None:
    for name, path in bundled_files("clinical").items():
        assert repr(clinical.content(name)) == repr(parse_yaml(path.read_text(encoding="utf-8"), name))


def test_the_catalogue_is_installed() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = setup["package-data"]["medsynth_schemas"]
    shipped = {path for pattern in patterns for path in (ROOT / "schemas").glob(pattern)}
    assert shipped >= set((ROOT / "schemas").rglob("*.yaml"))


def test_the_page_lists_the_catalogue() -> None:
    page = ROOT / "docs" / "reference" / "clinical.md"
    made = runpy.run_path(str(PAGE))["page"]()
    assert page.read_text() == made, "python tests/schema/clinical_page.py > docs/reference/clinical.md"
