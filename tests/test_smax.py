"""SMAX against jaxmarl itself: the same battles, and each fact about them that this project relies on."""

import subprocess
import sys
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nonzero
from nonzero.envs import registry, smax, smax_scenarios
from nonzero.testing.check_env import check_env
from nonzero.types import NonZeroError, TimeStep

with smax_scenarios.quiet():
    from jaxmarl.environments.smax import (
        HeuristicEnemySMAX,
        distributions,
        heuristic_enemy,
        map_name_to_scenario,
    )

BATTLES = 128
STEPS = 101
RANDOM, STOPPING, HEURISTIC = range(3)
SIZES = {
    "3m": (75, 8, 72),
    "2s3z": (127, 10, 120),
    "8m": (205, 13, 192),
    "3s5z": (205, 13, 192),
    "25m": (647, 30, 600),
    "5m_vs_6m": (140, 11, 132),
    "10m_vs_11m": (270, 16, 252),
    "27m_vs_30m": (738, 35, 684),
    "3s5z_vs_3s6z": (218, 14, 204),
    "3s_vs_5z": (101, 10, 96),
    "6h_vs_8z": (179, 13, 168),
    "smacv2_5_units": (127, 10, 120),
    "protoss_5_vs_5": (127, 10, 120),
    "zerg_10_vs_11": (270, 16, 252),
}


class Theirs(NamedTuple):
    """What jaxmarl's own `step_env` gives for the actions and keys that ours was given."""

    obs: jax.Array
    state: jax.Array
    legal: jax.Array
    reward: jax.Array
    done: jax.Array


class Record(NamedTuple):
    """Battles `[T, B]`, played on past their end; `units`, `legal` and `actions` are from before the step."""

    ours: TimeStep
    theirs: Theirs
    units: Any
    legal: jax.Array
    actions: jax.Array
    scripted: jax.Array
    is_on: np.ndarray


@cache
def marines() -> smax.Smax:
    env = smax.make("3m")
    assert env is not None
    return env


@cache
def jaxmarl_marines() -> HeuristicEnemySMAX:
    return HeuristicEnemySMAX(scenario=map_name_to_scenario("3m"))


def _stack(by_agent: dict[str, jax.Array]) -> jax.Array:
    return jnp.stack([by_agent[agent] for agent in jaxmarl_marines().agents])


def _play(mode: jax.Array, health: jax.Array, key: jax.Array) -> tuple[Any, ...]:
    """Play one battle of 3m in both environments; all units start with `health` times their own."""
    env, theirs = marines(), jaxmarl_marines()
    allies = smax.heuristic_policy(env)
    script = jax.vmap(heuristic_enemy.create_heuristic_policy(theirs._env, team=0))
    state, seen = env.reset(key)
    _, their_state = theirs.reset(key)

    def toughen(battle: Any) -> Any:
        units = battle.state
        return battle.replace(state=units.replace(unit_health=units.unit_health * health))

    state = smax.SmaxState(battle=toughen(state.battle), starts=state.starts)
    memory = heuristic_enemy.HeuristicPolicyState(jnp.zeros((3, 2)), jnp.full(3, -1))

    def step(carry: Any, _: None) -> Any:
        state, seen, their_state, memory, key = carry
        key, act_key, step_key = jax.random.split(key, 3)
        legal_random = jax.random.categorical(act_key, jnp.where(seen.legal, 0.0, -jnp.inf))
        choices = [legal_random, jnp.full(3, smax.STOP), allies(state, act_key)]
        actions = jnp.stack(choices)[mode]
        scripted, memory = script(jax.random.split(act_key, 3), memory, seen.obs)
        units, legal = state.battle.state, seen.legal
        state, seen = env.step(state, actions, step_key)
        by_agent = dict(zip(theirs.agents, actions, strict=True))
        obs, their_state, rewards, dones, infos = theirs.step_env(step_key, their_state, by_agent)
        assert infos == {}
        avail = _stack(theirs.get_avail_actions(their_state))
        compared = Theirs(_stack(obs), obs["world_state"], avail, rewards["ally_0"], dones["__all__"])
        return (state, seen, their_state, memory, key), (seen, compared, units, legal, actions, scripted)

    carry = (state, seen, toughen(their_state), memory, jax.random.fold_in(key, 1))
    return jax.lax.scan(step, carry, None, length=STEPS)[1]


