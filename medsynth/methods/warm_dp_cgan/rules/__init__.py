"""Rules of the schema in the fit: columns that they compute, rows that they forbid."""
