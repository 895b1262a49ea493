"""Simulate the records of a thyroid clinic: SIMULATED data. No row describes a real person.

The cohort serves demonstrations and tests. It has the shape of a clinical table: rare diagnoses, skewed hormones with
detection limits, treatment effects, heaped readings, values missing for a reason. The functions below give each
relation with its physiological reason. The constants are plausible for adults and fitted to no data, so the rows teach
nothing medical. Draws are made in a fixed order: equal seeds give equal bytes. As a script it rewrites the two
committed tables, or writes one of any size:

    python -m medsynth_sample_data.simulate
    python -m medsynth_sample_data.simulate --rows 1000000 --seed 7 --output big.csv
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Texts = NDArray[np.object_]

#: The committed tables: file name -> (rows, seed).
COMMITTED: dict[str, tuple[int, int]] = {"clinic.csv": (3772, 1), "clinic_heldout.csv": (3428, 2)}


def _happens(rng: Generator, probability: Floats) -> Flags:
    """Toss one coin per patient, each with its own probability."""
    return np.asarray(rng.random(probability.shape) < probability)


def _around(rng: Generator, centre: Floats, spread: float) -> Floats:
    """Return a normal deviate about each patient's own centre."""
    return np.asarray(centre + spread * rng.standard_normal(centre.shape))


def _named(code: NDArray[np.integer] | Flags, *levels: str) -> Texts:
    """Return the level that each code stands for."""
    return np.array(levels, dtype=object)[code.astype(np.int64)]


def _pregnancies(rng: Generator, age: Floats, woman: Flags) -> Flags:
    """Return who is pregnant: only women of 18 to 45 can be, and the chance falls with age."""
    return _happens(rng, np.where(woman & (age <= 45), 0.22 * (1.0 - (age - 18.0) / 40.0), 0.0))


def _gland_loss(rng: Generator, immune: Flags, removed: Flags, lithium: Flags) -> Floats:
    """Return how far free T4 would fall untreated, as a natural-log drop below the patient's own set point.

    Destruction of the gland ranges from compensated to complete, so the loss is log-normal. Surgery and radioiodine
    remove tissue; lithium blocks the release of hormone and does less.
    """
    loss = np.exp(_around(rng, np.log(np.where(immune, 0.17, 0.02)), 1.0))
    extra = np.exp(_around(rng, np.full(loss.shape, -0.5), 0.7))
    return np.asarray(np.minimum(loss + extra * removed + 0.25 * extra * lithium, 2.5))


def _free_t4_shift(
    rng: Generator, age: Floats, loss: Floats, treated: Flags, overactive: Flags, blocked: Flags
) -> Floats:
    """Return the natural log of free T4 over the patient's own set point, after disease and treatment.

    The third-order structure is here. Levothyroxine is cleared more slowly with age, so the usual dose overshoots in
    the old (T4 up, TSH down), whereas in the untreated TSH drifts up with age. Age and TSH alone show little of either;
    treatment, age and hormone together show both. One treated patient in four forgets tablets and keeps most of the
    deficit.
    """
    excess = np.minimum(np.exp(_around(rng, np.full(age.shape, np.log(0.8)), 0.3)), 1.3)
    untreated = np.where(overactive, excess, 0.0) - loss
    # Carbimazole and its kin aim at the set point, and sometimes carry the patient past it.
    untreated = np.where(blocked, _around(rng, np.full(age.shape, 0.05), 0.20), untreated)
    overshoot = _around(rng, 0.04 + 0.006 * (age - 50.0), 0.14)
    return np.where(treated, np.where(rng.random(age.shape) < 1 / 4, -0.7 * loss, overshoot), untreated)


