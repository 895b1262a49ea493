"""What the measurements of the methods are called in plan and ledger."""

ONE_WAY = "one-way marginals"
CLASSES = "class marginal"
CRITIC_GRADIENTS = "critic gradient sum"
COARSE, VALUES = "coarse one-way marginals", "frequent values"
BY_CLASS, REMEASURED = "class-by-bin marginals", "re-measured class marginals"
MOMENTS, MATRIX = "second moments", "matrices of second moments"
SELECTION, TWO_WAY = "two-way selection", "two-way marginals"
