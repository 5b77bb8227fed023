"""The `nonzero` command: each command is a frozen dataclass with a `run` method."""
