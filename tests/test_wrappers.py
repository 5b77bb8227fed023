import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int, PRNGKeyArray

import nonzero
from nonzero.envs.wrappers import AutoReset, check_actions, random_legal_actions
from nonzero.types import Environment, EnvSpec, TimeStep

SPEC = EnvSpec("count", 2, 3, (1,), (1,), 4, (0.0, 10.0))


class CountState(eqx.Module):
    start: Int[Array, ""]
    step: Int[Array, ""]


class Count:
    """Shows where it started and how far it came; ends after three steps, or cut off after `limit`."""

    spec = SPEC

    def __init__(self, limit: int = 4) -> None:
        self.limit = limit

    def reset(self, key: PRNGKeyArray) -> tuple[CountState, TimeStep]:
        state = CountState(jax.random.randint(key, (), 10, 10**6), jnp.int32(0))
        return state, self.look(state)

    def step(
        self, state: CountState, actions: Int[Array, " I"], key: PRNGKeyArray
    ) -> tuple[CountState, TimeStep]:
        del actions, key
        state = CountState(state.start, state.step + 1)
        return state, self.look(state)

    def look(self, state: CountState) -> TimeStep:
        step = state.step.astype(jnp.float32)
        return TimeStep(
            obs=jnp.full((2, 1), state.start + step),
            state=step[None],
            legal=jnp.ones((2, 3), bool).at[:, 0].set(state.step != 3),
            reward=step,
            terminated=state.step == 3,
            truncated=state.step == self.limit,
            won=state.step == 3,
        )


NOTHING = jnp.zeros(2, jnp.int32)


def test_auto_reset_is_an_environment_of_the_same_spec() -> None:
    wrapped = AutoReset(Count())
    assert isinstance(wrapped, Environment)
    assert wrapped.spec is SPEC


@pytest.mark.parametrize("limit", [4, 2])
def test_last_step_keeps_its_end_and_play_goes_on_from_a_new_start(limit: int) -> None:
    wrapped = AutoReset(Count(limit))
    step = jax.jit(wrapped.step)
    last = min(limit, 3)
    state, seen = wrapped.reset(jax.random.key(0))
    starts = [float(seen.obs[0, 0])]
    for number in range(1, 2 * last + 1):
        state, outcome = step(state, NOTHING, jax.random.fold_in(jax.random.key(1), number))
        played = (number - 1) % last + 1
        assert float(outcome.reward) == played
        assert float(outcome.obs[0, 0]) == starts[-1] + played
        assert bool(outcome.terminated) == (played == 3)
        assert bool(outcome.truncated) == (played == limit)
        assert bool(outcome.legal[0, 0]) == (played != 3)
        if played < last:
            assert eqx.tree_equal(state.current, outcome)
        else:
            assert not bool(state.current.is_last | state.current.won)
            assert float(state.current.reward) == 0
            assert bool(state.current.legal.all())
            starts.append(float(state.current.obs[0, 0]))
    assert len(set(starts)) == 3


def test_key_splits_into_the_steps_and_the_resets() -> None:
    env = Count()
    wrapped = AutoReset(env)
    state, _ = wrapped.reset(jax.random.key(0))
    for number in range(3):
        state, _ = wrapped.step(state, NOTHING, jax.random.key(number))
    _, expected = env.reset(jax.random.split(jax.random.key(2))[1])
    assert eqx.tree_equal(state.current, expected)


def test_rows_of_a_batch_reset_alone() -> None:
    wrapped = AutoReset(Count())
    batch = jax.vmap(wrapped.step, in_axes=(0, None, None))
    one, _ = wrapped.reset(jax.random.key(0))
    two, _ = wrapped.step(one, NOTHING, jax.random.key(1))
    three, _ = wrapped.step(two, NOTHING, jax.random.key(1))
    states, outcome = batch(
        jax.tree.map(lambda *x: jnp.stack(x), one, two, three), NOTHING, jax.random.key(2)
    )
    np.testing.assert_array_equal(outcome.is_last, [False, False, True])
    np.testing.assert_array_equal(states.inner.step, [1, 2, 0])


def test_play_runs_as_one_compiled_loop() -> None:
    wrapped = AutoReset(nonzero.make("matgame/linear-2x3"))

    @jax.jit
    def run(key: PRNGKeyArray) -> tuple[Array, Array]:
        state, _ = wrapped.reset(key)

        def one(state, key):
            state, outcome = wrapped.step(state, jnp.array([2, 2]), key)
            return state, (outcome.reward, outcome.is_last)

        return jax.lax.scan(one, state, jax.random.split(key, 35))[1]

    reward, is_last = run(jax.random.key(0))
    assert reward.tolist() == [6.0] * 35
    assert np.flatnonzero(is_last).tolist() == [9, 19, 29]


def test_random_actions_are_legal_and_even() -> None:
    count = 2**16
    rows = np.random.default_rng(0).random((6, 9)) < 0.5
    rows[0], rows[1] = True, np.arange(9) == 8
    rows[2], rows[3] = np.arange(9) == 0, np.arange(9) % 2 == 1
    legal = jnp.broadcast_to(jnp.asarray(rows), (count, *rows.shape))
    drawn = np.asarray(random_legal_actions(jax.random.key(0), legal))
    for agent, row in enumerate(rows):
        shares = np.bincount(drawn[:, agent], minlength=9) / count
        assert set(np.flatnonzero(shares)) == set(np.flatnonzero(row))
        # Five deviations of a share at most ½, and what 16 bits leave uneven.
        np.testing.assert_allclose(shares[row], 1 / row.sum(), atol=5 * 0.5 / np.sqrt(count) + 2**-16)
    first, second = drawn[:, 0], drawn[:, 3]
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(count)


LEGAL = np.array([[True, True, False], [False, True, True]])


def test_legal_actions_pass_as_integers() -> None:
    checked = check_actions(SPEC, LEGAL, [1, 2])
    assert checked.dtype == np.int32
    assert checked.tolist() == [1, 2]
    batch = check_actions(SPEC, np.stack([LEGAL, LEGAL]), jnp.array([[0, 1], [1, 2]]))
    assert batch.shape == (2, 2)


@pytest.mark.parametrize(
    ("legal", "actions", "says"),
    [
        (LEGAL, [2, 1], "count: agent 0 plays action 2, which is not legal now; legal: 0, 1"),
        (LEGAL, [1, 3], "count: agent 1 plays action 3, but actions are 0 to 2"),
        (LEGAL, [-1, 1], "count: agent 0 plays action -1, but actions are 0 to 2"),
        (LEGAL & False, [0, 0], "agent 0 plays action 0, which is not legal now; legal: none"),
        (np.stack([LEGAL, LEGAL]), [[0, 1], [0, 0]], "agent 1 of episode 1 plays action 0"),
        (LEGAL, [0], "actions must have shape \\(2,\\), one for each of 2 agents, not \\(1,\\)"),
        (LEGAL, [[0, 1]], "not \\(1, 2\\)"),
        (LEGAL, [0.0, 1.0], "actions must be integers, not float64"),
        (LEGAL, [True, True], "actions must be integers, not bool"),
        (LEGAL.astype(int), [0, 1], "legal must be booleans"),
        (LEGAL[:1], [0], "legal must be booleans of shape \\[..., 2, 3\\]"),
    ],
)
def test_impossible_actions_are_refused_by_name(legal: np.ndarray, actions: list, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_actions(SPEC, legal, actions)
