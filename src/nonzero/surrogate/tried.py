"""What was tried: whether a joint action was, and how often an action, or a pair of actions, was.

A joint action is known by its hash. Each agent's action keeps one bit for every joint action that was tried,
32 to a word, so that the tries of a pair are the bits which its two rows share.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt32

from nonzero.surrogate.predictor import Directions, chosen

EMPTY = jnp.uint32(0xFFFFFFFF)
WORD = 32
"""Joint actions whose bits share a word."""


class Tried(NamedTuple):
    """The joint actions tried so far, T at most."""

    hashes: UInt32[Array, " T"]
    """Sorted, so that membership is a binary search; the largest word where there is none."""
    played: UInt32[Array, "I A W"]
    """Bit t % 32 of word t // 32 of entry (i, j): whether agent i played j in the t-th joint action."""


def nothing_tried(num_agents: int, num_actions: int, capacity: int) -> Tried:
    """Room for `capacity` joint actions."""
    words = -(-capacity // WORD)
    return Tried(jnp.full(capacity, EMPTY), jnp.zeros((num_agents, num_actions, words), jnp.uint32))


def with_room(tried: Tried, capacity: int) -> Tried:
    """The same record with room for `capacity` joint actions."""
    hashes = jnp.pad(tried.hashes, (0, capacity - tried.hashes.size), constant_values=EMPTY)
    words = -(-capacity // WORD) - tried.played.shape[-1]
    return Tried(hashes, jnp.pad(tried.played, ((0, 0), (0, 0), (0, words))))


def with_one_more(
    tried: Tried, actions: Int[Array, " I"], row: Int[Array, ""], is_new: Bool[Array, ""]
) -> Tried:
    """The record after joint action number `row`, where it is new; it must not be known yet."""
    num_agents, num_actions, _ = tried.played.shape
    word = hash_actions(hash_table(num_agents, num_actions), actions)
    place = jnp.searchsorted(tried.hashes, word)
    index = jnp.arange(tried.hashes.size)
    later = jnp.where(index == place, word, jnp.roll(tried.hashes, 1))
    hashes = jnp.where(is_new & (index >= place), later, tried.hashes)
    bit = is_new.astype(jnp.uint32) << (row % WORD).astype(jnp.uint32)
    played = tried.played.at[jnp.arange(num_agents), actions, row // WORD].add(bit)
    return Tried(hashes, played)


def is_known(tried: Tried, wanted: UInt32[Array, " L"]) -> Bool[Array, " L"]:
    """Which of the wanted hashes are those of joint actions tried."""
    place = jnp.minimum(jnp.searchsorted(tried.hashes, wanted), tried.hashes.size - 1)
    return tried.hashes[place] == wanted


def tries_of_actions(tried: Tried) -> Int[Array, "I A"]:
    """How often each agent's action was tried."""
    return jax.lax.population_count(tried.played).astype(jnp.int32).sum(-1)


def tries_of_pairs(
    tried: Tried, directions: Directions, pairs: tuple[np.ndarray, np.ndarray]
) -> Int[Array, " L"]:
    """How often both actions were tried together, of each pair of rows of the list of directions."""
    words = tried.played[directions]
    return jax.lax.population_count(words[pairs[0]] & words[pairs[1]]).astype(jnp.int32).sum(-1)


def hash_table(num_agents: int, num_actions: int) -> UInt32[Array, "I A"]:
    """A fixed random word per (agent, action): a joint action's hash is the sum of its own."""
    with jax.ensure_compile_time_eval():  # a constant of compiled functions
        return jax.random.bits(jax.random.key(0x5EED), (num_agents, num_actions), jnp.uint32)


def hash_actions(table: UInt32[Array, "I A"], actions: Int[Array, " I"]) -> UInt32[Array, ""]:
    """The hash of a joint action."""
    return chosen(table, actions).sum(dtype=jnp.uint32)
