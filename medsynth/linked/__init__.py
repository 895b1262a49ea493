"""Several tables that share their patients: from their files to one model and back to files, under one budget."""
