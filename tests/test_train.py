from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nonzero.model.inference import initial_inference
from nonzero.training.checkpoint import named_arrays
from nonzero.training.rollout import PolicyTargets, Step
from nonzero.training.settings import TargetSettings
from nonzero.training.train import TrainState, draw_batches, evaluate, followed, new_state, reanalyse
from nonzero.training.unroll import new_batch, unroll
from training_setup import TINY, go, tiny_learner


def start(seed: int = 0) -> TrainState:
    return new_state(tiny_learner(), jax.random.key(seed))


def assert_same(one: Any, other: Any) -> None:
    left, right = named_arrays(one), named_arrays(other)
    assert left.keys() == right.keys()
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)


cut = jax.jit(new_batch, static_argnums=(3, 4))
infer = jax.jit(initial_inference)
search_again = jax.jit(reanalyse)


@pytest.fixture(scope="module")
def played() -> TrainState:
    """20 steps, no updates."""
    return go(start(), 1, 0, 10)


def copied(state: TrainState) -> TrainState:
    return jax.tree.map(jnp.copy, state)


def test_steps_and_updates_are_counted(played: TrainState) -> None:
    assert (int(played.steps), int(played.updates)) == (20, 0)
    # Two environments of ten steps each: both finished one episode.
    assert int(played.tally.episodes) == 2
    assert 2 * 20 <= float(played.tally.returned) <= 2 * 60
    after = go(copied(played), 1, 2, 3)
    assert (int(after.steps), int(after.updates), int(after.tally.updates)) == (26, 12, 12)
    assert int(after.replay.count) == 13


def test_what_is_searched_again_comes_from_all_of_the_replay(played: TrainState) -> None:
    draw = jax.jit(draw_batches)
    again = round(TINY.target.reanalyse_share * TINY.optimiser.batch)
    places = [
        np.asarray(draw(tiny_learner(), played, jax.random.key(seed), jnp.float32(0.0))[2])[:, :again]
        for seed in range(8)
    ]
    found = np.concatenate(places).reshape(-1, 2)
    # Two environments with ten steps each, early and late ones in both.
    for ring in (0, 1):
        slots = found[found[:, 0] == ring, 1]
        assert slots.min() <= 2
        assert slots.max() >= 7


def test_what_is_stored_is_what_was_played(played: TrainState) -> None:
    steps: Step = jax.tree.map(lambda x: np.asarray(x[:, :10]), played.replay.steps)
    np.testing.assert_array_equal(steps.reward, np.sum(steps.actions + 1, axis=-1))
    np.testing.assert_array_equal(steps.terminated, [np.arange(10) == 9] * 2)
    np.testing.assert_array_equal(steps.is_first, [[True] + [False] * 9] * 2)
    np.testing.assert_allclose(steps.obs[:, :, 0, 0], [np.arange(10) / 10] * 2, rtol=1e-6)
    np.testing.assert_allclose(steps.policy.shares.sum(-1), 1.0, rtol=1e-6)
    # What was played is among the candidates that were visited.
    is_candidate = np.all(steps.policy.actions == steps.actions[:, :, None], axis=-1)
    assert (is_candidate & (steps.policy.shares > 0)).any(-1).all()


def test_how_calls_are_cut_does_not_matter_to_the_bit(played: TrainState) -> None:
    whole = go(copied(played), 1, 2, 4)
    parts = go(go(copied(played), 1, 2, 1), 1, 2, 3)
    assert_same(whole, parts)
    assert not np.array_equal(whole.model.policy_head.out.bias, played.model.policy_head.out.bias)


def test_the_target_network_follows_at_its_interval(played: TrainState) -> None:
    two = go(copied(played), 0, 1, 1)
    assert_same(two.target, played.model)
    four = go(copied(two), 0, 1, 1)
    assert_same(four.target, four.model)


def test_the_target_network_may_be_an_average(played: TrainState) -> None:
    old, new = played.model, jax.tree.map(lambda x: x + 1.0, played.model)
    settings = TargetSettings(target_interval=2, target_rate=0.25)
    assert_same(followed(old, new, jnp.int32(3), settings), old)
    found = followed(old, new, jnp.int32(4), settings)
    np.testing.assert_allclose(found.action.weight, old.action.weight + 0.25, rtol=1e-6)


def test_seeds_differ() -> None:
    assert not np.array_equal(start(0).model.action.weight, start(1).model.action.weight)


def test_a_broken_parameter_stops_all_updates(played: TrainState) -> None:
    broken = eqx.tree_at(
        lambda s: s.model.reward_head.out.weight, copied(played), replace_fn=lambda w: w.at[0, 0].set(jnp.nan)
    )
    after = go(broken, 0, 1, 3)
    assert bool(after.is_broken)
    assert int(after.updates) == 1


