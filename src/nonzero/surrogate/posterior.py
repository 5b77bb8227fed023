"""What θ is, given a few hundred returns: its exact Gaussian posterior.

Before any data let every entry of w have variance s₁ and every pair of agents' actions a term of variance
s₂. Then z is a Gaussian process whose covariance rests on m, in how many agents two joint actions agree,

    k(m) = s₁ m + s₂ m (m − 1) / 2,

and its posterior mean is z(θ₀, a) + Σ_t α_t k(m_t(a)): the prior's own θ₀ and, for every return told, α_t s₁
on the entries of w that it used and one more factor, √(s₂ |α_t|) in the rows v of its actions, with the sign
of α_t. So T numbers stand for a θ of rank T, and nothing is iterated. One more return costs O(T²), all single
changes O(T·I·A), all pairs of M directions O(T·M²). Functions take one history; the caller vmaps.
"""

from dataclasses import dataclass, field

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from nonzero.surrogate import predictor
from nonzero.surrogate.predictor import Directions, Link, Surrogate, apply_link, invert_link


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
    """Returns and the joint actions they followed; T is the capacity."""

    actions: Int[Array, "T I"]
    levels: Int[Array, " T"]
    """Returns of different levels differ by a constant of their own."""
    returns: Float[Array, " T"]
    filled: Bool[Array, " T"]
    inverse: Float[Array, "T T"]
    """Of the covariance of the returns, noise included; zero in empty rows."""
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
        actions=jnp.full((capacity, num_agents), -1, jnp.int32),
        levels=rows,
        returns=jnp.zeros(capacity),
        filled=jnp.zeros(capacity, bool),
        inverse=jnp.zeros((capacity, capacity)),
        own=jnp.zeros(()),
    )


def tell(
    told: Told,
    row: Int[Array, ""],
    actions: Int[Array, " I"],
    level: Int[Array, ""],
    value: Float[Array, ""],
    beliefs: Beliefs,
) -> Told:
    """The history with one more return, in the empty row `row`: the inverse grows by a row and a column."""
    num_agents = actions.shape[0]
    agreed = agreements(told, actions)
    shared = beliefs.level * (told.levels == level) + told.own * (agreed == num_agents)
    covariance = jnp.where(told.filled, beliefs.covariance(agreed, num_agents) + shared, 0.0)
    weights = told.inverse @ covariance
    own = beliefs.covariance(jnp.float32(num_agents), num_agents) + told.own
    own = own + beliefs.level + beliefs.noise
    here = jnp.arange(told.filled.shape[0]) == row
    direction = jnp.where(here, -1.0, weights)
    # What the others do not explain of the new return is at least its noise.
    unexplained = jnp.maximum(own - covariance @ weights, beliefs.noise)
    return Told(
        actions=jnp.where(here[:, None], actions, told.actions),
        levels=jnp.where(here, level, told.levels),
        returns=jnp.where(here, value, told.returns),
        filled=told.filled | here,
        inverse=told.inverse + direction[:, None] * (direction / unexplained),
        own=told.own,
    )


def agreements(told: Told, actions: Int[Array, " I"]) -> Float[Array, " T"]:
    """In how many agents each joint action told agrees with `actions`; empty rows agree in none."""
    return jnp.sum(told.actions == actions, axis=-1).astype(jnp.float32)


def scale(told: Told) -> Scale:
    """The mean and the spread of the returns told; equal returns differ by rounding alone, and have none."""
    count = jnp.maximum(jnp.sum(told.filled), 1)
    centre = jnp.sum(jnp.where(told.filled, told.returns, 0.0)) / count
    spread = jnp.sqrt(jnp.sum(jnp.where(told.filled, (told.returns - centre) ** 2, 0.0)) / count)
    return Scale(centre, jnp.where(spread > 1e-5 * jnp.abs(centre), spread, 1.0))


def coefficients(
    told: Told, prior: Surrogate, scale: Scale, noise: Float[Array, " T"], beliefs: Beliefs
) -> Float[Array, " T"]:
    """α for the returns told less `noise`: zeros for the mean, drawn ones for a draw from the posterior."""
    z = invert_link((told.returns - scale.centre) / scale.spread, beliefs.link)
    explained = jax.vmap(lambda actions: predictor.score(prior, actions))(told.actions)
    return told.inverse @ jnp.where(told.filled, z - noise - explained, 0.0)


def score(
    told: Told, alpha: Float[Array, " T"], prior: Surrogate, actions: Int[Array, " I"], beliefs: Beliefs
) -> Float[Array, ""]:
    """z of a joint action."""
    covariance = beliefs.covariance(agreements(told, actions), actions.shape[0])
    return predictor.score(prior, actions) + alpha @ covariance


def predict(
    told: Told, alpha: Float[Array, " T"], prior: Surrogate, actions: Int[Array, " I"], beliefs: Beliefs
) -> Float[Array, ""]:
    """η of a joint action, as a normalised return."""
    return apply_link(score(told, alpha, prior, actions, beliefs), beliefs.link)


def single_score_changes(
    told: Told, alpha: Float[Array, " T"], prior: Surrogate, actions: Int[Array, " I"], beliefs: Beliefs
) -> Float[Array, "I A"]:
    """z(a^(u)) − z(a) of every single change; zero where it is the action played."""
    num_agents, num_actions = prior.w.shape
    single, pair = beliefs.variances(num_agents)
    agrees = told.actions == actions
    others = jnp.sum(agrees, axis=-1, keepdims=True) - agrees
    slopes = alpha[:, None] * (single + pair * others)
    played = (told.actions.T[:, :, None] == np.arange(num_actions)).astype(jnp.float32)
    table = jnp.einsum("ti,ita->ia", slopes, played)
    here = jnp.sum(slopes * agrees, axis=0)
    return table - here[:, None] + predictor.single_score_changes(prior, actions)


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
    column = told.actions.T[agents]
    moved = (column == choices[:, None]).astype(jnp.float32) - (column == actions[agents][:, None])
    return pair * (moved * alpha) @ moved.T + predictor.interactions(prior, actions, directions)