def _tsh(rng: Generator, age: Floats, shift: Floats, pregnant: Flags, unwell: Flags) -> Floats:
    """Return TSH (mIU/l) by pituitary feedback: log-linear in free T4, levelling off at the pituitary's limit.

    Half of the free T4 raises TSH about sixty-fold (slope 6 in natural logs). Set points differ between people and
    drift up with age; chorionic gonadotrophin lowers TSH in pregnancy. Acute illness scatters it: lower at its height,
    well above normal in recovery.
    """
    own = _around(rng, np.log(1.45) + 0.006 * (age - 50.0), 0.37)
    drive = own - 6.0 * shift - 0.35 * pregnant + _around(rng, np.zeros(age.shape), 1.1) * unwell
    ceiling = np.log(180.0)
    return np.asarray(np.exp(ceiling - np.logaddexp(0.0, ceiling - drive)))


def _free_index(rng: Generator, shift: Floats, unwell: Flags) -> Floats:
    """Return the free thyroxine index (nmol/l) about each patient's set point; severe illness alone lowers it."""
    own = _around(rng, np.full(shift.shape, np.log(108.0)), 0.11)
    return np.exp(own + shift - unwell * np.abs(_around(rng, np.zeros(shift.shape), 0.25)))


def _binding(rng: Generator, woman: Flags, pregnant: Flags) -> Floats:
    """Return the T4 uptake ratio, the binding capacity of serum: oestrogen raises it, pregnancy by about half."""
    return np.clip(np.round(np.exp(_around(rng, -0.04 + 0.03 * woman + 0.40 * pregnant, 0.10)), 2), 0.4, 2.5)


def _t3(rng: Generator, age: Floats, shift: Floats, binding: Floats, unwell: Flags) -> Floats:
    """Return T3 (nmol/l), made from T4 in the tissues and bound as T4 is; it declines slowly with age."""
    # More conversion makes up for half of a fall of T4 (on the log scale); illness blocks the conversion.
    centre = np.log(1.9) + 0.5 * shift + 0.8 * np.log(binding) - 0.45 * unwell - 0.003 * (age - 50.0)
    return np.clip(np.round(np.exp(_around(rng, centre, 0.16)), 1), 0.1, 15.0)


def _antibody_titre(rng: Generator, immune: Flags) -> Floats:
    """Return thyroid-peroxidase antibodies (IU/ml): two log-normal groups; below 3 the assay reports 0."""
    titre = np.exp(_around(rng, np.log(np.where(immune, 320.0, 9.0)), 0.95))
    return np.where(titre < 3.0, 0.0, np.minimum(np.round(titre, 1), 5000.0))


def _diagnosis(
    rng: Generator, age: Floats, tsh: Floats, index: Floats, treated: Flags, pregnant: Flags, unwell: Flags
) -> Texts:
    """Return the clinic's diagnosis of hypothyroidism; `normal` means not hypothyroid, and includes the overactive.

    It uses the true hormones (a second sample confirms it), which the reported ones follow with an error. So borderline
    cases are uncertain. The limit of TSH is lower in pregnancy and higher from 70. It is higher still in the treated
    from 60 (a relaxed target) and in acute illness, which the clinic waits out.
    """
    limit = np.where(pregnant, 4.0, np.where(age >= 70, 6.0, 4.5))
    limit = np.where(unwell | (treated & (age >= 60)), 20.0, limit)
    # The treated who still lack thyroxine are under-replaced; this clinic books them as subclinical.
    code = np.where(tsh > limit, np.where((index < 70.0) & ~treated, 2, 1), 0)
    # One coded disease in fifty is recorded one grade too mild; a code without a disease is much rarer.
    slip = rng.random(age.shape)
    code = np.where(code > 0, code - (slip < 0.02), slip < 0.0005)
    return _named(code, "normal", "subclinical", "overt")


def _measured(rng: Generator, value: Floats, sought: Flags, missing: float) -> Floats:
    """Return the value, or NaN in the share `missing` of patients; in a quarter of that share if it was sought."""
    return np.where(_happens(rng, np.where(sought, missing / 4.0, missing)), np.nan, value)


