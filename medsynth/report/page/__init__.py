"""From records to one self-contained HTML page."""
