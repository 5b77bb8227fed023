"""What θ is, given a few hundred returns: its exact Gaussian posterior.

Before any data let every entry of w have variance s₁ and every pair of agents' actions a term of variance
s₂. Then z is a Gaussian process whose covariance rests on m, in how many agents two joint actions agree,

    k(m) = s₁ m + s₂ m (m − 1) / 2,

and its posterior mean is z(θ₀, a) + Σ_t α_t k(m_t(a)): the prior's own θ₀ and, for every return told, α_t s₁
on the entries of w that it used and one more factor, √(s₂ |α_t|) in the rows v of its actions, with the sign
of α_t. So T numbers stand for a θ of rank T, and nothing is iterated. One more return costs O(T²), all single
changes O(T·I + I·A), all pairs of M directions O(T·M²). Functions take one history; the caller vmaps.
"""

from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from nonzero.surrogate import predictor
from nonzero.surrogate.predictor import Directions, Link, Surrogate, apply_link, invert_link

MOST_SPREADS = 16.0
"""A return so many spreads away teaches no more than that: the link's inverse grows exponentially."""


@dataclass(frozen=True)
class Beliefs:
    """What is believed before any data, in units of the returns' variance; hashable."""

    pair_share: float = 0.1
    """The share of the variance that pairs of agents explain; 0 is the paper's surrogate, rank 0."""
    noise: float = 0.5
    """The variance of what θ does not explain: chance, and what takes three agents."""
    level: float = 4.0
    """The variance of what all returns of one level have in common; in a search, of leaves of one depth."""
    link: Link = field(default_factory=Link)

    def variances(self, num_agents: int) -> tuple[float, float]:
        """s₁ and s₂; a single agent has no pairs."""
        pairs = num_agents * (num_agents - 1) / 2
        share = self.pair_share if pairs else 0.0
        return (1.0 - share) / num_agents, share / max(pairs, 1.0)

    def covariance(self, agreements: Float[Array, "*B"], num_agents: int) -> Float[Array, "*B"]:
        """k(m)."""
        single, pair = self.variances(num_agents)
        return agreements * (single + 0.5 * pair * (agreements - 1.0))


class Told(eqx.Module):
    """Returns and the joint actions they followed; T is the capacity, and last, where loops are quick."""

    actions: Int[Array, "I T"]
    levels: Int[Array, " T"]
    """Returns of different levels differ by a constant of their own."""
    returns: Float[Array, " T"]
    expected: Float[Array, " T"]
    """z of the joint actions before anything was told."""
    filled: Bool[Array, " T"]
    root: Float[Array, "T T"]
    """W, lower triangular: WᵀW is the inverse of the returns' covariance with noise; zero in empty rows.

    The inverse itself, grown row by row, loses its digits where the noise is small; its root does not.
    """
    own: Float[Array, ""]
    """The variance of an error that belongs to the joint action: asking again brings it again."""


class Scale(eqx.Module):
    """How returns are normalised before the link."""

    centre: Float[Array, "*B"]
    spread: Float[Array, "*B"]


class Forecast(eqx.Module):
    """What a model says of θ before anything is told, and in what units."""

    surrogate: Surrogate
    unit: Float[Array, "*B"]
    """The difference in returns that η = 1 stands for."""
    error: Float[Array, "*B"]
    """The deviation of returns from what η said of them, in these units."""


def nothing_told(capacity: int, num_agents: int) -> Told:
    """An empty history."""
    rows = jnp.zeros(capacity, jnp.int32)
    return Told(
        actions=jnp.full((num_agents, capacity), -1, jnp.int32),
        levels=rows,
        returns=jnp.zeros(capacity),
        expected=jnp.zeros(capacity),
        filled=jnp.zeros(capacity, bool),
        root=jnp.zeros((capacity, capacity)),
        own=jnp.zeros(()),
    )


def tell(
    told: Told,
    row: Int[Array, ""],
    actions: Int[Array, " I"],
    level: Int[Array, ""],
    value: Float[Array, ""],
    prior: Surrogate,
    beliefs: Beliefs,
) -> Told:
    """The history with one more return, in the empty row `row`: W grows by a row."""
    num_agents = actions.shape[0]
    agreed = agreements(told, actions[None])[0]
    shared = beliefs.level * (told.levels == level) + told.own * (agreed == num_agents)
    covariance = jnp.where(told.filled, beliefs.covariance(agreed, num_agents) + shared, 0.0)
    explained = told.root @ covariance
    own = beliefs.covariance(jnp.float32(num_agents), num_agents) + told.own
    own = own + beliefs.level + beliefs.noise
    # What the others do not explain of the new return is at least its noise.
    unexplained = jnp.maximum(own - explained @ explained, beliefs.noise)
    here = jnp.arange(told.filled.shape[0]) == row
    grown = (here - explained @ told.root) * jax.lax.rsqrt(unexplained)
    return Told(
        actions=told.actions.at[:, row].set(actions),
        levels=told.levels.at[row].set(level),
        returns=told.returns.at[row].set(value),
        expected=told.expected.at[row].set(predictor.score(prior, actions)),
        filled=told.filled | here,
        root=told.root.at[row].set(grown),
        own=told.own,
    )


