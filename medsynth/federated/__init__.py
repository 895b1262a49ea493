"""Fits over several sites, each of which keeps its rows: a study to agree to, sites that answer, and a server."""
