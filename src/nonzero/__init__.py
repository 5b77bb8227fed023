"""NonZero: multi-agent tree search that finds coordination."""

from nonzero.envs.registry import make, names
from nonzero.types import Environment, EnvSpec, TimeStep

__version__ = "0.1.0"
__all__ = ["EnvSpec", "Environment", "TimeStep", "__version__", "make", "names"]
