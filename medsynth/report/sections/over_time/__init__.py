"""Whether synthetic patients change over time as real ones do."""
