"""The report on several tables that share patients."""
