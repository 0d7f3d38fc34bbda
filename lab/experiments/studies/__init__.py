"""Studies of the project's own: arenas, unequal clients, churn, privacy."""
