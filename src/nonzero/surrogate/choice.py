"""NonUCT by draws: a candidate again or a change of the best one, as a draw from the posterior prefers.

A draw is a function of the joint action that the returns told leave possible (Thompson sampling): where
little is known draws differ much, which is the rule's bonus, and every direction is tried in the end. The
best candidate under the draw is the incumbent. All one-agent changes of it are compared, and the two-agent
changes among two directions of each agent, the best one and a random one. Candidates and illegal actions are
excluded by construction.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero.surrogate.deviations import apply_change
from nonzero.surrogate.posterior import (
    Beliefs,
    Scale,
    Told,
    coefficients,
    interactions,
    score,
    single_score_changes,
)
from nonzero.surrogate.predictor import Directions, Surrogate, moves_two_agents
from nonzero.types import PAIR, SINGLE


class Choice(NamedTuple):
    """What to try next: `actions`, a change of a candidate, if `is_change`; else candidate `slot` again."""

    actions: Int[Array, "*B I"]
    origin: Int[Array, "*B"]
    is_change: Bool[Array, "*B"]
    slot: Int[Array, "*B"]


class Change(NamedTuple):
    """The change that gains most, and how much; minus infinity where there is none."""

    actions: Int[Array, " I"]
    gain: Float[Array, ""]


class Around(NamedTuple):
    """The candidates, as seen from one of them."""

    differs: Bool[Array, "K I"]
    distance: Int[Array, " K"]
    """In how many agents they differ from it; 0 in empty slots."""
    plays: Bool[Array, "K I A"]
    """Which action each agent plays in them."""


def drawn_prior(prior: Surrogate, daring: Float[Array, ""], beliefs: Beliefs, key: PRNGKeyArray) -> Surrogate:
    """A draw from the prior over w; pairs keep their mean."""
    single, _ = beliefs.variances(prior.w.shape[0])
    noise = daring * np.sqrt(single) * jax.random.normal(key, prior.w.shape)
    return eqx.tree_at(lambda p: p.w, prior, prior.w + noise)


def choose(
    told: Told,
    prior: Surrogate,
    candidates: Int[Array, "K I"],
    filled: Bool[Array, " K"],
    legal: Bool[Array, "I A"],
    key: PRNGKeyArray,
    *,
    scale: Scale,
    daring: Float[Array, ""],
    pairs: bool,
    beliefs: Beliefs,
) -> Choice:
    """What one draw from the posterior prefers; `daring` scales its distance from the mean."""
    prior_key, noise_key, pick_key = jax.random.split(key, 3)
    drawn = drawn_prior(prior, daring, beliefs, prior_key)
    noise = daring * np.sqrt(beliefs.noise) * jax.random.normal(noise_key, told.returns.shape)
    alpha = coefficients(told, drawn, scale, noise, beliefs)
    values = jax.vmap(lambda actions: score(told, alpha, drawn, actions, beliefs))(candidates)
    slot = jnp.argmax(jnp.where(filled, values, -jnp.inf)).astype(jnp.int32)
    incumbent = candidates[slot]
    differs = candidates != incumbent
    distance = jnp.where(filled, jnp.sum(differs, axis=-1), 0)
    around = Around(differs, distance, candidates[:, :, None] == np.arange(legal.shape[1]))
    possible = legal & (np.arange(legal.shape[1]) != incumbent[:, None])
    gains = single_score_changes(told, alpha, drawn, incumbent, beliefs)
    gains = jnp.where(possible, gains, -jnp.inf)
    single = best_single(incumbent, gains, around)
    if not pairs or legal.shape[0] == 1:
        return Choice(single.actions, jnp.int32(SINGLE), single.gain > 0, slot)
    directions = pick_directions(gains, possible, pick_key)
    joint = interactions(told, alpha, drawn, incumbent, directions, beliefs)
    pair = best_pair(incumbent, gains, joint, directions, around)
    wins = pair.gain > single.gain
    actions = jnp.where(wins, pair.actions, single.actions)
    return Choice(actions, jnp.where(wins, PAIR, SINGLE), jnp.maximum(single.gain, pair.gain) > 0, slot)


def best_single(incumbent: Int[Array, " I"], gains: Float[Array, "I A"], around: Around) -> Change:
    """The one-agent change that gains most and is no candidate."""
    taken = (around.distance == 1)[:, None, None] & around.differs[:, :, None] & around.plays
    gains = jnp.where(jnp.any(taken, axis=0), -jnp.inf, gains)
    agent, choice = jnp.divmod(jnp.argmax(gains), gains.shape[1])
    return Change(incumbent.at[agent].set(choice.astype(incumbent.dtype)), jnp.max(gains))


def pick_directions(
    gains: Float[Array, "I A"], possible: Bool[Array, "I A"], key: PRNGKeyArray
) -> Directions:
    """Two directions an agent: its best, and a random one, since a pair may help although no single does."""
    random = jnp.where(possible, jax.random.uniform(key, gains.shape), -1.0)
    agents = jnp.arange(gains.shape[0], dtype=jnp.int32)
    choices = jnp.concatenate([jnp.argmax(gains, axis=1), jnp.argmax(random, axis=1)])
    return Directions(jnp.concatenate([agents, agents]), choices.astype(jnp.int32))


def best_pair(
    incumbent: Int[Array, " I"],
    gains: Float[Array, "I A"],
    joint: Float[Array, "M M"],
    directions: Directions,
    around: Around,
) -> Change:
    """The two-agent change among the directions that gains most and is no candidate."""
    apart = gains[directions]
    # A candidate at distance 2 that plays both directions is that pair.
    plays = around.plays[:, directions.agents, directions.choices].astype(jnp.float32)
    taken = plays.T @ (plays * (around.distance == 2)[:, None]) > 0
    allowed = moves_two_agents(directions) & ~taken
    pair = jnp.where(allowed, apart[:, None] + apart[None, :] + joint, -jnp.inf)
    first, second = jnp.divmod(jnp.argmax(pair), pair.shape[0])
    picked = (Directions(directions.agents[side], directions.choices[side]) for side in (first, second))
    return Change(apply_change(incumbent, *picked), jnp.max(pair))
