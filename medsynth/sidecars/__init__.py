"""Descriptions of synthetic tables that travel with them: catalogues, schemas and a data dictionary."""