_play_all = jax.jit(jax.vmap(_play, in_axes=(None, None, 0), out_axes=1))


@cache
def record(mode: int, health: float = 1.0) -> Record:
    keys = jax.random.split(jax.random.key(5), BATTLES)
    ours, theirs, units, legal, actions, scripted = _play_all(jnp.int32(mode), jnp.float32(health), keys)
    ends = np.asarray(ours.is_last).cumsum(axis=0) - np.asarray(ours.is_last)
    return Record(ours, theirs, units, legal, actions, scripted, ends == 0)


@pytest.mark.parametrize("mode", [RANDOM, HEURISTIC])
def test_a_battle_is_jaxmarls_own(mode: int) -> None:
    played = record(mode)
    np.testing.assert_array_equal(played.ours.obs, played.theirs.obs)
    np.testing.assert_array_equal(played.ours.state, played.theirs.state)
    np.testing.assert_array_equal(played.ours.legal, played.theirs.legal == 1)
    np.testing.assert_array_equal(played.ours.reward, played.theirs.reward)
    np.testing.assert_array_equal(played.ours.is_last, played.theirs.done)


def test_random_play_wins_nothing_and_stays_in_bounds() -> None:
    played = record(RANDOM)
    returns = (played.ours.reward * played.is_on).sum(axis=0)
    assert not (played.ours.won & played.is_on).any()
    assert (played.ours.terminated & played.is_on).any(axis=0).mean() > 0.5
    assert returns.min() >= 0.0
    assert 0.0 < returns.max() <= 1.0 + 1e-5


def test_the_scripted_allies_play_as_jaxmarls_script_and_win_about_half() -> None:
    played = record(HEURISTIC)
    is_alive = np.asarray(played.units.unit_alive[..., :3])
    counts = played.is_on[..., None] & is_alive
    np.testing.assert_array_equal(np.where(counts, played.actions, 0), np.where(counts, played.scripted, 0))
    is_legal = np.take_along_axis(np.asarray(played.legal), np.asarray(played.actions)[..., None], axis=-1)[
        ..., 0
    ]
    assert is_legal[played.is_on].all()
    wins = (played.ours.won & played.is_on).sum(axis=0)
    assert 0.35 < wins.mean() < 0.60
    assert wins.max() == 1


def test_a_win_is_a_last_reward_of_at_least_one() -> None:
    played = record(HEURISTIC)
    is_end = np.asarray(played.ours.is_last) & played.is_on
    won, reward = np.asarray(played.ours.won), np.asarray(played.ours.reward)
    np.testing.assert_array_equal(won[is_end], reward[is_end] >= 1.0)
    assert won[is_end].any()
    assert not won[is_end].all()
    before_end = played.is_on & ~is_end
    assert not won[before_end].any()
    assert reward[before_end].max() < 1.0
    assert (reward * played.is_on).sum(axis=0).max() == pytest.approx(2.0, abs=1e-5)


def test_the_clock_stops_after_step_101() -> None:
    played = record(STOPPING, health=1e6)
    assert jaxmarl_marines().max_steps == 100
    assert marines().spec.max_steps == STEPS
    assert not np.asarray(played.ours.is_last)[:-1].any()
    assert np.asarray(played.theirs.done)[-1].all()
    assert np.asarray(played.ours.truncated)[-1].all()
    assert not np.asarray(played.ours.terminated | played.ours.won)[-1].any()


def test_attacks_are_legal_during_the_cooldown() -> None:
    played = record(HEURISTIC)
    units = jax.tree.map(np.asarray, played.units)
    gaps = units.unit_positions[..., :3, None, :] - units.unit_positions[..., None, 3:, :]
    is_alive = units.unit_alive[..., :3, None] & units.unit_alive[..., None, 3:]
    distance = np.linalg.norm(gaps, axis=-1)
    is_clear = abs(distance - 5.0) > 1e-4
    attacks = np.asarray(played.legal)[..., smax.FIRST_ATTACK :]
    np.testing.assert_array_equal(attacks[is_clear], ((distance < 5.0) & is_alive)[is_clear])
    assert (attacks.any(axis=-1) & (units.unit_weapon_cooldowns[..., :3] > 0)).any()


