"""NonUCT: which joint action to try next, among the one- and two-agent changes of the best ones known.

A change is ranked by its optimistic value: the incumbent's own value, plus the gain that η predicts, plus a
bonus that shrinks as the direction (agent, action), or the pair of directions, is tried. Joint actions
tried before and illegal actions are excluded by construction.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from nonzero.surrogate.deviations import (
    apply_change,
    hash_changes,
    list_changes,
    pick_directions,
    unordered_pairs,
)
from nonzero.surrogate.predictor import (
    Link,
    Surrogate,
    chosen,
    gains,
    pair_score_changes,
    signs,
    single_gains,
)
from nonzero.surrogate.tried import Tried, hash_table, is_known, tries_of_pairs
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


def pair_variances(tries: Int[Array, " L"], optimism: Optimism) -> Float[Array, " L"]:
    """What is not known of each pair's interaction, after all tries of both of its actions together."""
    return optimism.prior_v / (1.0 + tries)


def propose(
    theta: Surrogate,
    incumbent: Int[Array, " I"],
    incumbent_value: Float[Array, ""],
    variances: Float[Array, "I A"],
    tried: Tried,
    legal: Bool[Array, "I A"],
    link: Link,
    optimism: Optimism,
) -> Proposal:
    """The untried change of one incumbent that promises most."""
    num_agents, num_actions = legal.shape
    possible = legal & (jnp.arange(num_actions) != incumbent[:, None])
    single = single_gains(theta, incumbent, link) + optimism.weight * jnp.sqrt(variances)
    single = jnp.where(possible, single, -jnp.inf)
    count = min(optimism.directions, num_agents * num_actions)
    directions = pick_directions(theta, incumbent, single, count)
    pairs = left, right = unordered_pairs(count)
    unknown = variances[directions]
    together = pair_variances(tries_of_pairs(tried, directions, pairs), optimism)
    bonus = jnp.sqrt(unknown[left] + unknown[right] + together)
    allowed = directions.agents[left] != directions.agents[right]
    allowed &= possible[directions][left] & possible[directions][right]
    pair = gains(theta, incumbent, pair_score_changes(theta, incumbent, directions)[pairs], link)
    pair = jnp.where(allowed, pair + optimism.weight * bonus, -jnp.inf)
    changes = list_changes(num_agents, num_actions, directions)
    optimistic = jnp.concatenate([single.ravel(), pair])
    hashes = hash_changes(hash_table(num_agents, num_actions), incumbent, changes)
    optimistic = jnp.where(is_known(tried, hashes), -jnp.inf, optimistic)
    best = jnp.argmax(optimistic)
    first, second, is_pair = jax.tree.map(lambda x: x[best], tuple(changes))
    return Proposal(
        apply_change(incumbent, first, second),
        incumbent_value + optimistic[best],
        jnp.where(is_pair, PAIR, SINGLE),
    )


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
