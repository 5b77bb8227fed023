"""Episodes played to their end, side by side: a player decides, the environment answers.

An episode's own chance comes from its seed alone: players who are given the same seeds meet the same starts,
and a player who plans draws its simulations from other keys, so that it knows the rules and not the future.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from nonzero.search import Rules, search
from nonzero.search.simulator import Simulator
from nonzero.types import BasePolicy, Environment, NonZeroError, SearchResult, TimeStep

Start = Callable[[UInt32[Array, ""]], tuple[Any, TimeStep]]
"""From an episode's seed to its first state."""
EPISODE, PLAYER = 0, 1
"""What a seed is folded with, for the chance of an episode and for that of the player's simulations."""


class Decision(eqx.Module):
    """What a player does in a batch of states, and what it cost."""

    actions: Int[Array, "B I"]
    result: SearchResult | None = None
    """What the search behind it found, if there was one."""
    simulations: int = eqx.field(static=True, default=0)
    model_evaluations: int = eqx.field(static=True, default=0)
    """Both for each state."""


@runtime_checkable
class Player(Protocol):
    """Anything that decides. It compiles what it does by itself; nothing around it is."""

    def __call__(self, state: Any, current: TimeStep, key: PRNGKeyArray) -> Decision:
        """Decide for a batch of environment states."""
        ...


@dataclass(frozen=True)
class Planner:
    """A player that searches with the environment as its model, and takes the most visited joint action."""

    simulator: Simulator
    rules: Rules
    num_simulations: int
    num_candidates: int
    dirichlet_fraction: float = 0.0
    temperature: float = 0.0

    def __call__(self, state: Any, current: TimeStep, key: PRNGKeyArray) -> Decision:
        """Search from each state."""
        root_key, search_key = jax.random.split(key)
        root = root_of(self.simulator, state, current, root_key)
        result = search_from(self, root, current.legal, search_key)
        return Decision(result.action, result, result.simulations, result.model_evaluations)


@partial(jax.jit, static_argnums=0)
def root_of(simulator: Simulator, state: Any, current: TimeStep, key: PRNGKeyArray) -> tuple:
    """What the simulator says of a batch of states; compiled apart, being the same for all searches."""
    return simulator.root(state, current, key)


@partial(jax.jit, static_argnums=0)
def search_from(
    planner: Planner, root: tuple, legal: Bool[Array, "B I A"], key: PRNGKeyArray
) -> SearchResult:
    """The planner's search."""
    return search(
        planner.simulator.step,
        None,
        root,
        key,
        num_simulations=planner.num_simulations,
        num_candidates=planner.num_candidates,
        rules=planner.rules,
        legal=legal,
        dirichlet_fraction=planner.dirichlet_fraction,
        temperature=planner.temperature,
    )


@dataclass(frozen=True)
class Follower:
    """A player that follows a base policy: what planning with it has to beat."""

    policy: BasePolicy

    def __call__(self, state: Any, current: TimeStep, key: PRNGKeyArray) -> Decision:
        """Ask the policy in each state."""
        return Decision(follow(self.policy, state, current, key))


@partial(jax.jit, static_argnums=0)
def follow(policy: BasePolicy, state: Any, current: TimeStep, key: PRNGKeyArray) -> Int[Array, "B I"]:
    """What the policy does in each state."""
    return jax.vmap(policy)(state, jax.random.split(key, current.reward.shape[0]))


@dataclass(frozen=True)
class Episodes:
    """What became of every seed, in the order given."""

    returns: Float[np.ndarray, " E"]
    won: Bool[np.ndarray, " E"]
    lengths: Int[np.ndarray, " E"]
    simulations: int
    model_evaluations: int
    """Both for one decision; an episode makes as many decisions as it is long."""
    first: Decision = field(repr=False)
    """The first decisions of the first episodes."""


@dataclass(frozen=True)
class Reset:
    """The start of an episode by the environment's own rules."""

    env: Environment[Any]

    def __call__(self, seed: UInt32[Array, ""]) -> tuple[Any, TimeStep]:
        """The first state and what is seen in it."""
        return self.env.reset(chance(seed, jnp.int32(0)))


