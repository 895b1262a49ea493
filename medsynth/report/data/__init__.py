"""What sections are computed from: the tables in one form, the protocol, statistics, records."""
