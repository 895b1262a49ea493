"""Inputs of the sections: tables in one form, the utility protocol, statistics and records."""
