"""Rules between columns and across a patient's rows: the language, and its parser."""