def agreements(told: Told, actions: Int[Array, "K I"]) -> Float[Array, "K T"]:
    """In how many agents each joint action told agrees with `actions`; empty rows agree in none."""
    return jnp.sum(told.actions == actions[:, :, None], axis=1).astype(jnp.float32)


def scale(told: Told) -> Scale:
    """The mean and the spread of the returns told; equal returns differ by rounding alone, and have none."""
    count = jnp.maximum(jnp.sum(told.filled), 1)
    centre = jnp.sum(jnp.where(told.filled, told.returns, 0.0)) / count
    spread = jnp.sqrt(jnp.sum(jnp.where(told.filled, (told.returns - centre) ** 2, 0.0)) / count)
    return Scale(centre, jnp.where(spread > 1e-5 * jnp.abs(centre), spread, 1.0))


def surprises(told: Told, unit: Scale, beliefs: Beliefs) -> Float[Array, " T"]:
    """By how much z of each return told differs from what was expected."""
    value = (told.returns - unit.centre) / unit.spread
    z = invert_link(jnp.clip(value, -MOST_SPREADS, MOST_SPREADS), beliefs.link)
    return jnp.where(told.filled, z - told.expected, 0.0)


def coefficients(told: Told, surprise: Float[Array, "*X T"]) -> Float[Array, "*X T"]:
    """α: how much each return told moves z, for one or several vectors of surprises."""
    return (surprise @ told.root.T) @ told.root


def scores(
    told: Told, alpha: Float[Array, "*X T"], actions: Int[Array, "K I"], beliefs: Beliefs
) -> Float[Array, "*X K"]:
    """By how much what was told moves z of joint actions."""
    return alpha @ beliefs.covariance(agreements(told, actions), actions.shape[1]).T


def predicted(
    told: Told,
    alpha: Float[Array, " T"],
    prior: Surrogate,
    unit: Scale,
    actions: Int[Array, "K I"],
    beliefs: Beliefs,
) -> Float[Array, " K"]:
    """η of joint actions, on the scale of the returns."""
    expected = jax.vmap(lambda a: predictor.score(prior, a))(actions)
    eta = apply_link(expected + scores(told, alpha, actions, beliefs), beliefs.link)
    return unit.centre + unit.spread * eta


def single_score_changes(
    told: Told, alpha: Float[Array, " T"], prior: Surrogate, actions: Int[Array, " I"], beliefs: Beliefs
) -> Float[Array, "I A"]:
    """z(a^(u)) − z(a) of every single change; zero where it is the action played."""
    num_agents, num_actions = prior.w.shape
    single, pair = beliefs.variances(num_agents)
    agrees = told.actions == actions[:, None]
    others = jnp.sum(agrees, axis=0) - agrees
    slopes = alpha * (single + pair * others)
    here = jnp.sum(slopes * agrees, axis=1, keepdims=True)
    return (
        by_action(told.actions, slopes, num_actions) - here + predictor.single_score_changes(prior, actions)
    )


def by_action(
    actions: Int[Array, "I X"], weights: Float[Array, "I X"], num_actions: int
) -> Float[Array, "I A"]:
    """The sum of the weights that go with each agent's action; weights of empty columns must be 0."""
    agents = np.arange(actions.shape[0])[:, None]
    return jnp.zeros((actions.shape[0], num_actions)).at[agents, actions].add(weights)


def interactions(
    told: Told,
    alpha: Float[Array, " T"],
    prior: Surrogate,
    actions: Int[Array, " I"],
    directions: Directions,
    beliefs: Beliefs,
) -> Float[Array, "M M"]:
    """Δ²_{u,v} z of all pairs among M directions; meaningless where u and v move the same agent."""
    agents, choices = directions
    _, pair = beliefs.variances(actions.shape[0])
    column = told.actions[agents]
    moved = (column == choices[:, None]).astype(jnp.float32) - (column == actions[agents][:, None])
    return pair * (moved * alpha) @ moved.T + predictor.interactions(prior, actions, directions)
