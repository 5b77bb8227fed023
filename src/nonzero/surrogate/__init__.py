"""The bandit over joint actions: what a return looks like (η), and which change of it to try next (NonUCT)."""
