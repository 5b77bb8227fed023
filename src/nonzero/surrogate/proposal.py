"""NonUCT: which joint action to try next, among the one- and two-agent changes of the best ones known.

A change is ranked by its optimistic value: the incumbent's own value, plus the gain that η predicts, plus a
bonus that shrinks as the direction (agent, action), or the pair of directions, is tried. Joint actions
tried before and illegal actions are excluded by construction.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt32

from nonzero.surrogate.deviations import (
    apply_change,
    hash_actions,
    hash_change,
    list_changes,
    pick_directions,
    unordered_pairs,
)
from nonzero.surrogate.predictor import (
    Directions,
    Link,
    Surrogate,
    chosen,
    moves_two_agents,
    pair_gains,
    signs,
    single_gains,
)
from nonzero.types import PAIR, SINGLE


@dataclass(frozen=True)
class Optimism:
    """How the bonus is made; hashable, being a static argument of compiled functions."""

    weight: float = 0.5
    """β: bonus in units of what is not known."""
    prior_w: float = 1.0
    """Variance of an entry of w before any data, in units of the returns' variance."""
    prior_v: float = 0.09
    """The same of an entry of v."""
    directions: int = 32
    """M: how many directions are combined to pairs; 0 proposes single changes only."""


class Tried(NamedTuple):
    """The joint actions asked for so far; where `filled` is False a row is empty."""

    actions: Int[Array, "T I"]
    filled: Bool[Array, " T"]
    hashes: UInt32[Array, " T"]
    """Sorted, so that membership is a binary search; empty rows hold the largest word."""


class Proposal(NamedTuple):
    """A joint action worth trying next."""

    actions: Int[Array, " I"]
    value: Float[Array, ""]
    """Its optimistic value; −inf where there was no change left to propose."""
    origin: Int[Array, ""]
    """SINGLE or PAIR."""


def direction_variances(
    tries: Int[Array, "I A"], noise: Float[Array, ""], optimism: Optimism
) -> Float[Array, "I A"]:
    """What is not known of each direction: the variance of w[i, j] after all tries of action j by agent i."""
    return 1.0 / (1.0 / optimism.prior_w + tries / noise)


def pair_variances(tried: Tried, directions: Directions, optimism: Optimism) -> Float[Array, "M M"]:
    """What is not known of each pair's interaction, after all tries of both of its actions together."""
    # Agents first: whole rows are copied, which is many times quicker than single numbers.
    rows = tried.actions.T[directions.agents] == directions.choices[:, None]
    rows = (rows & tried.filled).astype(jnp.float32)
    return optimism.prior_v / (1.0 + rows @ rows.T)


def propose(
    theta: Surrogate,
    incumbent: Int[Array, " I"],
    incumbent_value: Float[Array, ""],
    variances: Float[Array, "I A"],
    tried: Tried,
    legal: Bool[Array, "I A"],
    table: UInt32[Array, "I A"],
    link: Link,
    optimism: Optimism,
) -> Proposal:
    """The untried change of one incumbent that promises most; `table` hashes joint actions."""
    num_agents, num_actions = legal.shape
    possible = legal & (jnp.arange(num_actions) != incumbent[:, None])
    single = single_gains(theta, incumbent, link) + optimism.weight * jnp.sqrt(variances)
    single = jnp.where(possible, single, -jnp.inf)
    count = min(optimism.directions, num_agents * num_actions)
    directions = pick_directions(theta, incumbent, single, count)
    unknown = variances[directions]
    bonus = jnp.sqrt(unknown[:, None] + unknown[None, :] + pair_variances(tried, directions, optimism))
    allowed = moves_two_agents(directions) & possible[directions][:, None] & possible[directions][None, :]
    pair = pair_gains(theta, incumbent, directions, link) + optimism.weight * bonus
    pair = jnp.where(allowed, pair, -jnp.inf)[unordered_pairs(count)]
    changes = list_changes(num_agents, num_actions, directions)
    hashes = hash_change(table, incumbent, hash_actions(table, incumbent), changes)
    gains = jnp.concatenate([single.ravel(), pair])
    gains = jnp.where(is_member(tried.hashes, hashes), -jnp.inf, gains)
    best = jnp.argmax(gains)
    first, second, is_pair = jax.tree.map(lambda x: x[best], tuple(changes))
    return Proposal(
        apply_change(incumbent, first, second),
        incumbent_value + gains[best],
        jnp.where(is_pair, PAIR, SINGLE),
    )


def is_member(hashes: UInt32[Array, " T"], wanted: UInt32[Array, " L"]) -> Bool[Array, " L"]:
    """Which of the wanted words are among the sorted ones."""
    place = jnp.minimum(jnp.searchsorted(hashes, wanted), hashes.shape[0] - 1)
    return hashes[place] == wanted


def climb(
    theta: Surrogate, start: Int[Array, " I"], order: Int[Array, " L"], legal: Bool[Array, "I A"]
) -> Int[Array, " I"]:
    """Where η leads from `start` when the agents in `order`, one after the other, take their best action.

    The scores of an agent's actions are kept up to date as the others move: O(A·R) a step.
    """
    sigma = signs(theta.rank)

    def improve(carry, agent):
        actions, totals = carry
        others = totals - theta.v[agent, actions[agent]]
        scores = theta.w[agent] + theta.v[agent] @ (sigma * others)
        choice = jnp.argmax(jnp.where(legal[agent], scores, -jnp.inf)).astype(actions.dtype)
        return (actions.at[agent].set(choice), others + theta.v[agent, choice]), None

    totals = chosen(theta.v, start).sum(0)
    return jax.lax.scan(improve, (start, totals), order)[0][0]
