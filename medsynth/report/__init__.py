"""Report on a synthetic table for data-sharing review: read the tables, compute each section, render one HTML page."""
