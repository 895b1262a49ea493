"""What a form proposes for columns with usual names. Whoever fills the form in confirms it; no cell is looked at.

Ranges are those that bodies and instruments allow, rounded outwards, as in the bundled schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from medsynth.schema.header import normalised


def _range(low: str, high: str, unit: str) -> Mapping[str, str]:
    return MappingProxyType({"low": low, "high": high, "unit": unit})


_AGE = _range("0", "120", "years")
_SYSTOLIC, _DIASTOLIC = _range("30", "300", "mmHg"), _range("10", "200", "mmHg")
_PULSE, _BREATHS = _range("0", "300", "1/min"), _range("0", "100", "1/min")
_WEIGHT, _HEIGHT = _range("0.3", "500", "kg"), _range("20", "260", "cm")
_BMI, _TEMPERATURE = _range("5", "150", "kg/m2"), _range("20", "45", "°C")
_SATURATION = _range("0", "100", "%")
NAMES: Mapping[str, Mapping[str, str]] = {
    name: found
    for names, found in (
        ("age ageyears ageinyears alter alterjahre patientage ageatadmission", _AGE),
        ("sbp systolic systolicbp systolicmmhg sysbp rrsys systolisch", _SYSTOLIC),
        ("dbp diastolic diastolicbp diastolicmmhg diabp rrdia diastolisch", _DIASTOLIC),
        ("pulse pulsebpm heartrate puls herzfrequenz", _PULSE),
        ("resprate respiratoryrate atemfrequenz", _BREATHS),
        ("weight weightkg bodyweight gewicht gewichtkg", _WEIGHT),
        ("height heightcm bodyheight groesse groessecm", _HEIGHT),
        ("bmi bodymassindex", _BMI),
        ("temperature bodytemperature temperatur", _TEMPERATURE),
        ("spo2 sao2 oxygensaturation", _SATURATION),
    )
    for name in names.split()
}


def proposal(column: str) -> Mapping[str, str]:
    """Return the proposed fields of a column by its name; none for other names.

    >>> dict(proposal("Age (years)"))
    {'low': '0', 'high': '120', 'unit': 'years'}
    >>> dict(proposal("diagnosis"))
    {}
    """
    return NAMES.get(normalised(column), {})
