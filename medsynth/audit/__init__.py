"""Evidence against the claim: attacks with known worst cases, and what they prove with confidence."""
