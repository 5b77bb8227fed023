"""The bandit over joint actions: what their returns look like (η), and which one to try next (NonUCT)."""

from nonzero.surrogate.optimizer import Best, NonUCT

__all__ = ["Best", "NonUCT"]