def test_evaluation_plays_whole_episodes_without_chance(played: TrainState) -> None:
    model = eqx.tree_at(lambda m: m.policy_head.out.bias, played.model, jnp.array([0.0, 50.0, 0.0]))
    found = evaluate(tiny_learner(), model, jax.random.key(0), episodes=3)
    # Every candidate is the policy's (1, 1): rewards of 4, ten times.
    np.testing.assert_array_equal(found.returns, 40.0)
    assert not found.won.any()


def test_reanalysis_renews_its_share_and_nothing_else(played: TrainState) -> None:
    windows = jax.tree.map(lambda x: jnp.concatenate([x[:, :6], x[:, :6]]), played.replay.steps)
    one = cut(played.target, windows, jnp.zeros(4, jnp.int32), TINY.target, 2)
    batches = jax.tree.map(lambda x: jnp.stack([x, x]), one)
    fresh = search_again(tiny_learner(), played.target, batches, jax.random.key(5))
    assert_same(*(jax.tree.map(lambda x: x[:, 2:], policy) for policy in (fresh.policy, batches.policy)))
    for number in range(2):
        assert not np.array_equal(fresh.policy.actions[number, :2], one.policy.actions[:2])
    value = infer(played.target, one.histories[0])[0].value
    np.testing.assert_allclose(fresh.policy.value[1, 0], value, rtol=1e-5)


def test_batches_end_with_their_episode(played: TrainState) -> None:
    length, settings = 2, TargetSettings(unroll_steps=3, return_steps=2, discount=0.5, stored_weight=0.25)
    reward = jnp.arange(1.0, 8.0)
    ended = jnp.arange(7) == 3
    policy = PolicyTargets(
        jnp.zeros((7, 2, 2), jnp.int32), jnp.ones((7, 2)) / 2, jnp.zeros((7, 2)), jnp.zeros(7)
    )
    windows = Step(
        obs=jnp.zeros((7, 2, 3)).at[:, :, 0].set(jnp.arange(7.0)[:, None]),
        legal=jnp.ones((7, 2, 3), bool),
        is_first=jnp.arange(7) == 4,
        actions=jnp.zeros((7, 2), jnp.int32),
        reward=reward,
        terminated=ended,
        truncated=jnp.zeros(7, bool),
        policy=policy,
    )
    windows = jax.tree.map(lambda x: x[None], windows)
    batch = cut(played.target, windows, jnp.zeros(1, jnp.int32), settings, length)
    # The window's first position is step 1; the episode ends with step 3.
    np.testing.assert_array_equal(batch.rewards[0], [2.0, 3.0, 4.0])
    assert batch.is_inside[0].tolist() == [True, True, True, False]
    assert batch.is_known[0].tolist() == [True] * 4
    value = infer(
        played.target,
        jnp.array([[2.0, 3.0]])[..., None, None] * jnp.array([1.0, 0, 0]) * jnp.ones((1, 2, 2, 3)),
    )[0].value[0]
    np.testing.assert_allclose(batch.values[0], [2 + 3 / 2 + value / 4, 3 + 4 / 2, 4.0, 0.0], rtol=1e-5)
    np.testing.assert_array_equal(batch.gains, batch.rewards)
    far = cut(played.target, windows, jnp.zeros(1, jnp.int32), replace(settings, gain="return"), length)
    own = infer(played.target, batch.histories[0])[0].value
    gains = [2 + own[1] / 2 - own[0], 3 + own[2] / 2 - own[1], 4 - own[2]]
    np.testing.assert_allclose(far.gains[0], gains, rtol=1e-4)
    assert batch.policy_weight.tolist() == [0.25]
    # Observations of step 4 on are another episode's.
    assert batch.histories[0, 3, :, 0, 0].tolist() == [4.0, 4.0]


def test_each_unrolled_step_passes_half_of_its_gradient_back(played: TrainState) -> None:
    model = played.model
    latent = jax.random.normal(jax.random.key(0), (1, 2, 8))
    actions = jnp.zeros((1, 2, 2), jnp.int32)

    def through_unroll(latent: jax.Array) -> jax.Array:
        return unroll(model, latent, actions)[0][0, 2, 0, 0]

    def plainly(latent: jax.Array) -> jax.Array:
        for k in range(2):
            latent, _ = model.imagine(latent, actions[:, k])
        return latent[0, 0, 0]

    value, gradient = jax.jit(jax.value_and_grad(through_unroll))(latent)
    plain_value, plain_gradient = jax.jit(jax.value_and_grad(plainly))(latent)
    np.testing.assert_allclose(value, plain_value, rtol=1e-5)
    np.testing.assert_allclose(gradient, 0.25 * plain_gradient, rtol=1e-4, atol=1e-7)
