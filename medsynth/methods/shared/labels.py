"""What the measurements that several methods make are called in plan and ledger."""

ONE_WAY = "one-way marginals"
CLASSES = "class marginal"
CRITIC_GRADIENTS = "critic gradient sum"
