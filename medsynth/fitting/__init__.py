"""The verb fit: from private tables to an artifact."""