def test_positions_in_the_world_state_are_not_normalised() -> None:
    played = record(HEURISTIC)
    units = jax.tree.map(np.asarray, played.units)
    features = np.asarray(played.ours.state)[..., :60].reshape(STEPS, BATTLES, 6, 10)
    is_alive = units.unit_alive[1:]
    np.testing.assert_array_equal(features[:-1, ..., 1:3][is_alive], units.unit_positions[1:][is_alive])
    assert features[..., 1:3].max() > 16.0


def _duel() -> smax.SmaxState:
    """The last two units of 3m, one on each side, in range of each other and one shot from death."""
    state, _ = jax.jit(marines().reset)(jax.random.key(0))
    units = state.battle.state
    is_alive = jnp.array([True, False, False, True, False, False])
    positions = units.unit_positions.at[0].set(jnp.array([15.0, 16.0])).at[3].set(jnp.array([17.0, 16.0]))
    units = units.replace(
        unit_alive=is_alive, unit_health=jnp.where(is_alive, 1.0, 0.0), unit_positions=positions
    )
    return smax.SmaxState(battle=state.battle.replace(state=units), starts=state.starts)


def test_who_falls_together_has_not_won_and_the_end_is_seen() -> None:
    state, key = _duel(), jax.random.key(1)
    shoot = jnp.array([smax.FIRST_ATTACK, smax.STOP, smax.STOP])
    _, draw = jax.jit(marines().step)(state, shoot, key)
    assert draw.terminated
    assert not draw.won
    assert not draw.truncated
    assert draw.reward < 1.0
    assert not draw.obs.any(), "the dead see nothing: this is the end, not the next start"
    theirs = jaxmarl_marines()
    by_agent = dict(zip(theirs.agents, shoot, strict=True))
    obs, _, _, dones, _ = theirs.step(key, state.battle, by_agent)
    assert dones["__all__"]
    assert _stack(obs).any(), "jaxmarl's step shows the next start instead"


def test_fresh_keys_give_fresh_futures() -> None:
    state, shoot = _duel(), jnp.array([smax.FIRST_ATTACK, smax.STOP, smax.STOP])
    units = state.battle.state
    state = smax.SmaxState(
        battle=state.battle.replace(state=units.replace(unit_health=units.unit_health * 40)),
        starts=state.starts,
    )
    step = jax.jit(marines().step)
    cooldowns = [
        np.asarray(step(state, shoot, jax.random.key(seed))[0].battle.state.unit_weapon_cooldowns)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(cooldowns[0], cooldowns[1])
    assert (cooldowns[0] != cooldowns[2]).any()


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name: str) -> None:
    env = nonzero.make(f"smax/{name}")
    assert (*env.spec.obs_shape, env.spec.num_actions, *env.spec.state_shape) == SIZES[name]
    state, first = jax.eval_shape(env.reset, jax.random.key(0))
    actions = jax.ShapeDtypeStruct((env.spec.num_agents,), jnp.int32)
    _, seen = jax.eval_shape(env.step, state, actions, jax.random.key(0))
    for time_step in (first, seen):
        shapes = (time_step.obs.shape[1], time_step.legal.shape[1], time_step.state.shape[0])
        assert shapes == SIZES[name]


def test_every_listed_map_is_known() -> None:
    family = next(family for family in registry.FAMILIES if family.prefix == "smax")
    assert sorted(family.names) == sorted(smax_scenarios.names())
    assert all(smax.make(name) is not None for name in family.names)


def _draw(name: str, number: int = 2000) -> tuple[Any, np.ndarray, np.ndarray]:
    env = smax.make(name)
    assert env is not None
    game: Any = env.simulator._env
    keys = jax.random.split(jax.random.key(3), number)
    types = jax.vmap(game.unit_type_generator.generate)(keys)
    positions = jax.vmap(game.position_generator.generate)(keys)
    return game, np.asarray(types), np.asarray(positions)


