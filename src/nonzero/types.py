"""The types that cross rooms, and the glossary of axes.

Axes, in the order they appear in a shape:

- B batch, T time, N tree nodes
- I agents, A actions of one agent, K candidate slots
- R rank of the surrogate's pairwise part, D width of a latent
- O numbers in one agent's observation, S numbers in the world state

Masks are True = allowed, everywhere. `terminated` (the task ended: nothing follows) and `truncated` (the
clock ran out: the value of what would have followed still counts) are kept apart because they bootstrap
differently.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray


class NonZeroError(Exception):
    """A mistake the user can mend: the command line shows its one line and no traceback."""


@dataclass(frozen=True)
class EnvSpec:
    """What never changes about an environment; hashable, so it may be a static argument of compiled code."""

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

    def step(self, state: State, actions: Int[Array, " I"], key: PRNGKeyArray) -> tuple[State, TimeStep]:
        """Let every agent act at once; `key` decides everything random about this step."""
        ...


BasePolicy = Callable[[Any, PRNGKeyArray], Int[Array, " I"]]
"""From one environment state and a key to legal actions."""

PRIOR, SINGLE, PAIR = 0, 1, 2
"""Where a candidate came from: the policy prior, or a proposal that changed one or two agents' actions."""


class ModelOutputs(eqx.Module):
    """What a model says about a state and the step that led there; the state's latent travels beside it."""

    policy_logits: Float[Array, "*B I A"]
    value: Float[Array, "*B"]
    """Expected discounted return from this state on."""
    reward: Float[Array, "*B"]
    """Of the step that led here; unused at a search's root."""
    discount: Float[Array, "*B"]
    """What the value is worth one step earlier; 0 where the step ended the episode. Unused at a root."""
    surrogate: Any = None
    """θ of this state from models that say one: a `surrogate.posterior.Forecast` with leading axes B."""


class Candidates(eqx.Module):
    """The joint actions that a node considers, in K slots, some of which may be empty."""

    actions: Int[Array, "*B K I"]
    prior: Float[Array, "*B K"]
    """Weight in the exploration bound, corrected for how the candidate was drawn; 0 in an empty slot."""
    filled: Bool[Array, "*B K"]
    origin: Int[Array, "*B K"]
    """PRIOR, SINGLE or PAIR."""


class SearchTree(eqx.Module):
    """One tree per batch row; node 0 is the root, and simulation s adds node s + 1.

    A finished search shows it batch first, [B, N, ...]; while it grows it is node first, [N, B, ...], so that
    adding a node to all trees of the batch is one contiguous write.
    """

    candidates: Candidates
    visits: Int[Array, "*BN K"]
    """Of the edges; a node's own count is one more than their sum."""
    q: Float[Array, "*BN K"]
    """Reward of the edge plus the discounted search value of the child; 0 while unvisited."""
    children: Int[Array, "*BN K"]
    """Node index, or -1 while unvisited."""
    parent: Int[Array, "*BN"]
    slot: Int[Array, "*BN"]
    """The parent's slot that leads here."""
    depth: Int[Array, "*BN"]
    reward: Float[Array, "*BN"]
    discount: Float[Array, "*BN"]
    ended: Bool[Array, "*BN"]
    """The episode was over at or before this node: nothing beyond it is worth anything."""
    raw_value: Float[Array, "*BN"]
    """The model's own value."""
    value: Float[Array, "*BN"]
    """The search's value."""
    eta: Float[Array, "*BN K"] | None
    """The surrogate's score of the candidates, where the search has a surrogate."""


class SearchResult(eqx.Module):
    """What a search found at the roots."""

    action: Int[Array, "B I"]
    """A root candidate drawn by visits ** (1 / temperature)."""
    candidates: Candidates
    visits: Int[Array, "B K"]
    weights: Float[Array, "B K"]
    """Visit shares; they sum to one."""
    q: Float[Array, "B K"]
    value: Float[Array, "B"]
    eta: Float[Array, "B K"] | None
    """What the surrogate thinks of the candidates, on the scale of Q, where the root has one."""
    is_finite: Bool[Array, "B"]
    """False where the model said NaN or infinity in the tree: that row's other fields mean nothing."""
    tree: SearchTree | None
    """The whole tree, if it was asked for."""
    simulations: int = eqx.field(static=True)
    model_evaluations: int = eqx.field(static=True)
    """Per root; more than `simulations` where the search asks the model counterfactual questions."""
