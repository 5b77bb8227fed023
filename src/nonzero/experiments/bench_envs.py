"""How many steps a second the environments make, with random legal actions in one compiled loop.

SMAX is measured beside jaxmarl's own `step_env`, under the same jit, vmap, scan, batch, actions and resets.
The two alternate within a run, so that whatever else the machine does hits both.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PRNGKeyArray

from nonzero.envs import registry
from nonzero.envs.wrappers import AutoReset, random_legal_actions
from nonzero.types import Environment

NAMES = (
    *("matgame/linear-8x10", "matgame/nonlinear-8x10", "smax/3m", "smax/8m"),
    *("jumanji/lbf-8x8-2p-2f-coop", "jumanji/rware-tiny-2ag"),
)
BATCHES = (32, 256)
MATGAME_BATCHES = (32, 256, 1024)
SCAN_STEPS = 16
"""Steps of a compiled loop: few enough for a slow environment's measurements to alternate quickly."""
MATGAME_SCAN_STEPS = 256
"""Enough for the call itself to cost next to nothing."""


@dataclass(frozen=True)
class Loop:
    """A batch of episodes that goes on from call to call."""

    play: Callable[[PRNGKeyArray], Any]
    steps_per_call: int


def bench_envs(
    names: Sequence[str] = (), *, alternations: int = 9, seconds: float = 0.5
) -> list[dict[str, object]]:
    """Measure each environment at each batch size, `alternations` times for `seconds`; one row per method."""
    if alternations < 1 or seconds <= 0:
        raise ValueError(f"alternations and seconds must be positive, not {alternations} and {seconds}")
    environments = [registry.make(name) for name in names or _usable_names()]
    rows: list[dict[str, object]] = []
    for env in environments:
        family = env.spec.name.partition("/")[0]
        for batch in MATGAME_BATCHES if family == "matgame" else BATCHES:
            loops = {"nonzero": own_loop(env, batch)}
            if family == "smax":
                loops["jaxmarl"] = jaxmarl_loop(env, batch)
            speeds = alternate(loops, alternations, seconds)
            rows += [_row(env.spec.name, batch, method, speeds) for method in loops]
    return rows


def _usable_names() -> list[str]:
    usable = {family.prefix for family in registry.FAMILIES if family.is_installed()}
    return [name for name in NAMES if name.partition("/")[0] in usable]


def _row(name: str, batch: int, method: str, speeds: dict[str, list[float]]) -> dict[str, object]:
    """The median speed, and how it compares with jaxmarl's, pair by pair of neighbouring measurements."""
    reference = speeds.get("jaxmarl")
    is_compared = method == "nonzero" and reference is not None
    pairs = zip(speeds[method], reference or (), strict=is_compared)
    return {
        "environment": name,
        "batch": batch,
        "method": method,
        "steps_per_second": statistics.median(speeds[method]),
        "ratio": statistics.median(own / other for own, other in pairs) if is_compared else None,
    }


def own_loop(env: Environment[Any], batch: int) -> Loop:
    """Play a batch of `env` through the protocol, with automatic resets."""
    wrapped = AutoReset(env)

    def step(state: Any, key: PRNGKeyArray) -> tuple[Any, tuple[Array, Array]]:
        action_key, step_key = jax.random.split(key)
        actions = random_legal_actions(action_key, state.current.legal)
        state, outcome = jax.vmap(wrapped.step)(state, actions, jax.random.split(step_key, batch))
        return state, (outcome.reward, outcome.is_last)

    is_matgame = env.spec.name.startswith("matgame/")
    steps = MATGAME_SCAN_STEPS if is_matgame else SCAN_STEPS
    return _loop(lambda keys: jax.vmap(wrapped.reset)(keys)[0], step, batch, steps)


def jaxmarl_loop(env: Any, batch: int) -> Loop:
    """Play a batch of the game behind a SMAX environment by jaxmarl's own functions alone."""
    game = env.simulator

    def step_one(battle: Any, obs: Any, actions: Array, key: PRNGKeyArray) -> tuple[Any, tuple[Array, Array]]:
        step_key, reset_key = jax.random.split(key)
        by_agent = {agent: actions[index] for index, agent in enumerate(game.agents)}
        after_obs, after, rewards, dones, _ = game.step_env(step_key, battle, by_agent)
        is_last = dones["__all__"]
        fresh_obs, fresh = game.reset(reset_key)
        carried = jax.tree.map(
            lambda new, old: jnp.where(is_last, new, old), (fresh, fresh_obs), (after, after_obs)
        )
        return carried, (rewards[game.agents[0]], is_last)

    def step(carried: Any, key: PRNGKeyArray) -> tuple[Any, tuple[Array, Array]]:
        battle, obs = carried
        action_key, step_key = jax.random.split(key)
        legal = jax.vmap(game.get_avail_actions)(battle)
        legal = jnp.stack([legal[agent] for agent in game.agents], axis=1).astype(bool)
        actions = random_legal_actions(action_key, legal)
        return jax.vmap(step_one)(battle, obs, actions, jax.random.split(step_key, batch))

    def start(keys: Key[Array, " B"]) -> tuple[Any, Any]:
        obs, battle = jax.vmap(game.reset)(keys)
        return battle, obs

    return _loop(start, step, batch, SCAN_STEPS)


def _loop(
    start: Callable[[Any], Any], step: Callable[[Any, Any], tuple[Any, Any]], batch: int, steps: int
) -> Loop:
    """Compile both parts, and carry the episodes on from call to call."""

    @jax.jit
    def advance(carried: Any, key: PRNGKeyArray) -> Any:
        # Returning what is carried keeps the compiler from leaving the observations out.
        return jax.lax.scan(step, carried, jax.random.split(key, steps))

    carried = jax.jit(start)(jax.random.split(jax.random.key(0), batch))

    def play(key: PRNGKeyArray) -> Any:
        nonlocal carried
        carried, results = advance(carried, key)
        return results

    return Loop(play, steps * batch)


def alternate(loops: dict[str, Loop], alternations: int, seconds: float) -> dict[str, list[float]]:
    """Environment steps per second of each loop, measured in turn after one unmeasured call."""
    key = jax.random.key(1)
    for loop in loops.values():
        jax.block_until_ready(loop.play(key))
    speeds: dict[str, list[float]] = {method: [] for method in loops}
    for number in range(alternations):
        for method, loop in loops.items():
            calls, start = 0, time.perf_counter()
            while (elapsed := time.perf_counter() - start) < seconds:
                jax.block_until_ready(loop.play(jax.random.fold_in(key, number)))
                calls += 1
            speeds[method].append(calls * loop.steps_per_call / elapsed)
    return speeds
