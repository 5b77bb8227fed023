"""NonZero: multi-agent tree search that finds coordination."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nonzero.envs.registry import make, names
    from nonzero.surrogate.optimizer import NonUCT
    from nonzero.types import Environment, EnvSpec, TimeStep

__version__ = "0.1.0"
__all__ = ["EnvSpec", "Environment", "NonUCT", "TimeStep", "__version__", "make", "names"]

_HOMES = {
    "make": "nonzero.envs.registry",
    "names": "nonzero.envs.registry",
    "NonUCT": "nonzero.surrogate.optimizer",
    "Environment": "nonzero.types",
    "EnvSpec": "nonzero.types",
    "TimeStep": "nonzero.types",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `nonzero --help` should not wait for jax."""
    if name not in _HOMES:
        raise AttributeError(f"module 'nonzero' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
