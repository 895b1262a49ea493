"""The attacks, one file each, registered here."""

from . import density_ratio, learned_ratio, nearest_row, nearest_value
from .registry import register

for attack in (nearest_row.NEAREST, nearest_row.AGAINST_REFERENCE, density_ratio.ATTACK, learned_ratio.ATTACK):
    register(attack)
register(nearest_value.ATTACK)