class Board(eqx.Module):
    """Episodes in progress, one a row."""

    seed: UInt32[Array, "B"]
    state: Any
    current: TimeStep
    steps: Int[Array, "B"]
    total: Float[Array, "B"]


def play(
    env: Environment[Any],
    player: Player,
    seeds: Sequence[int],
    *,
    rows: int = 32,
    start: Start | None = None,
    report: Callable[[int, int], None] = lambda finished, decisions: None,
) -> Episodes:
    """Play one episode for each seed to its end, `rows` of them at a time.

    A row whose episode is over takes the next seed, and stands still where none is left. `start` begins an
    episode otherwise than by `env.reset`; `report` hears how many are over and how many decisions were made.
    """
    if not len(seeds) or rows < 1:
        raise ValueError(f"playing needs at least one seed and one row, not {len(seeds)} and {rows}")
    begin = Reset(env) if start is None else start
    every = np.asarray(seeds, np.uint32)
    number = np.arange(min(rows, len(seeds)))  # which episode a row plays
    waiting = len(number)
    board = new_board(begin, jnp.asarray(every[number]))
    key = jax.random.fold_in(jax.random.key(seeds[0]), PLAYER)
    returns, won, lengths = (np.zeros(len(seeds), kind) for kind in (float, bool, int))
    first: Decision | None = None
    while np.any(is_open := lengths[number] == 0):
        key, decision_key = jax.random.split(key)
        decision = player(board.state, board.current, decision_key)
        board, is_finite = advance(env, board, decision.actions)
        is_sound = True if decision.result is None else np.asarray(decision.result.is_finite)
        if not np.all((np.asarray(is_finite) & is_sound)[is_open]):
            raise NonZeroError(f"{env.spec.name} returned NaN or infinity while an episode was planned")
        first = first or decision
        over = np.asarray(board.current.is_last) & is_open
        done = number[over]
        returns[done], won[done] = np.asarray(board.total)[over], np.asarray(board.current.won)[over]
        lengths[done] = np.asarray(board.steps)[over]
        free = np.flatnonzero(over)[: len(seeds) - waiting]
        if len(free) > 0:
            number[free] = waiting + np.arange(len(free))
            waiting += len(free)
            fresh = np.zeros(len(number), bool)
            fresh[free] = True
            board = replace_rows(begin, board, jnp.asarray(fresh), jnp.asarray(every[number]))
        report(int(np.sum(lengths > 0)), int(lengths.sum()))
    assert first is not None
    return Episodes(returns, won, lengths, first.simulations, first.model_evaluations, first)


def chance(seed: UInt32[Array, ""], step: Int[Array, ""]) -> PRNGKeyArray:
    """The key of what is random in a step of the episode of `seed`; step 0 is its start."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), EPISODE), step)


@partial(jax.jit, static_argnums=0)
def new_board(begin: Start, seed: UInt32[Array, "B"]) -> Board:
    """A fresh episode in every row."""
    state, current = jax.vmap(begin)(seed)
    return Board(seed, state, current, jnp.zeros(seed.shape, jnp.int32), jnp.zeros(seed.shape))


@partial(jax.jit, static_argnums=0)
def replace_rows(begin: Start, board: Board, fresh: Bool[Array, "B"], seed: UInt32[Array, "B"]) -> Board:
    """The board with new episodes in the `fresh` rows."""
    return chosen(fresh, new_board(begin, seed), board)


@partial(jax.jit, static_argnums=0)
def advance(
    env: Environment[Any], board: Board, actions: Int[Array, "B I"]
) -> tuple[Board, Bool[Array, "B"]]:
    """Every row one step further but those that are over, and whether the rewards are numbers."""
    steps = board.steps + 1
    state, current = jax.vmap(env.step)(board.state, actions, jax.vmap(chance)(board.seed, steps))
    moved = Board(board.seed, state, current, steps, board.total + current.reward)
    return chosen(board.current.is_last, board, moved), jnp.isfinite(current.reward)


def chosen(first: Bool[Array, "B"], one: Board, other: Board) -> Board:
    """Row by row the one board where `first`, else the other."""
    return jax.vmap(lambda pick, x, y: jax.tree.map(lambda a, b: jnp.where(pick, a, b), x, y))(
        first, one, other
    )
