"""SMAX: jaxmarl's StarCraft-like battles, as environments of this project.

Results on SMAX are labelled SMAX, never SMAC or SMACv2: the rules, units and numbers are SMAX's own.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero.envs import smax_scenarios
from nonzero.types import Environment, EnvSpec, TimeStep

STOP = 4
FIRST_ATTACK = 5
"""Actions 0 to 3 move north, east, south and west, 4 stops, 5 + e attacks enemy e."""


class SmaxState(eqx.Module):
    """A moment of a battle; it holds no random key, so a search may replay it with any keys it likes."""

    battle: Any
    """jaxmarl's state: all units and the memory of the scripted enemies."""
    starts: Float[Array, "*B I 2"]
    """Where the allies started: what the scripted allies need to remember, and nothing else does."""


class Smax:
    """A cooperative battle: the allies are the agents, jaxmarl's script plays the enemies."""

    def __init__(self, map_name: str, simulator: smax_scenarios.HeuristicEnemySMAX, max_steps: int) -> None:
        self.simulator = simulator
        self.spec = EnvSpec(
            name=f"smax/{map_name}",
            num_agents=simulator.num_allies,
            num_actions=FIRST_ATTACK + simulator.num_enemies,
            obs_shape=(simulator.obs_size,),
            state_shape=(simulator.state_size,),
            max_steps=max_steps,
            # A step pays the share of their full health that the enemies lost, averaged over them; nobody
            # heals: that sums to 1 at most. Killing the last enemy with an ally still alive pays 1 more.
            return_bounds=(0.0, 2.0),
        )

    def reset(self, key: PRNGKeyArray) -> tuple[SmaxState, TimeStep]:
        """Start a battle; observations are stacked in the order of the agents."""
        obs, battle = self.simulator.reset(key)
        # A weakly typed leaf would make the first step after this one compile anew.
        battle = jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), battle)
        state = SmaxState(battle=battle, starts=battle.state.unit_positions[: self.spec.num_agents])
        is_over = jnp.zeros((), dtype=bool)
        return state, TimeStep(
            obs=self._stack(obs),
            state=obs["world_state"],
            legal=self._legal(battle),
            reward=jnp.zeros(()),
            terminated=is_over,
            truncated=is_over,
            won=is_over,
        )

    def step(
        self, state: SmaxState, actions: Int[Array, " I"], key: PRNGKeyArray
    ) -> tuple[SmaxState, TimeStep]:
        """Let the agents and the scripted enemies act for one step of eight simulated moments."""
        if actions.shape != (self.spec.num_agents,):
            raise ValueError(
                f"{self.spec.name} needs one action for each of its {self.spec.num_agents} agents, "
                f"not an array of shape {actions.shape}"
            )
        # `step_env`, never jaxmarl's `step`: that one restarts by itself and loses the last observation.
        by_agent = dict(zip(self.simulator.agents, actions, strict=True))
        obs, battle, rewards, dones, _ = self.simulator.step_env(key, state.battle, by_agent)
        is_ally_left, is_enemy_left = self._is_any_alive(battle)
        terminated = ~(is_ally_left & is_enemy_left)
        return SmaxState(battle=battle, starts=state.starts), TimeStep(
            obs=self._stack(obs),
            state=obs["world_state"],
            legal=self._legal(battle),
            reward=rewards[self.simulator.agents[0]],
            terminated=terminated,
            truncated=dones["__all__"] & ~terminated,
            # Both teams may fall in the same step: jaxmarl pays no bonus for that, and here too it is no win.
            won=is_ally_left & ~is_enemy_left,
        )

    def _stack(self, by_agent: dict[str, Array]) -> Array:
        return jnp.stack([by_agent[agent] for agent in self.simulator.agents])

    def _legal(self, battle: Any) -> Bool[Array, "I A"]:
        return self._stack(self.simulator.get_avail_actions(battle)).astype(bool)

    def _is_any_alive(self, battle: Any) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        is_alive = battle.state.unit_alive
        return jnp.any(is_alive[: self.spec.num_agents]), jnp.any(is_alive[self.spec.num_agents :])


def make(rest: str, *, max_steps: int = 101) -> Smax | None:
    """Make the SMAX map called `rest`, or None where there is none; no battle outlasts step `max_steps`.

    The default is jaxmarl's: its `max_steps = 100` looks at the clock before moving it, and allows 101 steps.
    """
    if max_steps < 1:
        raise ValueError(f"max_steps must be at least 1, not {max_steps}")
    simulator = smax_scenarios.simulator(rest, time_limit=max_steps - 1)
    return None if simulator is None else Smax(rest, simulator, max_steps)


def heuristic_policy(environment: Environment[Any]) -> Callable[[SmaxState, PRNGKeyArray], Int[Array, " I"]]:
    """Return jaxmarl's scripted player for the allies: from a state and a key to legal actions `[I]`.

    jaxmarl's script remembers where a unit started and whom it attacked last. Both are read off the state, so
    it may be asked about any state, whatever policy led there: it is a base policy for search.
    """
    if not isinstance(environment, Smax):
        raise ValueError(f"the scripted allies play smax maps only, not {environment.spec.name}")
    game: Any = environment.simulator._env
    act = jax.vmap(smax_scenarios.create_heuristic_policy(game, team=0, shoot=True, attack_mode="closest"))
    centre = jnp.array([game.map_width, game.map_height]) / 2
    num_agents = environment.spec.num_agents

    def policy(state: SmaxState, key: PRNGKeyArray) -> Int[Array, " I"]:
        units = state.battle.state
        last_actions = units.prev_attack_actions[:num_agents]
        memory = smax_scenarios.HeuristicPolicyState(
            default_target=centre - (state.starts - centre),
            last_attacked_enemy=jnp.where(last_actions >= FIRST_ATTACK, last_actions - FIRST_ATTACK, -1),
        )
        by_unit = game.get_obs_unit_list(units)
        obs = jnp.stack([by_unit[agent] for agent in environment.simulator.agents])
        actions, _ = act(jax.random.split(key, num_agents), memory, obs)
        return jnp.where(units.unit_alive[:num_agents], actions, STOP)

    return policy


BASE_POLICIES = {"heuristic": heuristic_policy}
"""Policies to plan with: from an environment to a function of a state and a key."""
