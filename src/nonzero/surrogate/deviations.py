"""One- and two-agent changes of a joint action, as a flat list that a bandit can rank.

All I·A single changes are listed. Of the pairs only those among M directions are: the best singles by
optimistic gain and the ones whose factors move furthest, so that the list grows with I·A + M² and neither
with A^I nor (I·A)².
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from nonzero.surrogate.predictor import Directions, Surrogate, chosen
from nonzero.surrogate.tried import hash_actions


class Changes(NamedTuple):
    """L changes of one joint action: two directions each; a single change repeats its own."""

    first: Directions
    second: Directions
    is_pair: Bool[Array, " L"]


def apply_change(actions: Int[Array, " I"], first: Directions, second: Directions) -> Int[Array, " I"]:
    """a^(u,v), for scalar directions; a^(u) where v = u."""
    return actions.at[first.agents].set(first.choices).at[second.agents].set(second.choices)


def pick_directions(
    theta: Surrogate, actions: Int[Array, " I"], optimistic_gains: Float[Array, "I A"], count: int
) -> Directions:
    """Directions to combine: half the best singles by gain, half the largest moves of the factors ‖dV‖.

    The second half are those whose pairs may help although the singles do not. Illegal directions have a
    gain of −inf.
    """
    num_actions = optimistic_gains.shape[1]
    gains = optimistic_gains.ravel()
    legal = jnp.isfinite(gains)
    half = count // 2
    _, best = jax.lax.top_k(gains, count - half)
    moved = jnp.sum((theta.v - chosen(theta.v, actions)[:, None]) ** 2, axis=-1).ravel()
    moved = jnp.where(legal, moved, -1.0).at[best].set(-1.0)
    _, furthest = jax.lax.top_k(moved, half)
    flat = jnp.concatenate([best, furthest])
    return Directions(flat // num_actions, flat % num_actions)


def unordered_pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each unordered pair among `count` directions."""
    return np.triu_indices(count, 1)


def list_changes(num_agents: int, num_actions: int, directions: Directions) -> Changes:
    """All single changes in row-major order, then all unordered pairs of the given directions."""
    agents, choices = np.divmod(np.arange(num_agents * num_actions), num_actions)
    rows, columns = unordered_pairs(directions.agents.shape[0])

    def listed(side: np.ndarray) -> Directions:
        return Directions(
            jnp.concatenate([jnp.asarray(agents, jnp.int32), directions.agents[side]]),
            jnp.concatenate([jnp.asarray(choices, jnp.int32), directions.choices[side]]),
        )

    is_pair = np.arange(agents.size + rows.size) >= agents.size
    return Changes(listed(rows), listed(columns), jnp.asarray(is_pair))


def hash_changes(
    table: UInt32[Array, "I A"], actions: Int[Array, " I"], changes: Changes
) -> UInt32[Array, " L"]:
    """The hashes of all changes of a joint action."""
    moved = table - chosen(table, actions)[:, None]
    first, second = moved[changes.first], moved[changes.second]
    return hash_actions(table, actions) + first + jnp.where(changes.is_pair, second, jnp.uint32(0))
