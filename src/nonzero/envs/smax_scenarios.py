"""The battles that SMAX can stage: jaxmarl's own maps, and race maps after SMACv2.

A race map, such as `zerg_10_vs_11`, draws each unit from the two types that SMAX has of that race and starts
either with the allies surrounded or with the two teams reflected, half of the time each. SMACv2 draws a third
type with probability 0.1 (colossus, medivac, baneling) that SMAX lacks; the other two, equally likely there,
share its part.
"""

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Import jaxmarl quietly: it prints, having set both streams to those that Python started with."""
    streams = sys.stdout, sys.stderr, sys.__stdout__
    sys.stdout = sys.__stdout__ = io.StringIO()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.__stdout__ = streams  # pyright: ignore[reportAttributeAccessIssue]


with quiet():
    from jaxmarl.environments.smax import HeuristicEnemySMAX, Scenario
    from jaxmarl.environments.smax.heuristic_enemy import HeuristicPolicyState as HeuristicPolicyState
    from jaxmarl.environments.smax.heuristic_enemy import create_heuristic_policy as create_heuristic_policy
    from jaxmarl.environments.smax.smax_env import MAP_NAME_TO_SCENARIO

RACES = {
    "protoss": ("stalker", "zealot"),
    "terran": ("marine", "marauder"),
    "zerg": ("zergling", "hydralisk"),
}
RACE_SIZES = ("5_vs_5", "10_vs_10", "10_vs_11")

MAP_SIDE = 32.0
WALL_MARGIN = 2.0
"""Units that touch a wall die, and those that overlap push each other: nobody is placed near a wall."""
GROUP_SPREAD = 2.0
"""Units of a group start up to this far from its centre, along each axis."""


@dataclass(frozen=True)
class RaceUnits:
    """Unit types of one race; as in SMACv2 the enemies repeat the allies' team, and any more are drawn too.

    It stands in for jaxmarl's own generator, which knows no races and leaves every enemy beyond the number of
    allies a marine: there the result of an `.at[].set()` is thrown away.
    """

    num_allies: int
    num_enemies: int
    types: tuple[int, int]

    def generate(self, key: PRNGKeyArray) -> UInt8[Array, " units"]:
        """Draw the type of every unit, allies first."""
        number = max(self.num_allies, self.num_enemies)
        team = jax.random.choice(key, jnp.array(self.types, dtype=jnp.uint8), (number,))
        return jnp.concatenate([team[: self.num_allies], team[: self.num_enemies]])


@dataclass(frozen=True)
class SurroundedOrReflected:
    """Start positions after SMACv2, kept off the walls: they kill, and jaxmarl's own may lie beyond them."""

    num_allies: int
    num_enemies: int

    def generate(self, key: PRNGKeyArray) -> Float[Array, "units 2"]:
        """Draw where every unit starts, allies first."""
        mode_key, position_key = jax.random.split(key)
        return jax.lax.cond(jax.random.bernoulli(mode_key), self.surrounded, self.reflected, position_key)

    def surrounded(self, key: PRNGKeyArray) -> Float[Array, "units 2"]:
        """Put the allies in the centre and the enemies in one to four groups on the diagonals around it."""
        number_key, corner_key, member_key, distance_key, spread_key = jax.random.split(key, 5)
        corners = jax.random.permutation(corner_key, jnp.array([[-1, -1], [-1, 1], [1, 1], [1, -1]]))
        farthest = MAP_SIDE / 2 - WALL_MARGIN - GROUP_SPREAD
        distances = jax.random.uniform(distance_key, (4, 1), minval=GROUP_SPREAD, maxval=farthest)
        number_of_groups = jax.random.randint(number_key, (), 1, 5)
        membership = jax.random.randint(member_key, (self.num_enemies,), 0, number_of_groups)
        enemies = (corners * distances)[membership]
        centres = jnp.concatenate([jnp.zeros((self.num_allies, 2)), enemies]) + MAP_SIDE / 2
        spread = jax.random.uniform(spread_key, centres.shape, minval=-GROUP_SPREAD, maxval=GROUP_SPREAD)
        return centres + spread

    def reflected(self, key: PRNGKeyArray) -> Float[Array, "units 2"]:
        """Scatter the allies over the left half and mirror them to place the enemies on the right one."""
        number = max(self.num_allies, self.num_enemies)
        # The gap at the middle is SMACv2's: a unit and its mirror image shall not start inside each other.
        low, high = jnp.array([WALL_MARGIN] * 2), jnp.array([MAP_SIDE / 2 - 1, MAP_SIDE - WALL_MARGIN])
        left = jax.random.uniform(key, (number, 2), minval=low, maxval=high)
        right = left.at[:, 0].set(MAP_SIDE - left[:, 0])
        return jnp.concatenate([left[: self.num_allies], right[: self.num_enemies]])


def names() -> list[str]:
    """The maps to list: all of jaxmarl's and the usual race maps (a race map of any other size works too)."""
    return [*MAP_NAME_TO_SCENARIO, *(f"{race}_{size}" for race in RACES for size in RACE_SIZES)]


def simulator(map_name: str, *, time_limit: int) -> HeuristicEnemySMAX | None:
    """Build jaxmarl's game of a map against its scripted enemies, or None when there is no such map."""
    if map_name in MAP_NAME_TO_SCENARIO:
        return HeuristicEnemySMAX(scenario=MAP_NAME_TO_SCENARIO[map_name], max_steps=time_limit)
    race_map = re.fullmatch(rf"({'|'.join(RACES)})_([1-9]\d*)_vs_([1-9]\d*)", map_name)
    if race_map is None:
        return None
    race, num_allies, num_enemies = race_map[1], int(race_map[2]), int(race_map[3])
    placeholder = jnp.zeros(num_allies + num_enemies, dtype=jnp.uint8)
    scenario = Scenario(placeholder, num_allies, num_enemies, True, True)
    game = HeuristicEnemySMAX(scenario=scenario, max_steps=time_limit)
    # jaxmarl takes no generators as arguments; nothing has been traced yet, so they may still be exchanged.
    battle: Any = game._env
    first, second = (battle.unit_type_names.index(name) for name in RACES[race])
    battle.unit_type_generator = RaceUnits(num_allies, num_enemies, (first, second))
    battle.position_generator = SurroundedOrReflected(num_allies, num_enemies)
    return game
