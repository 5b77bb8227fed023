"""Jumanji's cooperative games: level-based foraging and the robot warehouse, named as their first authors do.

`lbf-8x8-2p-2f-coop` is a foraging grid of 8x8 with 2 players and 2 foods that nobody can lift alone;
`lbf-2s-...` limits sight to 2 cells. `rware-tiny-4ag-easy` is a warehouse (tiny, small, medium, large) with 4
robots and twice as many requested shelves; without `-easy` as many as robots, with `-hard` half as many.

Mind that in Jumanji's warehouse two robots that collide end the episode; in the original they just stop.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from jumanji.environments.routing.lbf.env import LevelBasedForaging
from jumanji.environments.routing.lbf.generator import RandomGenerator as ForagingGenerator
from jumanji.environments.routing.robot_warehouse.env import RobotWarehouse
from jumanji.environments.routing.robot_warehouse.generator import RandomGenerator as WarehouseGenerator
from jumanji.environments.routing.robot_warehouse.utils import is_collision

from nonzero.types import EnvSpec, TimeStep

WAREHOUSES = {"tiny": (1, 3), "small": (2, 3), "medium": (2, 5), "large": (3, 5)}
"""Rows and columns of blocks of shelves."""
REQUESTS_PER_ROBOT = {"easy": 2.0, None: 1.0, "hard": 0.5}
MOST_ROBOTS = 19


@dataclass(frozen=True, eq=False)
class JumanjiGame:
    """A Jumanji game whose agents share the sum of their rewards; the world state is all their views."""

    game: LevelBasedForaging | RobotWarehouse
    spec: EnvSpec
    has_ended: Callable[[Any], Bool[Array, ""]]
    """Whether the game itself is over: for Jumanji's warehouse the clock running out terminates, too."""

    def reset(self, key: PRNGKeyArray) -> tuple[Any, TimeStep]:
        """Start an episode."""
        state, first = self.game.reset(key)
        is_over = jnp.bool_(False)
        return state, self._time_step(first.observation, jnp.float32(0.0), is_over, is_over)

    def step(self, state: Any, actions: Int[Array, " I"], key: PRNGKeyArray) -> tuple[Any, TimeStep]:
        """Let every agent act; `key` takes the place of the one that Jumanji keeps in its state."""
        if actions.shape != (self.spec.num_agents,):
            raise ValueError(
                f"{self.spec.name} needs one action for each of its {self.spec.num_agents} agents, "
                f"not an array of shape {actions.shape}"
            )
        state, outcome = self.game.step(state.replace(key=key), actions)
        terminated = self.has_ended(state)
        truncated = jnp.logical_and(outcome.last(), ~terminated)
        reward = jnp.sum(outcome.reward, dtype=jnp.float32)
        return state, self._time_step(outcome.observation, reward, terminated, truncated)

    def _time_step(
        self, seen: Any, reward: Float[Array, ""], terminated: Bool[Array, ""], truncated: Bool[Array, ""]
    ) -> TimeStep:
        views = seen.agents_view.astype(jnp.float32)
        return TimeStep(
            obs=views,
            state=views.reshape(-1),
            legal=seen.action_mask,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            won=jnp.bool_(False),
        )


def make(rest: str, *, max_steps: int | None = None) -> JumanjiGame | None:
    """Make the game called `rest`, or None; `max_steps` is 100 for foraging and 500 for the warehouse."""
    if max_steps is not None and max_steps < 1:
        raise ValueError(f"max_steps must be at least 1, not {max_steps}")
    name = f"jumanji/{rest}"
    if foraging := re.fullmatch(r"lbf-(?:(\d+)s-)?(\d+)x(\d+)-(\d+)p-(\d+)f(-coop)?", rest):
        sight, rows, columns, players, foods = (int(number or 0) for number in foraging.groups()[:5])
        if rows != columns:
            raise ValueError(f"{name}: the grid must be square, not {rows}x{columns}")
        is_cooperative = foraging[6] is not None
        return _foraging(name, rows, sight or rows, players, foods, is_cooperative, max_steps or 100)
    if warehouse := re.fullmatch(r"rware-(tiny|small|medium|large)-(\d+)ag(?:-(easy|hard))?", rest):
        robots = int(warehouse[2])
        if not 1 <= robots <= MOST_ROBOTS:
            raise ValueError(f"{name}: the warehouse takes 1 to {MOST_ROBOTS} robots, not {robots}")
        requests = max(1, int(robots * REQUESTS_PER_ROBOT[warehouse[3]]))
        return _warehouse(name, warehouse[1], robots, requests, max_steps or 500)
    return None


def _foraging(
    name: str, side: int, sight: int, players: int, foods: int, is_cooperative: bool, max_steps: int
) -> JumanjiGame:
    try:
        generator = ForagingGenerator(
            grid_size=side, fov=sight, num_agents=players, num_food=foods, force_coop=is_cooperative
        )
    except AssertionError as error:
        raise ValueError(f"{name}: {error}") from None
    game = LevelBasedForaging(generator, time_limit=max_steps)
    spec = EnvSpec(
        name=name,
        num_agents=players,
        num_actions=6,
        obs_shape=(3 * (players + foods),),
        state_shape=(players * 3 * (players + foods),),
        max_steps=max_steps,
        # Each food pays its share of all the food's levels, once.
        return_bounds=(0.0, 1.0),
    )
    return JumanjiGame(game, spec, lambda state: jnp.all(state.food_items.eaten))


def _warehouse(name: str, size: str, robots: int, requests: int, max_steps: int) -> JumanjiGame:
    rows, columns = WAREHOUSES[size]
    generator = WarehouseGenerator(
        shelf_rows=rows,
        shelf_columns=columns,
        column_height=8,
        num_agents=robots,
        sensor_range=1,
        request_queue_size=requests,
    )
    game = RobotWarehouse(generator, time_limit=max_steps)
    width = int(game.num_obs_features)
    spec = EnvSpec(
        name=name,
        num_agents=robots,
        num_actions=5,
        obs_shape=(width,),
        state_shape=(robots * width,),
        max_steps=max_steps,
        # Each goal pays 1 a step at most: a shelf that stands there may be requested again by chance.
        return_bounds=(0.0, float(len(game.goals) * max_steps)),
    )
    return JumanjiGame(game, spec, _has_collision)


def _has_collision(state: Any) -> Bool[Array, ""]:
    robots = jnp.arange(state.agents.direction.shape[0])
    collided = jax.vmap(lambda agent, robot: is_collision(state.grid, agent, robot))(state.agents, robots)
    return jnp.any(collided)
