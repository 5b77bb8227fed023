from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nonzero.training.replay import Replay, add, can_start, new_replay, sample, set_priorities, step_numbers

LENGTH, BEFORE, AFTER = 12, 1, 3
put = jax.jit(add)
draw = partial(
    jax.jit(sample, static_argnums=2, static_argnames=("before", "after", "exponent")),
    before=BEFORE,
    after=AFTER,
)


def filled(steps: int, ends: dict[int, list[int]] | None = None) -> Replay[jax.Array]:
    """Two rings whose step t is the number 100 * ring + t; `ends` lists the last steps of each ring."""
    replay = new_replay(jnp.float32(0.0), 2, LENGTH)
    for t in range(steps):
        is_last = [t in (ends or {}).get(ring, []) for ring in range(2)]
        replay = put(replay, jnp.array([t, 100.0 + t]), jnp.array(is_last))
    return replay


def starts(replay: Replay[jax.Array], ring: int) -> list[int]:
    """The steps at which a window may start."""
    number = np.asarray(step_numbers(replay))
    return sorted(number[np.asarray(can_start(replay, BEFORE, AFTER))[ring]].tolist())


def test_slots_know_their_steps() -> None:
    assert step_numbers(filled(3)).tolist() == [0, 1, 2, *range(-9, 0)]
    assert step_numbers(filled(15)).tolist() == [12, 13, 14, *range(3, 12)]


@pytest.mark.parametrize(
    ("steps", "ends", "expected"),
    [
        (3, {}, []),
        (6, {}, [0, 1, 2]),
        (6, {0: [4]}, [0, 1, 2, 3, 4]),
        (12, {}, list(range(9))),
        # Step 3 is the oldest that is left and has nothing before it.
        (15, {}, list(range(4, 12))),
        (15, {0: [14]}, list(range(4, 15))),
    ],
)
def test_where_windows_may_start(steps: int, ends: dict[int, list[int]], expected: list[int]) -> None:
    assert starts(filled(steps, ends), 0) == expected


def test_windows_are_stretches_of_one_ring() -> None:
    drawn = draw(filled(15), jax.random.key(0), 64, exponent=0.6, correction=0.4)
    windows = np.asarray(drawn.windows)
    assert windows.shape == (64, BEFORE + 1 + AFTER)
    np.testing.assert_array_equal(np.diff(windows, axis=1), 1.0)
    first = windows[:, BEFORE]
    assert set(first) == {*range(4, 12), *range(104, 112)}
    np.testing.assert_array_equal(drawn.age, 14 - first % 100)
    np.testing.assert_array_equal(drawn.places[:, 0], first >= 100)


def test_draws_follow_priorities_and_weights_undo_it() -> None:
    replay = filled(6)  # three starts in each ring
    places = jnp.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]])
    priorities = jnp.array([1.0, 4.0, 9.0, 16.0, 0.0, 4.0])
    replay = jax.jit(set_priorities)(replay, places, priorities)
    drawn = draw(replay, jax.random.key(0), 6400, exponent=0.5, correction=1.0)
    first = np.asarray(drawn.windows)[:, BEFORE]
    share = [np.mean(first == step) for step in (0, 1, 2, 100, 101, 102)]
    np.testing.assert_allclose(share, np.array([1, 2, 3, 4, 0, 2]) / 12, atol=2e-3)
    weights = np.asarray(drawn.weights)
    for step, root in ((0, 1), (1, 2), (2, 3), (100, 4)):
        np.testing.assert_allclose(weights[first == step], 1 / root, rtol=1e-5)


def test_new_steps_get_the_largest_priority_seen() -> None:
    replay = jax.jit(set_priorities)(filled(6), jnp.array([[0, 0], [1, 1]]), jnp.array([2.5, 0.1]))
    replay = put(replay, jnp.zeros(2), jnp.zeros(2, bool))
    assert replay.priorities[:, 6].tolist() == [2.5, 2.5]
    assert replay.priorities[0, 0] == 2.5
    np.testing.assert_allclose(replay.priorities[1, 1], 0.1)


def test_adding_works_in_place_when_donated() -> None:
    replay = filled(4)
    address = replay.steps.unsafe_buffer_pointer()
    replay = jax.jit(add, donate_argnums=0)(replay, jnp.zeros(2), jnp.zeros(2, bool))
    assert replay.steps.unsafe_buffer_pointer() == address
