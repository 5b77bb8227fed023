import itertools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nonzero.surrogate.predictor import Directions
from nonzero.surrogate.tried import (
    WORD,
    Tried,
    hash_actions,
    hash_table,
    is_known,
    nothing_tried,
    tries_of_actions,
    tries_of_pairs,
    with_one_more,
    with_room,
)

AGENTS, ACTIONS = 4, 3
EVERYTHING = np.array(list(itertools.product(range(ACTIONS), repeat=AGENTS)), np.int32)
HASHES = jax.vmap(hash_actions, in_axes=(None, 0))(hash_table(AGENTS, ACTIONS), jnp.array(EVERYTHING))
DIRECTIONS = Directions(*(jnp.array(x) for x in np.divmod(np.arange(AGENTS * ACTIONS), ACTIONS)))

add = jax.jit(with_one_more)


def record(actions: np.ndarray, capacity: int) -> Tried:
    tried = nothing_tried(AGENTS, ACTIONS, capacity)
    for row, action in enumerate(actions):
        tried = add(tried, jnp.array(action), jnp.int32(row), jnp.bool_(True))
    return tried


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.sampled_from([0, 1, WORD - 1, WORD, WORD + 1, 40]))
def test_a_record_knows_and_counts_what_was_tried(seed: int, count: int) -> None:
    order = np.random.default_rng(seed).permutation(len(EVERYTHING))
    tried = record(EVERYTHING[order[:count]], capacity=40)
    assert set(np.flatnonzero(is_known(tried, HASHES))) == set(order[:count])
    is_played = EVERYTHING[order[:count], :, None] == np.arange(ACTIONS)
    np.testing.assert_array_equal(tries_of_actions(tried), is_played.sum(0))
    flat = is_played.reshape(count, AGENTS * ACTIONS).astype(int)
    rows, columns = np.triu_indices(AGENTS * ACTIONS)
    pairs = tries_of_pairs(tried, DIRECTIONS, (rows, columns))
    np.testing.assert_array_equal(pairs, (flat.T @ flat)[rows, columns])


def test_what_is_not_new_changes_nothing() -> None:
    tried = record(EVERYTHING[:5], capacity=8)
    same = add(tried, jnp.array(EVERYTHING[7]), jnp.int32(5), jnp.bool_(False))
    for before, after in zip(tried, same, strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_record_with_more_room_goes_on_as_if_it_had_had_it_before() -> None:
    small = with_room(record(EVERYTHING[:30], capacity=30), 70)
    for row in range(30, 40):
        small = add(small, jnp.array(EVERYTHING[row]), jnp.int32(row), jnp.bool_(True))
    for grown, at_once in zip(small, record(EVERYTHING[:40], capacity=70), strict=True):
        np.testing.assert_array_equal(grown, at_once)


def test_hashes_tell_joint_actions_apart() -> None:
    assert len(set(HASHES.tolist())) == len(EVERYTHING)
