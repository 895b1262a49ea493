"""Names of patients' keys in many languages, and names that only look like them."""

import pytest

from medsynth.schema.header import is_person_key, keys, normalised, person_keys

WORDS = """Patienten-ID PatNr n_dossier codice_paziente numero_historia Pat.-Nr. patiëntnummer nr_pacjenta hasta_no
patient_id PatientID PATIENTID patientId IDPatient pat_id pat-no Pat_Nr PID MRN subject_id SUBJID USUBJID PATNO PTID
RANDID SEQN eid person_id person_source_value patient_nbr uniquepid mergeid idauniq hhidpn personnummer fødselsnummer
pasient_nr potilas_id beteg_azonosító id_paziente codigo_paciente id_paciente n_prontuario numero_prontuario
numero_expediente num_historia_clinica id_patient code_patient identifiant_patient numero_ipp Versichertennummer
Patientenkennung Probandennummer proband_id Teilnehmer-ID TeilnehmerNr Krankenaktennummer deelnemer_nr cliëntnummer
persoonsnummer numer_pacjenta id_pacjenta kod_pacjenta PESEL nr_historii_choroby číslo_pacienta id_pacienta
rodné_číslo hasta_kimlik_no dosya_no hasta_kodu deltagar_id deltager_nr CPR-nr cpr_nummer hashed_patient_id nhs_number
participant_number PASIENTNR patientnr"""
MORE = ("numéro patient", "Nº historia clínica", "n° dossier", "Patienten Nummer", "Medical Record Number",
        "Numéro de dossier", "id du patient", "Codice Fiscale", " Patient ID ", "№ patient")  # fmt: skip
KEYS = [*WORDS.split(), *MORE]
# With names of public tables: diabetes130, Titanic, MIMIC, eICU, Framingham, UCI heart, NHANES.
OTHER_WORDS = """
patient_age patient_type pat_status patience id_type numero_visitas n_children dossier_type patient_count
n_patients num_patients number_of_patients numero_pazienti numero_pacientes Anzahl_Patienten liczba_pacjentow
aantal_patienten patient_weight patient_sex pat_height person_years personyears client_type code_postal codice_icd
codigo_postal kod_pocztowy postnr Hausnummer visit_number numero_visita fallart no_show num_procedures
number_diagnoses number_inpatient patient_satisfaction inpatient_no patient_group Personalnummer icd_code code nummer nr
no number key dossier historia hasta_yasi pacjent_wiek numara Patiententyp Patientenalter participant_group person_count
subjective personality persona_dependiente historia_familiar numero_hijos cartella pt inr ptt pt_inr n_stage patent_nr
pathology_no patella patch_no hastane_no kisi_sayisi dosya_turu osoby_w_domu numer_domu admission_type_id
discharge_disposition_id admission_source_id encounter_class Pclass SibSp patient_zip_code zip age sex hospital_death
icu_type site_id centre_no device_id ward_code drug_code race time_in_hospital A1Cresult num_lab_procedures insulin
readmitted payer_code medical_specialty chol thalach oldpeak ca thal cp fbs restecg RIAGENDR RIDAGEYR INDFMPIR totChol
sysBP cigsPerDay heartRate gcs saps_ii first_careunit dbsource apacheadmissiondx unittype"""
OTHERS = OTHER_WORDS.split()


@pytest.mark.parametrize("name", KEYS)
def test_names_of_patients_keys(name: str) -> None:
    assert is_person_key(name)


def test_other_names_are_no_keys_of_patients() -> None:
    """In lower case, in capitals, and with other separators, too."""
    assert len(KEYS) >= 80 and len(OTHERS) >= 80
    forms = [form for name in OTHERS for form in (name, name.lower(), name.upper(), name.replace("_", "-"))]
    assert not [name for name in forms if is_person_key(name)]


def test_each_key_of_a_patient_is_no_column_of_a_model() -> None:
    assert person_keys(KEYS) == KEYS
    assert keys(["Patienten-ID", "age", "PatNr", "n_patients"]) == ["Patienten-ID", "PatNr"]


def test_accents_do_not_count() -> None:
    assert normalised("Patiënt-Nr.") == "patientnr" and normalised("Fødselsnummer") == "fodselsnummer"
