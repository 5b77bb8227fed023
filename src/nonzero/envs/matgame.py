"""MatGame: the same one-shot payoff game played ten times, for one shared reward a step."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero.envs.payoffs import FAMILIES, PayoffGame, mazero_game, payoff_game
from nonzero.types import BasePolicy, Environment, EnvSpec, TimeStep

STEPS = 10


class MatGameState(eqx.Module):
    """How many steps of the episode were played."""

    step: Int[Array, ""]


class MatGame(eqx.Module):
    """An episode of `STEPS` plays of `game`; agents see how much of the episode is over, and who they are.

    As a pytree it is the game's arrays, so that what is compiled serves all games of one kind and size; as a
    static argument it is itself.
    """

    game: PayoffGame
    spec: EnvSpec = eqx.field(static=True)
    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def reset(self, key: PRNGKeyArray) -> tuple[MatGameState, TimeStep]:
        """Start an episode; nothing is random about it."""
        del key
        step = jnp.int32(0)
        return MatGameState(step), self._time_step(step, jnp.float32(0.0), jnp.bool_(False))

    def step(
        self, state: MatGameState, actions: Int[Array, " I"], key: PRNGKeyArray
    ) -> tuple[MatGameState, TimeStep]:
        """Play the game once; `key` matters to games with noise per step alone."""
        if actions.shape != (self.spec.num_agents,):
            raise ValueError(
                f"{self.spec.name} needs one action for each of its {self.spec.num_agents} agents, "
                f"not an array of shape {actions.shape}"
            )
        step = state.step + 1
        reward = self.game.reward(actions, key)
        return MatGameState(step), self._time_step(step, reward, step == STEPS)

    def _time_step(
        self, step: Int[Array, ""], reward: Float[Array, ""], terminated: Bool[Array, ""]
    ) -> TimeStep:
        agents, actions = self.spec.num_agents, self.spec.num_actions
        progress = step.astype(jnp.float32) / STEPS
        return TimeStep(
            obs=jnp.concatenate([jnp.full((agents, 1), progress), jnp.eye(agents)], axis=1),
            state=progress[None],
            legal=jnp.ones((agents, actions), bool),
            reward=reward,
            terminated=terminated,
            truncated=jnp.bool_(False),
            won=jnp.bool_(False),
        )


class MatGamesState(eqx.Module):
    """Which game an episode plays, and how much of it is over."""

    game: Int[Array, ""]
    inner: MatGameState


@dataclass(frozen=True, eq=False)
class MatGames:
    """Many games of one family and size: each episode plays one, and what is compiled serves all of them."""

    games: PayoffGame
    """Their arrays have a leading axis over the games."""
    spec: EnvSpec
    number: int

    def reset(self, key: PRNGKeyArray) -> tuple[MatGamesState, TimeStep]:
        """Start an episode of a random one of the games."""
        return self.start(jax.random.randint(key, (), 0, self.number))

    def start(self, game: Int[Array, ""]) -> tuple[MatGamesState, TimeStep]:
        """Start an episode of the given game, counted from 0."""
        inner, first = self._playing(game).reset(jax.random.key(0))
        return MatGamesState(game, inner), first

    def step(
        self, state: MatGamesState, actions: Int[Array, " I"], key: PRNGKeyArray
    ) -> tuple[MatGamesState, TimeStep]:
        """Play the episode's game once."""
        inner, outcome = self._playing(state.game).step(state.inner, actions, key)
        return MatGamesState(state.game, inner), outcome

    def _playing(self, game: Int[Array, ""]) -> MatGame:
        return MatGame(jax.tree.map(lambda stack: stack[game], self.games), self.spec)


def many_games(family: str, num_agents: int, num_actions: int, seeds: Sequence[int]) -> MatGames:
    """The games of these seeds, in this order."""
    games = [payoff_game(family, num_agents, num_actions, seed) for seed in seeds]
    specs = [from_game(game, f"matgame/{family}-{num_agents}x{num_actions}").spec for game in games]
    low, high = zip(*(spec.return_bounds for spec in specs), strict=True)
    spec = replace(specs[0], return_bounds=(min(low), max(high)))
    return MatGames(jax.tree.map(lambda *arrays: jnp.stack(arrays), *games), spec, len(games))


def from_game(game: PayoffGame, name: str) -> MatGame:
    """The environment that plays `game`."""
    low, high = game.bounds()
    spec = EnvSpec(
        name=name,
        num_agents=game.num_agents,
        num_actions=game.num_actions,
        obs_shape=(1 + game.num_agents,),
        state_shape=(1,),
        max_steps=STEPS,
        return_bounds=(STEPS * low, STEPS * high),
    )
    return MatGame(game, spec)


def make(rest: str, *, seed: int = 0, noise: str = "fixed") -> MatGame | None:
    """Make `FAMILY-NxD` (N agents, D actions) or `mazero-1` to `mazero-4`; None for other names."""
    name = f"matgame/{rest}"
    if number := re.fullmatch(r"mazero-([1-4])", rest):
        if noise != "fixed":
            raise ValueError(f"noise='{noise}' is for nonlinear games; {name} has no noise")
        return from_game(mazero_game(int(number[1])), name)
    sized = re.fullmatch(r"([a-z-]+)-(\d+)x(\d+)", rest)
    if sized is None or sized[1] not in FAMILIES:
        return None
    return from_game(payoff_game(sized[1], int(sized[2]), int(sized[3]), seed, noise=noise), name)


def uniform_policy(environment: Environment[Any]) -> BasePolicy:
    """Return the player who plays anything, for payoff games, where every action is legal."""
    spec = environment.spec

    def policy(state: Any, key: PRNGKeyArray) -> Int[Array, " I"]:
        del state
        return jax.random.randint(key, (spec.num_agents,), 0, spec.num_actions)

    return policy


BASE_POLICIES = {"uniform": uniform_policy}
"""Policies that know the rules only, to plan with: from an environment to a function of a state and a key."""
