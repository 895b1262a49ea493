"""Fits over several sites, each of which keeps its rows: a study that all agree to, sites that answer, a server."""
