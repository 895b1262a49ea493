"""What the measurements that only the mixture makes are called in plan and ledger."""

PAIRS, STRONGEST = "pairs of columns by class", "strongest pairs of columns"
