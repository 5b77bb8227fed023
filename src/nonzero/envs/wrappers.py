"""Around any environment: playing on after an episode's end, random play, a guard against bad actions."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from nonzero.types import Environment, EnvSpec, TimeStep

State = TypeVar("State")


class AutoResetState(eqx.Module, Generic[State]):
    """The wrapped environment's state, and what its agents see in it."""

    inner: State
    current: TimeStep
    """What to act on next: after a last step, the first TimeStep of the new episode."""


@dataclass(frozen=True, eq=False)
class AutoReset(Generic[State]):
    """Play episode after episode, losing neither the end of one nor the start of the next.

    `step` returns the outcome of the actions, so on a last step the terminal observation, mask, reward and
    flags: what learning stores and bootstraps from. The returned state already holds the next episode, and
    `state.current` its first TimeStep: what to act on. At all other steps the two are the same.
    """

    env: Environment[State]

    @property
    def spec(self) -> EnvSpec:
        """The wrapped environment's constants; they hold for each episode."""
        return self.env.spec

    def reset(self, key: PRNGKeyArray) -> tuple[AutoResetState[State], TimeStep]:
        """Start the first episode."""
        inner, first = self.env.reset(key)
        return AutoResetState(inner, first), first

    def step(
        self, state: AutoResetState[State], actions: Int[Array, " I"], key: PRNGKeyArray
    ) -> tuple[AutoResetState[State], TimeStep]:
        """Step, and begin anew where that ended the episode; `key` splits into the step's and the reset's."""
        step_key, reset_key = jax.random.split(key)
        stepped, outcome = self.env.step(state.inner, actions, step_key)
        # Both branches are computed: under vmap a conditional would be, too.
        fresh, first = self.env.reset(reset_key)
        inner, current = jax.tree.map(
            lambda new, old: jnp.where(outcome.is_last, new, old), (fresh, first), (stepped, outcome)
        )
        return AutoResetState(inner, current), outcome


def random_legal_actions(key: PRNGKeyArray, legal: Bool[Array, "*B I A"]) -> Int[Array, "*B I"]:
    """Draw each agent's action from its legal ones, evenly to within 2^-16; the last one if none is legal."""
    count = jnp.sum(legal, axis=-1, dtype=jnp.int32)
    rank = jax.random.bits(key, count.shape, jnp.uint16).astype(jnp.int32) * count >> 16
    # The legal action of that rank comes after all places up to which no more than `rank` were legal. This is
    # one pass over the batch; with cumsum and argmax a small environment's whole loop is a third as fast.
    seen, action = jnp.zeros_like(count), jnp.zeros_like(count)
    for place in range(legal.shape[-1] - 1):
        seen = seen + legal[..., place]
        action = action + (seen <= rank)
    return action


def check_actions(spec: EnvSpec, legal: object, actions: object) -> np.ndarray:
    """Return `actions` `[*B, I]` as int32 if `legal` `[*B, I, A]` allows them all, else raise a ValueError.

    For actions that come from outside, on the host; stepping itself checks no values, for speed.
    """
    mask, chosen = np.asarray(legal), np.asarray(actions)
    if mask.dtype != bool or mask.shape[-2:] != (spec.num_agents, spec.num_actions):
        raise ValueError(
            f"{spec.name}: legal must be booleans of shape [..., {spec.num_agents}, {spec.num_actions}], "
            f"not {mask.dtype} of shape {mask.shape}"
        )
    if not np.issubdtype(chosen.dtype, np.integer):
        raise ValueError(f"{spec.name}: actions must be integers, not {chosen.dtype}")
    if chosen.shape != mask.shape[:-1]:
        raise ValueError(
            f"{spec.name}: actions must have shape {mask.shape[:-1]}, one for each of {spec.num_agents} "
            f"agents, not {chosen.shape}"
        )
    in_range = (chosen >= 0) & (chosen < spec.num_actions)
    allowed = np.take_along_axis(mask, np.where(in_range, chosen, 0)[..., None], axis=-1)[..., 0] & in_range
    if not allowed.all():
        where = tuple(int(index) for index in np.argwhere(~allowed)[0])
        raise ValueError(_refusal(spec, mask, chosen, in_range[where], where))
    return chosen.astype(np.int32)


def _refusal(
    spec: EnvSpec, mask: np.ndarray, chosen: np.ndarray, is_in_range: np.bool_, where: tuple[int, ...]
) -> str:
    """Name the first agent whose action is refused, and what it may play instead."""
    *episode, agent = where
    who = f"agent {agent}" + (f" of episode {', '.join(map(str, episode))}" if episode else "")
    if not is_in_range:
        return f"{spec.name}: {who} plays action {chosen[where]}, but actions are 0 to {spec.num_actions - 1}"
    options = ", ".join(str(action) for action in np.flatnonzero(mask[where])) or "none"
    return f"{spec.name}: {who} plays action {chosen[where]}, which is not legal now; legal: {options}"
