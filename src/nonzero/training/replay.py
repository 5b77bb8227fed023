"""Replay of the last steps of several environments, sampled by priority in windows, inside compiled code.

Steps lie in one ring per environment, all environments moving on together. A window is a stretch around its
first position: some steps before it (for the history of observations) and some after (for the unroll and its
targets). It may run past the end of the episode, and past the newest step if the episode ended before that:
so the last episodes can be learned from at once, which matters where the budget is a few dozen of them.

Departure: design.md names flashbax. Its windows must lie wholly in the past, and version 0.1.3 cuts the
priority of new steps to a whole number.
"""

from typing import Any, Generic, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

Step = TypeVar("Step")


class Replay(eqx.Module, Generic[Step]):
    """The rings, [E, T] each; slot t % T holds step t."""

    steps: Step
    priorities: Float[Array, "E T"]
    count: Int[Array, ""]
    """Steps added so far to each ring."""
    complete: Int[Array, " E"]
    """Steps of each environment up to the end of its last complete episode."""
    largest: Float[Array, ""]
    """The largest priority so far: what new steps get."""


class Sample(eqx.Module, Generic[Step]):
    """Windows drawn by priority, [B, W, ...], and where they came from."""

    windows: Step
    places: Int[Array, "B 2"]
    """Ring and slot of each window's first position."""
    weights: Float[Array, "B"]
    """(N p)^-β, relative to the largest: they undo that some are drawn more often."""
    age: Int[Array, "B"]
    """Steps that the environment made since."""


def new_replay(step: Step, num_rings: int, length: int) -> Replay[Step]:
    """An empty replay of steps like `step` (one environment's, for shapes and types)."""
    empty = jax.tree.map(lambda x: jnp.zeros((num_rings, length, *jnp.shape(x)), jnp.result_type(x)), step)
    return Replay(
        steps=empty,
        priorities=jnp.zeros((num_rings, length)),
        count=jnp.int32(0),
        complete=jnp.zeros(num_rings, jnp.int32),
        largest=jnp.float32(1.0),
    )


def add(replay: Replay[Step], step: Step, is_last: Bool[Array, " E"]) -> Replay[Step]:
    """The replay after one more step of each environment; `is_last` says which ended their episode."""
    slot = replay.count % replay.priorities.shape[1]
    count = replay.count + 1
    return Replay(
        steps=jax.tree.map(lambda ring, x: ring.at[:, slot].set(x), replay.steps, step),
        priorities=replay.priorities.at[:, slot].set(replay.largest),
        count=count,
        complete=jnp.where(is_last, count, replay.complete),
        largest=replay.largest,
    )


def step_numbers(replay: Replay[Any]) -> Int[Array, " T"]:
    """Which step lies in each slot; negative where none does yet."""
    length = replay.priorities.shape[1]
    newest = replay.count - 1
    return newest - (newest - jnp.arange(length)) % length


def can_start(replay: Replay[Any], before: int, after: int) -> Bool[Array, "E T"]:
    """Where windows with `before` steps before and `after` steps after their first position may be cut."""
    number = step_numbers(replay)
    length = replay.priorities.shape[1]
    # What lies before the very first step is never looked at: it opened an episode.
    oldest = jnp.where(replay.count > length, replay.count - length + before, 0)
    is_known = (number + after < replay.count) | (number < replay.complete[:, None])
    return is_known & (number >= oldest)


def sample(
    replay: Replay[Step],
    key: PRNGKeyArray,
    batch: int,
    *,
    before: int,
    after: int,
    exponent: float,
    correction: Float[Array, ""] | float,
) -> Sample[Step]:
    """Draw `batch` windows in proportion to priority ** `exponent`, evenly spread over the cumulated sum."""
    length = replay.priorities.shape[1]
    mass = jnp.where(can_start(replay, before, after), replay.priorities**exponent, 0.0).reshape(-1)
    cumulated = jnp.cumsum(mass)
    draws = (jnp.arange(batch) + jax.random.uniform(key, (batch,))) / batch * cumulated[-1]
    flat = jnp.searchsorted(cumulated, draws, side="right")
    # Rounding may carry a draw past the last place that can be drawn.
    flat = jnp.minimum(flat, jnp.max(jnp.where(mass > 0, jnp.arange(mass.size), 0)))
    ring, slot = flat // length, flat % length
    probability = mass[flat] / cumulated[-1]
    weights = (jnp.sum(mass > 0) * probability) ** -correction
    around = (slot[:, None] + jnp.arange(-before, after + 1)) % length
    return Sample(
        windows=jax.tree.map(lambda x: x[ring[:, None], around], replay.steps),
        places=jnp.stack([ring, slot], axis=1),
        weights=weights / jnp.max(weights),
        age=replay.count - 1 - step_numbers(replay)[slot],
    )


def set_priorities(
    replay: Replay[Step], places: Int[Array, "B 2"], priorities: Float[Array, "B"]
) -> Replay[Step]:
    """The replay after the windows at `places` turned out to matter as much as `priorities` say."""
    ring, slot = places[:, 0], places[:, 1]
    return eqx.tree_at(
        lambda r: (r.priorities, r.largest),
        replay,
        (
            replay.priorities.at[ring, slot].set(priorities),
            jnp.maximum(replay.largest, jnp.max(priorities)),
        ),
    )