@pytest.mark.parametrize("race", smax_scenarios.RACES)
def test_race_maps_draw_both_types_of_one_race_for_all_units(race: str) -> None:
    game, types, _ = _draw(f"{race}_10_vs_11")
    expected = sorted(game.unit_type_names.index(name) for name in smax_scenarios.RACES[race])
    assert types.shape[1] == 21
    for unit in range(21):
        found, counts = np.unique(types[:, unit], return_counts=True)
        assert found.tolist() == expected
        assert abs(counts / counts.sum() - 0.5).max() < 0.05
    np.testing.assert_array_equal(types[:, :10], types[:, 10:20])


def test_jaxmarls_own_generator_leaves_surplus_enemies_marines() -> None:
    theirs = distributions.UniformUnitTypeDistribution(10, 11, 32, 32, 6)
    types = np.asarray(jax.vmap(theirs.generate)(jax.random.split(jax.random.key(0), 200)))
    assert (types[:, 20] == 0).all(), "if this fails, jaxmarl mended it: RaceUnits may borrow from it"


@pytest.mark.parametrize("size", ["5_vs_5", "10_vs_11", "6_vs_4"])
def test_race_maps_start_surrounded_or_reflected(size: str) -> None:
    allies, enemies = (int(number) for number in size.split("_vs_"))
    _, types, positions = _draw(f"zerg_{size}")
    pairs = min(allies, enemies)
    assert types.shape[1] == positions.shape[1] == allies + enemies
    ours, theirs = positions[:, :allies], positions[:, allies:]
    mirrored = ours[:, :pairs] * [-1, 1] + [32, 0]
    is_reflected = np.isclose(mirrored, theirs[:, :pairs]).all(axis=(1, 2))
    assert abs(is_reflected.mean() - 0.5) < 0.05
    assert (ours[is_reflected][..., 0] <= 15).all()
    assert (theirs[is_reflected][..., 0] >= 17).all()
    assert ours[is_reflected][..., 1].min() < 4
    assert ours[is_reflected][..., 1].max() > 28
    surrounded = ~is_reflected
    assert abs(ours[surrounded] - 16).max() <= 2
    corners = np.sign(theirs[surrounded] - 16).reshape(-1, 2)
    assert len(np.unique(corners, axis=0)) == 4
    assert positions.min() >= 2
    assert positions.max() <= 30


def test_no_race_map_starts_at_a_wall() -> None:
    env = smax.make("zerg_10_vs_11")
    assert env is not None
    state, first = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(4), 2000))
    positions = np.asarray(state.battle.state.unit_positions)
    assert positions.min() > 0.5
    assert positions.max() < 31.5
    np.testing.assert_array_equal(state.starts, positions[:, :10])
    types = np.asarray(state.battle.state.unit_types)
    assert set(np.unique(types[:, 20])) == {4, 5}
    assert first.legal[..., smax.STOP].all()


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="one action for each of its 3 agents"):
        jax.eval_shape(
            marines().step,
            jax.eval_shape(marines().reset, jax.random.key(0))[0],
            jnp.zeros(4, int),
            jax.random.key(0),
        )
    with pytest.raises(ValueError, match="max_steps must be at least 1, not 0"):
        smax.make("3m", max_steps=0)
    with pytest.raises(NonZeroError, match="did you mean 'smax/3m'"):
        nonzero.make("smax/3mm")
    with pytest.raises(ValueError, match="play smax maps only, not matgame/linear-2x3"):
        smax.heuristic_policy(nonzero.make("matgame/linear-2x3"))
    assert smax.make("orc_5_vs_5") is None


def test_importing_prints_nothing() -> None:
    code = "import nonzero.envs.smax, sys; assert sys.stdout is sys.__stdout__"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("name", "options"), [("3m", {}), ("5m_vs_6m", {"max_steps": 7}), ("zerg_10_vs_11", {})]
)
def test_the_protocol_is_kept(name: str, options: dict[str, Any]) -> None:
    check_env(nonzero.make(f"smax/{name}", **options))
