"""A local page that leads from a table to a report. It runs the commands of `medsynth`, and computes nothing itself."""