def _systolic(rng: Generator, age: Floats, shift: Floats, pregnant: Flags) -> Floats:
    """Return systolic pressure (mmHg): stiffer arteries with age; read to 2 mmHg, by half of the readers to 10."""
    raw = _around(rng, 117.0 + 0.45 * (age - 40.0) + 8.0 * shift - 8.0 * pregnant, 14.0)
    step = np.where(rng.random(age.shape) < 0.5, 10.0, 2.0)
    return np.round(np.clip(raw, 70.0, 240.0) / step) * step


def _pulse(rng: Generator, shift: Floats, pregnant: Flags, unwell: Flags) -> Floats:
    """Return the resting pulse: thyroid hormone drives the heart; pregnancy and illness quicken it too."""
    pulse = _around(rng, 72.0 + 24.0 * shift + 10.0 * pregnant + 9.0 * unwell, 9.0)
    return np.clip(np.round(pulse), 35.0, 190.0)


def _visits(rng: Generator, drugs: Flags, pregnant: Flags) -> Floats:
    """Return visits in the past two years: skewed, more for the treated and the pregnant."""
    return np.minimum(np.floor(np.exp(_around(rng, 0.5 + 0.8 * drugs + 0.6 * pregnant, 0.65))), 40.0)


def _referrals(rng: Generator, pregnant: Flags, lithium: Flags, removed: Flags, unwell: Flags) -> Texts:
    """Return who sent the patient: mostly the family doctor, else the specialist for another problem."""
    ones = np.ones(pregnant.shape)
    odds = [0.72 * ones, 0.20 * ones, 2.5 * pregnant, 1.2 * lithium, 0.01 + 0.6 * removed, 0.01 + unwell]
    edges = np.cumsum(np.column_stack(odds), axis=1)
    code = (rng.random(len(edges))[:, None] * edges[:, -1:] >= edges[:, :-1]).sum(axis=1)
    levels = ["general practice", "endocrinology", "antenatal", "psychiatry", "surgery", "emergency"]
    return _named(code, *levels)


