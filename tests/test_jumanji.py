"""Jumanji's games through the protocol, held against Jumanji itself."""

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nonzero
from nonzero.envs import jumanji, registry
from nonzero.testing.check_env import check_env

LOAD = 5
STEPS = 30
FORAGING = "lbf-8x8-2p-2f-coop"
SMALL_FORAGING = "lbf-5x5-2p-1f"
WAREHOUSE = "rware-tiny-4ag-easy"


def _make(name: str, **options: Any) -> jumanji.JumanjiGame:
    env = jumanji.make(name, **options)
    assert env is not None
    return env


def _play(env: jumanji.JumanjiGame, key: jax.Array) -> tuple[Any, Any, Any]:
    """Random legal play, past the end: states before the steps, our outcomes and Jumanji's own."""

    def step(carry: Any, _: None) -> Any:
        state, seen, key = carry
        key, act_key, step_key = jax.random.split(key, 3)
        actions = jax.random.categorical(act_key, jnp.where(seen.legal, 0.0, -jnp.inf))
        after, outcome = env.step(state, actions, step_key)
        theirs = env.game.step(state.replace(key=step_key), actions)[1]
        return (after, outcome, key), (state, outcome, theirs)

    _, out = jax.lax.scan(step, (*env.reset(key), key), None, length=STEPS)
    return out


@cache
def _rollout(name: str) -> tuple[Any, Any, Any]:
    env = _make(name, max_steps=STEPS)
    return jax.jit(jax.vmap(partial(_play, env)))(jax.random.split(jax.random.key(0), 128))


@pytest.mark.parametrize("name", [SMALL_FORAGING, WAREHOUSE])
def test_steps_are_jumanjis_own(name: str) -> None:
    states, ours, theirs = _rollout(name)
    np.testing.assert_array_equal(ours.obs, theirs.observation.agents_view)
    np.testing.assert_array_equal(ours.legal, theirs.observation.action_mask)
    np.testing.assert_array_equal(ours.state.reshape(ours.obs.shape), ours.obs)
    np.testing.assert_allclose(ours.reward, theirs.reward.reshape(*ours.reward.shape, -1).sum(-1), atol=1e-6)
    np.testing.assert_array_equal(ours.is_last, theirs.step_type == 2)
    assert (states.step_count[:, -1] == STEPS - 1).all()
    assert ours.is_last[:, -1].all()


def test_foraging_tells_the_meal_from_the_clock() -> None:
    _, ours, theirs = _rollout(SMALL_FORAGING)
    last_discount = np.asarray(theirs.discount[:, -1]).max(axis=-1)
    np.testing.assert_array_equal(ours.terminated[:, -1], last_discount == 0)
    np.testing.assert_array_equal(ours.truncated[:, -1], last_discount == 1)
    assert ours.terminated[:, -1].any()
    assert ours.truncated[:, -1].any()
    np.testing.assert_allclose(ours.reward.sum(axis=1)[ours.terminated[:, -1]], 1.0, atol=1e-6)


def test_foraging_pays_the_team_for_its_food_once() -> None:
    env = _make(FORAGING)
    state, _ = env.reset(jax.random.key(0))
    food = jnp.array([[2, 2], [5, 5]])
    beside = food[:1] + jnp.array([[0, 1], [1, 0]])
    state = state.replace(
        food_items=state.food_items.replace(position=food), agents=state.agents.replace(position=beside)
    )
    step = jax.jit(env.step)
    load = jnp.full(2, LOAD)
    _, alone = step(state, load.at[1].set(0), jax.random.key(1))
    assert alone.reward == 0.0
    state, together = step(state, load, jax.random.key(1))
    assert together.reward == pytest.approx(0.5)
    assert not together.is_last
    state = state.replace(agents=state.agents.replace(position=food[1] + jnp.array([[0, 1], [1, 0]])))
    _, full = step(state, load, jax.random.key(1))
    assert full.reward == pytest.approx(0.5)
    assert full.terminated
    assert not full.truncated


def test_the_warehouse_tells_a_collision_from_the_clock() -> None:
    _, ours, theirs = _rollout(WAREHOUSE)
    before_clock = np.asarray(ours.is_last[:, :-1])
    assert before_clock.any(), "some robots collide"
    np.testing.assert_array_equal(ours.terminated[:, :-1], before_clock)
    on_time = np.asarray(ours.truncated[:, -1])
    assert on_time.any()
    assert (np.asarray(theirs.discount[:, -1])[on_time] == 0).all(), "Jumanji itself calls the clock an end"


def test_the_warehouse_pays_for_a_requested_shelf_at_a_goal() -> None:
    env = _make("rware-tiny-2ag")
    state, _ = env.reset(jax.random.key(0))
    game: Any = env.game
    column, row = (int(number) for number in game.goals[0])
    shelves, agents = state.grid[0], state.grid[1]
    channel = 0 if (shelves > 0).sum() > (agents > 0).sum() else 1
    requested = int(state.request_queue[0])
    at_goal = state.replace(grid=state.grid.at[channel, row, column].set(requested + 1))
    step, stay = jax.jit(env.step), jnp.zeros(2, jnp.int32)
    after, paid = step(at_goal, stay, jax.random.key(1))
    assert paid.reward == 1.0
    other, _ = step(at_goal, stay, jax.random.key(2))
    assert requested not in after.request_queue
    assert set(after.request_queue.tolist()) != set(other.request_queue.tolist()), "the step's key draws anew"
    _, unpaid = step(after, stay, jax.random.key(3))
    assert unpaid.reward == 0.0


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("lbf-8x9-2p-2f", "must be square, not 8x9"),
        ("lbf-4x4-2p-2f", "Grid size"),
        ("lbf-5x5-2p-5f", "food placement"),
        ("rware-tiny-20ag", "1 to 19 robots, not 20"),
    ],
)
def test_impossible_games_are_refused(name: str, mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        jumanji.make(name)


def test_mistakes_are_named() -> None:
    env = _make(FORAGING)
    state = jax.eval_shape(env.reset, jax.random.key(0))[0]
    with pytest.raises(ValueError, match="one action for each of its 2 agents"):
        jax.eval_shape(env.step, state, jnp.zeros(3, jnp.int32), jax.random.key(0))
    with pytest.raises(ValueError, match="max_steps must be at least 1, not 0"):
        jumanji.make(FORAGING, max_steps=0)
    assert jumanji.make("lbf") is None


def test_every_listed_name_is_known_and_has_the_shapes_it_says() -> None:
    family = next(family for family in registry.FAMILIES if family.prefix == "jumanji")
    for name in family.names:
        env = nonzero.make(f"jumanji/{name}")
        _, first = jax.eval_shape(env.reset, jax.random.key(0))
        assert first.obs.shape == (env.spec.num_agents, *env.spec.obs_shape)
        assert first.state.shape == env.spec.state_shape
        assert first.legal.shape == (env.spec.num_agents, env.spec.num_actions)


@pytest.mark.parametrize("name", [FORAGING, WAREHOUSE])
def test_the_protocol_is_kept(name: str) -> None:
    check_env(nonzero.make(f"jumanji/{name}", max_steps=40))
