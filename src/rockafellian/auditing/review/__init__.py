"""A person's review: rows drawn to be checked, the decisions, and what they tell about the noise rate."""