def cohort(rows: int, seed: int = 0) -> pd.DataFrame:
    """Return the records of `rows` simulated patients, in the columns of `clinic.schema.yaml`.

    >>> table = cohort(1000, seed=3)
    >>> int(table["is_pregnant"][table["sex_at_birth"] == "M"].sum())
    0
    """
    rng = Generator(PCG64(seed))
    # Adults of 18 to 95, most of them in late middle age, when thyroid disease is most common.
    age = np.floor(18.0 + 39.0 * (rng.random(rows) + rng.random(rows)))
    woman = _happens(rng, np.where(age < 45, 0.75, 0.65))  # the antenatal clinic refers young women
    pregnant = _pregnancies(rng, age, woman)
    # Autoimmunity is about three times as common in women, and more common with age.
    immune = _happens(rng, (0.06 + 0.0020 * (age - 18.0)) * np.where(woman, 1.4, 0.5))
    operated = _happens(rng, np.where(woman, 0.017, 0.009))
    overactive = _happens(rng, np.where(woman, 0.038, 0.016)) & ~operated
    # Radioiodine cures the overactive gland and is never given in pregnancy.
    iodine = _happens(rng, np.where(pregnant | operated, 0.0, np.where(overactive, 0.15, 0.012)))
    overactive &= ~iodine
    lithium = _happens(rng, np.where(pregnant, 0.0, 0.008))
    unwell = _happens(rng, 0.04 + 0.0008 * (age - 18.0))

    loss = _gland_loss(rng, immune, operated | iodine, lithium)
    # Levothyroxine goes to patients who lost much of the gland, and to some women out of habit.
    given = np.where(woman, 0.05, 0.02) + 0.55 * (1.0 - np.exp(-loss / 0.35))
    treated = _happens(rng, given) & ~overactive
    blocked = _happens(rng, np.full(rows, 0.45)) & overactive
    shift = _free_t4_shift(rng, age, loss, treated, overactive, blocked)
    true_tsh, true_index = _tsh(rng, age, shift, pregnant, unwell), _free_index(rng, shift, unwell)
    binding = _binding(rng, woman, pregnant)

    # Reported values contain assay error and day-to-day swings; the assay reports TSH below 0.01 as 0.
    tsh = np.floor(100.0 * np.minimum(true_tsh * np.exp(_around(rng, np.zeros(rows), 0.15)), 500.0)) / 100.0
    tt4 = np.clip(np.round(true_index * binding * np.exp(_around(rng, np.zeros(rows), 0.04))), 2.0, 700.0)
    t3, titre = _t3(rng, age, shift, binding, unwell), _antibody_titre(rng, immune)
    # Not missing at random: T3 is sought in the ill and if odd, antibodies with a raised TSH or known high.
    seen_t3 = _measured(rng, t3, unwell | (np.abs(np.log(t3 / 1.9)) > 0.35), 0.18)
    seen_titre = _measured(rng, titre, (tsh > 4.5) | (titre > 100.0), 0.12)
    goitre = _happens(rng, 0.03 + 0.12 * immune + 0.30 * overactive + 0.15 * lithium) & ~operated
    columns = {
        "age_years": age.astype(np.int64),
        "sex_at_birth": _named(woman, "M", "F"),
        "referral_source": _referrals(rng, pregnant, lithium, operated, unwell),
        "clinic_visits": _visits(rng, treated | blocked, pregnant).astype(np.int64),
        "is_pregnant": pregnant.astype(np.int64),
        "levothyroxine": _named(treated, "no", "yes"),
        "antithyroid_drug": _named(blocked, "no", "yes"),
        "lithium_carbonate": _named(lithium, "no", "yes"),
        "prior_thyroidectomy": operated.astype(np.int64),
        "prior_radioiodine": iodine.astype(np.int64),
        "palpable_goitre": goitre.astype(np.int64),
        "acutely_unwell": unwell.astype(np.int64),
        "systolic_mmhg": _systolic(rng, age, shift, pregnant).astype(np.int64),
        "pulse_bpm": _pulse(rng, shift, pregnant, unwell).astype(np.int64),
        "tsh_miu_l": tsh,
        "t3_nmol_l": seen_t3,
        "tt4_nmol_l": tt4.astype(np.int64),
        "t4_uptake_ratio": binding,
        # The index is computed from the two reported values, as a laboratory does.
        "ft4_index_nmol_l": np.round(tt4 / binding).astype(np.int64),
        "tpo_antibody_iu_ml": seen_titre,
        "diagnosis": _diagnosis(rng, age, true_tsh, true_index, treated, pregnant, unwell),
    }
    return pd.DataFrame(columns)


def schema_text() -> str:
    """Return the YAML of the cohort's schema."""
    return (Path(__file__).parent / "clinic.schema.yaml").read_text(encoding="utf-8")


def dictionary_text() -> str:
    """Return a REDCap data dictionary of a project that could have written the cohort's table."""
    return (Path(__file__).parent / "clinic.redcap.csv").read_text(encoding="utf-8")


def main(argv: list[str] | None = None) -> None:
    """Rewrite the committed tables, or write one of the given size."""
    parser = argparse.ArgumentParser(description="Simulate a thyroid clinic; no row describes a real person.")
    parser.add_argument("--rows", type=int, help="number of simulated patients (needs --output)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulation (default 0)")
    parser.add_argument("--output", type=Path, help="CSV file to write (needs --rows)")
    chosen = parser.parse_args(argv)
    if (chosen.rows is None) != (chosen.output is None):
        parser.error("--rows and --output go together; give neither to rewrite the committed tables")
    committed = {Path(__file__).parent / name: job for name, job in COMMITTED.items()}
    jobs = {chosen.output: (chosen.rows, chosen.seed)} if chosen.output else committed
    for path, (rows, seed) in jobs.items():
        cohort(rows, seed).to_csv(path, index=False, lineterminator="\n", encoding="utf-8")


if __name__ == "__main__":
    main()
