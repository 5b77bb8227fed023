"""The `nonzero` command."""
