import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nonzero
from nonzero.envs import matgame
from nonzero.envs.payoffs import FAMILIES, payoff_game
from nonzero.testing import check_env

KEY = jax.random.key(0)


def play(
    env: matgame.MatGame, joint_actions: list[list[int]], key: jax.Array = KEY
) -> list[nonzero.TimeStep]:
    step = jax.jit(env.step)
    state, _ = env.reset(key)
    seen = []
    for number, actions in enumerate(joint_actions):
        state, outcome = step(state, jnp.array(actions, jnp.int32), jax.random.fold_in(key, number))
        seen.append(outcome)
    return seen


def made(name: str, **options: object) -> matgame.MatGame:
    env = nonzero.make(name, **options)
    assert isinstance(env, matgame.MatGame)
    return env


@given(
    st.integers(1, 6),
    st.integers(2, 9),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=12, deadline=None)
def test_linear_returns_equal_the_formula(num_agents: int, num_actions: int, seed: int) -> None:
    actions = np.random.default_rng(seed).integers(num_actions, size=(10, num_agents))
    seen = play(made(f"matgame/linear-{num_agents}x{num_actions}"), actions.tolist())
    assert sum(float(outcome.reward) for outcome in seen) == (actions + 1).sum()


@pytest.mark.parametrize(("size", "best"), [("2x3", 60), ("4x5", 200), ("6x8", 480), ("8x10", 800)])
def test_best_linear_returns_are_the_ceilings_of_the_table(size: str, best: int) -> None:
    env = made(f"matgame/linear-{size}")
    last = [env.spec.num_actions - 1] * env.spec.num_agents
    assert sum(float(outcome.reward) for outcome in play(env, [last] * 10)) == best
    assert env.spec.return_bounds[1] == best


def test_an_episode_is_ten_steps_and_terminates() -> None:
    seen = play(made("matgame/linear-2x3"), [[0, 1]] * 10)
    assert [bool(outcome.terminated) for outcome in seen] == [False] * 9 + [True]
    assert not any(bool(outcome.truncated | outcome.won) for outcome in seen)
    np.testing.assert_allclose(
        [float(outcome.state[0]) for outcome in seen], np.arange(1, 11) / 10, rtol=1e-6
    )


def test_agents_see_the_step_and_who_they_are() -> None:
    _, first = made("matgame/linear-3x4").reset(KEY)
    np.testing.assert_array_equal(first.obs, np.concatenate([np.zeros((3, 1)), np.eye(3)], axis=1))
    assert first.legal.all()


def test_rewards_are_the_payoffs_of_the_seeds_game() -> None:
    actions = [[0, 1, 2], [3, 3, 3], [0, 1, 2]]
    for seed in (0, 1):
        game = payoff_game("nonlinear", 3, 4, seed)
        seen = play(made("matgame/nonlinear-3x4", seed=seed), actions)
        expected = [float(game.payoff(jnp.array(row))) for row in actions]
        np.testing.assert_allclose([float(outcome.reward) for outcome in seen], expected, rtol=1e-5)


def test_fixed_noise_repeats_and_noise_per_step_does_not() -> None:
    actions = [[0, 1]] * 10
    fixed = {float(outcome.reward) for outcome in play(made("matgame/nonlinear-2x3"), actions)}
    fresh = {float(out.reward) for out in play(made("matgame/nonlinear-2x3", noise="per-step"), actions)}
    assert len(fixed) == 1
    assert len(fresh) == 10


@pytest.mark.parametrize(
    "wrong", [jnp.zeros(2, jnp.int32), jnp.zeros(4, jnp.int32)], ids=["too few", "too many"]
)
def test_wrong_shapes_are_refused(wrong: jax.Array) -> None:
    env = made("matgame/linear-3x4")
    state, _ = env.reset(KEY)
    with pytest.raises(ValueError, match="matgame/linear-3x4 needs one action for each of its 3 agents"):
        jax.jit(env.step)(state, wrong, KEY)


@pytest.mark.parametrize(
    "rest", ["linear", "linear-4", "linear-4x", "linear-4x5x6", "linea-4x5", "mazero-5", ""]
)
def test_unknown_names_are_left_to_the_registry(rest: str) -> None:
    assert matgame.make(rest) is None


@pytest.mark.parametrize(
    ("rest", "options", "says"),
    [
        ("linear-0x4", {}, "at least 1 agents and 2 actions, not 0x4"),
        ("linear-4x1", {}, "at least 1 agents and 2 actions, not 4x1"),
        ("climbing-4x2", {}, "3 actions"),
        ("nonlinear-2x3", {"noise": "sometimes"}, "'sometimes'"),
        ("linear-2x3", {"noise": "per-step"}, "nonlinear games"),
        ("mazero-1", {"noise": "per-step"}, "nonlinear games"),
        ("nk-4x3", {"seed": -1}, "not -1"),
    ],
)
def test_bad_sizes_and_options_are_named(rest: str, options: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        matgame.make(rest, **options)


@pytest.mark.parametrize("number", range(1, 5))
def test_mazero_games_conform(number: int) -> None:
    check_env(made(f"matgame/mazero-{number}"))


@pytest.mark.parametrize("family", FAMILIES)
def test_conforms(family: str) -> None:
    check_env(made(f"matgame/{family}-4x5", seed=3))


def test_noise_per_step_conforms() -> None:
    check_env(made("matgame/nonlinear-8x10", noise="per-step"), episodes=5)


def test_large_game_conforms() -> None:
    check_env(made("matgame/nonlinear-20x20"))
