"""Playing episodes: rows take turns and stand still, planners know the rules and not the future."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int, PRNGKeyArray

from nonzero.evaluation.episodes import Follower, Planner, play
from nonzero.search import preset
from nonzero.search.simulator import Simulator
from nonzero.types import EnvSpec, NonZeroError, TimeStep

SEEDS = range(100, 123)


class Moment(eqx.Module):
    left: Int[Array, ""]
    coin: Int[Array, ""]


@dataclass(frozen=True)
class Coins:
    """Agents all name the coin's side, up to six times; chance says how often, and stepping on costs 100.

    The coin is tossed after they spoke, or, `is_open`, before.
    """

    is_open: bool = False
    prize: float = 1.0

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("coins", 2, 2, (1,), (1,), 6, (0.0, 6.0 * self.prize))

    def reset(self, key: PRNGKeyArray) -> tuple[Moment, TimeStep]:
        moment = Moment(jax.random.randint(key, (), 1, 7), self.toss(jax.random.fold_in(key, 1)))
        return moment, self.seen(moment, jnp.zeros(()), jnp.bool_(False))

    def toss(self, key: PRNGKeyArray) -> Int[Array, ""]:
        return jax.random.bernoulli(key).astype(jnp.int32)

    def step(self, state: Moment, actions: Int[Array, " I"], key: PRNGKeyArray) -> tuple[Moment, TimeStep]:
        fresh = self.toss(key)
        is_right = jnp.all(actions == (state.coin if self.is_open else fresh))
        reward = jnp.where(state.left > 0, self.prize * is_right, -100.0)
        moment = Moment(state.left - 1, fresh)
        return moment, self.seen(moment, reward, is_right)

    def seen(self, moment: Moment, reward: Any, is_right: Any) -> TimeStep:
        is_last = moment.left <= 0
        return TimeStep(
            obs=jnp.zeros((2, 1)),
            state=jnp.zeros(1),
            legal=jnp.ones((2, 2), bool),
            reward=reward,
            terminated=is_last,
            truncated=jnp.bool_(False),
            won=is_last & is_right,
        )


def heads(state: Moment, key: PRNGKeyArray) -> Int[Array, " I"]:
    del state, key
    return jnp.zeros(2, jnp.int32)


def guess(state: Moment, key: PRNGKeyArray) -> Int[Array, " I"]:
    del state
    return jax.random.randint(key, (2,), 0, 2)


def planner(env: Coins, **options: Any) -> Planner:
    return Planner(Simulator(env, **options), preset("enumerate"), num_simulations=32, num_candidates=4)


@pytest.mark.parametrize("rows", [5, 64])
def test_an_episode_does_not_depend_on_its_neighbours(rows: int):
    env = Coins()
    found = play(env, Follower(heads), SEEDS, rows=rows)
    for number, seed in enumerate(SEEDS):
        alone = play(env, Follower(heads), [seed])
        assert found.returns[number] == alone.returns[0]
        assert found.lengths[number] == alone.lengths[0]
        assert found.won[number] == alone.won[0]
    assert set(found.lengths) == {1, 2, 3, 4, 5, 6}
    assert found.returns.min() >= 0
    assert 0 < found.won.sum() < len(SEEDS)


def test_rewards_add_up_and_costs_are_counted():
    open_coin = Coins(is_open=True)
    found = play(open_coin, planner(open_coin), SEEDS, rows=8)
    np.testing.assert_array_less(found.returns, found.lengths + 1)
    assert found.returns.sum() > 0.95 * found.lengths.sum()
    assert (found.simulations, found.model_evaluations) == (32, 32)
    result = found.first.result
    assert result is not None
    assert result.visits.sum(axis=1).tolist() == [32] * 8
    followed = play(open_coin, Follower(heads), SEEDS)
    assert (followed.simulations, followed.first.result) == (0, None)


def test_a_planner_is_not_clairvoyant():
    """Who knew the episode's own chance would name every coin, as where the coin lies open."""
    hidden = Coins()
    found = play(hidden, planner(hidden), range(200), rows=40)
    assert 0.3 < found.returns.sum() / found.lengths.sum() < 0.6


def test_planning_makes_a_bad_policy_good():
    env = Coins(is_open=True)
    base = play(env, Follower(guess), range(60))
    planned = play(env, planner(env, base_policy=guess, uniform_share=1.0), range(60))
    assert base.returns.sum() < 0.5 * base.lengths.sum()
    assert planned.returns.sum() > 0.9 * planned.lengths.sum()


def test_a_simulator_says_what_its_policy_is_worth():
    env = Coins(is_open=True, prize=2.0)
    moment = Moment(jnp.int32(3), jnp.int32(0))
    state = jax.tree.map(lambda x: x[None], moment)
    current = jax.tree.map(lambda x: x[None], env.seen(moment, jnp.zeros(()), jnp.bool_(False)))

    def follow(state: Moment, key: PRNGKeyArray) -> Int[Array, " I"]:
        del key
        return jnp.broadcast_to(state.coin, (2,))

    simulator = Simulator(env, follow, uniform_share=0.5, discount=0.5)
    outputs, _ = simulator.root(state, current, jax.random.key(0))
    np.testing.assert_allclose(outputs.value, [2.0 * (1 + 0.5 + 0.25)])
    np.testing.assert_allclose(np.exp(outputs.policy_logits[0]), [[0.75, 0.25]] * 2, rtol=1e-6)
    short, _ = Simulator(env, follow, rollout_steps=2).root(state, current, jax.random.key(0))
    np.testing.assert_allclose(short.value, [4.0])
    last = Moment(jnp.ones(1, jnp.int32), jnp.zeros(1, jnp.int32))
    ended, _ = simulator.step(None, jax.random.key(1), jnp.zeros((1, 2), jnp.int32), (last, current))
    assert (float(ended.reward[0]), float(ended.discount[0]), float(ended.value[0])) == (2.0, 0.0, 0.0)


def test_numbers_that_are_none_are_refused():
    env = Coins(is_open=True, prize=float("nan"))
    with pytest.raises(NonZeroError, match="coins returned NaN"):
        play(env, Follower(heads), [1])
    with pytest.raises(ValueError, match="at least one seed"):
        play(env, Follower(heads), [])


def test_each_setting_compiles_once():
    count = 0

    @dataclass(frozen=True)
    class Counting(Coins):
        def step(
            self, state: Moment, actions: Int[Array, " I"], key: PRNGKeyArray
        ) -> tuple[Moment, TimeStep]:
            nonlocal count
            count += 1
            return super().step(state, actions, key)

    env = Counting()
    play(env, planner(env), SEEDS, rows=4)
    traced = count
    play(env, planner(env), SEEDS, rows=4)
    assert count == traced <= 4
