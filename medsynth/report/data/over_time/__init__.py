"""Patients' rows one after another, and what successive rows say."""
