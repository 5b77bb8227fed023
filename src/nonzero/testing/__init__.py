"""What tests, and the authors of environments, call: the conformance check."""

from nonzero.testing.check_env import check_env

__all__ = ["check_env"]
