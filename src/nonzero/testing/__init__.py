"""What tests, and the authors of environments, call: the conformance check."""
