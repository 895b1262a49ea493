"""Schemas from the dictionaries that hospitals already have: REDCap, Frictionless, CSVW, Croissant, OMOP, codebooks."""
