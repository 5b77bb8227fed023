"""The types that cross rooms, and the glossary of axes.

Axes, in the order they appear in a shape:

- B batch, T time, N tree nodes
- I agents, A actions of one agent, K candidate slots
- R rank of the surrogate's pairwise part, D width of a latent
- O numbers in one agent's observation, S numbers in the world state

Masks are True = allowed, everywhere. `terminated` (the task ended: nothing follows) and `truncated` (the clock ran
out: the value of what would have followed still counts) are kept apart because they bootstrap differently.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray


class NonZeroError(Exception):
    """A mistake the user can mend: the command line shows its one line and no traceback."""


@dataclass(frozen=True)
class EnvSpec:
    """What never changes about an environment; hashable, so it may be a static argument of a compiled function."""

    name: str
    num_agents: int
    num_actions: int
    """Actions of the agent that has most; the others' missing ones are never legal."""
    obs_shape: tuple[int, ...]
    state_shape: tuple[int, ...]
    max_steps: int
    """The episode ends, at the latest, with this step."""
    return_bounds: tuple[float, float]
    """No undiscounted episode return lies outside; value supports follow from it."""


class TimeStep(eqx.Module):
    """What the agents see after `reset` or `step`: one episode's, or a batch's with a leading axis B."""

    obs: Float[Array, "*B I O"]
    state: Float[Array, "*B S"]
    legal: Bool[Array, "*B I A"]
    reward: Float[Array, "*B"]
    terminated: Bool[Array, "*B"]
    truncated: Bool[Array, "*B"]
    won: Bool[Array, "*B"]
    """True on the last step of a won episode only; games without a notion of winning leave it False."""

    @property
    def is_last(self) -> Bool[Array, "*B"]:
        """Whether the episode ended with this step, for either reason."""
        return self.terminated | self.truncated


State = TypeVar("State")


@runtime_checkable
class Environment(Protocol[State]):
    """One episode of a cooperative game as pure functions: jit them, vmap them for a batch.

    `State` is a pytree of arrays. Stepping past the end of an episode is undefined; wrap with
    `nonzero.envs.wrappers.AutoReset` to play on.
    """

    @property
    def spec(self) -> EnvSpec:
        """The constants of this environment."""
        ...

    def reset(self, key: PRNGKeyArray) -> tuple[State, TimeStep]:
        """Start an episode; `key` decides everything random about its start."""
        ...

    def step(
        self, state: State, actions: Int[Array, " I"], key: PRNGKeyArray
    ) -> tuple[State, TimeStep]:
        """Let every agent act at once; `key` decides everything random about this step."""
        ...
