"""The utility report for data-sharing review: read the tables, compute each section, render one HTML page."""
