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

from nonzero.surrogate import predictor
from nonzero.surrogate.deviations import apply_change
from nonzero.surrogate.posterior import (
    Beliefs,
    Scale,
    Told,
    by_action,
    coefficients,
    interactions,
    predicted,
    scores,
    single_score_changes,
    surprises,
)
from nonzero.surrogate.predictor import Directions, Surrogate, moves_two_agents
from nonzero.types import PAIR, SINGLE


class Choice(NamedTuple):
    """What to try next: `actions`, a change of candidate `slot`, if it gains; else that candidate again."""

    actions: Int[Array, "*B I"]
    origin: Int[Array, "*B"]
    gain: Float[Array, "*B"]
    """How much the change is better under the draw; minus infinity where there is none."""
    slot: Int[Array, "*B"]
    worth: Float[Array, "*B K"]
    """η of the candidates, by the posterior's mean, on the scale of the returns."""


class Change(NamedTuple):
    """The change that gains most, and how much; minus infinity where there is none."""

    actions: Int[Array, " I"]
    gain: Float[Array, ""]


class Around(NamedTuple):
    """The joint actions that are no change to try, as seen from the incumbent."""

    actions: Int[Array, "I X"]
    differs: Bool[Array, "I X"]
    distance: Int[Array, " X"]
    """In how many agents they differ from it; 0 in empty rows."""


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
    repeats: bool,
    beliefs: Beliefs,
) -> Choice:
    """What one draw from the posterior prefers; `daring` scales its distance from the mean.

    Without `repeats` only what was never told is a change to try.
    """
    draw_key, pick_key = jax.random.split(key)
    drawn, mean, alpha = draw(told, prior, draw_key, scale, daring, beliefs)
    worth = predicted(told, mean, prior, scale, candidates, beliefs)
    values = jax.vmap(lambda joint: predictor.score(drawn, joint))(candidates)
    values = values + scores(told, alpha, candidates, beliefs)
    slot = jnp.argmax(jnp.where(filled, values, -jnp.inf)).astype(jnp.int32)
    incumbent = candidates[slot]
    around = seen_from(incumbent, candidates.T, filled)
    if not repeats:
        known = jnp.concatenate([candidates.T, told.actions], axis=1)
        around = seen_from(incumbent, known, jnp.concatenate([filled, told.filled]))
    possible = legal & (np.arange(legal.shape[1]) != incumbent[:, None])
    gains = single_score_changes(told, alpha, drawn, incumbent, beliefs)
    gains = jnp.where(possible, gains, -jnp.inf)
    single = best_single(incumbent, gains, around)
    if not pairs or legal.shape[0] == 1:
        return Choice(single.actions, jnp.int32(SINGLE), single.gain, slot, worth)
    directions = pick_directions(gains, possible, pick_key)
    joint = interactions(told, alpha, drawn, incumbent, directions, beliefs)
    pair = best_pair(incumbent, gains, joint, directions, around)
    wins = pair.gain > single.gain
    actions = jnp.where(wins, pair.actions, single.actions)
    gain = jnp.maximum(single.gain, pair.gain)
    return Choice(actions, jnp.where(wins, PAIR, SINGLE), gain, slot, worth)


def draw(
    told: Told,
    prior: Surrogate,
    key: PRNGKeyArray,
    scale: Scale,
    daring: Float[Array, ""],
    beliefs: Beliefs,
) -> tuple[Surrogate, Float[Array, " T"], Float[Array, " T"]]:
    """A draw from the prior, and α of the posterior's mean and of the draw from it that this one becomes.

    The draw is corrected by what the returns, with noise of their own, say of it. Pairs keep their mean, and
    so do the errors that all answers of a level or of a joint action share.
    """
    prior_key, noise_key = jax.random.split(key)
    single, _ = beliefs.variances(prior.w.shape[0])
    shift = daring * np.sqrt(single) * jax.random.normal(prior_key, prior.w.shape)
    noise = daring * np.sqrt(beliefs.noise) * jax.random.normal(noise_key, told.returns.shape)
    shifted = jnp.sum(jnp.take_along_axis(shift, told.actions, axis=1), axis=0)
    surprise = surprises(told, scale, beliefs)
    other = jnp.where(told.filled, surprise - shifted - noise, 0.0)
    # Both at once: the history is read but once.
    mean, alpha = coefficients(told, jnp.stack([surprise, other]))
    return eqx.tree_at(lambda p: p.w, prior, prior.w + shift), mean, alpha


def seen_from(incumbent: Int[Array, " I"], actions: Int[Array, "I X"], filled: Bool[Array, " X"]) -> Around:
    """The `filled` of X joint actions as seen from the incumbent."""
    differs = actions != incumbent[:, None]
    return Around(actions, differs, jnp.where(filled, jnp.sum(differs, axis=0), 0))


def best_single(incumbent: Int[Array, " I"], gains: Float[Array, "I A"], around: Around) -> Change:
    """The one-agent change that gains most and is not excluded."""
    is_neighbour = (around.differs & (around.distance == 1)).astype(jnp.float32)
    taken = by_action(around.actions, is_neighbour, gains.shape[1])
    gains = jnp.where(taken > 0, -jnp.inf, gains)
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
    """The two-agent change among the directions that gains most and is not excluded."""
    apart = gains[directions]
    # What is two agents away and plays both directions is that pair.
    plays = (around.actions[directions.agents] == directions.choices[:, None]).astype(jnp.float32)
    taken = (plays * (around.distance == 2)) @ plays.T > 0
    allowed = moves_two_agents(directions) & ~taken
    pair = jnp.where(allowed, apart[:, None] + apart[None, :] + joint, -jnp.inf)
    first, second = jnp.divmod(jnp.argmax(pair), pair.shape[0])
    picked = (Directions(directions.agents[side], directions.choices[side]) for side in (first, second))
    return Change(apply_change(incumbent, *picked), jnp.max(pair))
