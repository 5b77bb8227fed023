"""Payoff games by family: `payoff_game("paired-traps", 6, 8, seed=3)`.

Every family has a positive best payoff, so that a share of it means something, and hides its structure: which
agents interact and which action does what are drawn from the seed, so that the order of the indices gives
nothing away. Only the linear and nonlinear families, being sums of the actions, are in order.
"""

import difflib
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from nonzero.envs.payoffs_rules import (
    NK,
    Additive,
    Linear,
    LowRank,
    NoisyLinear,
    Nonlinear,
    Optimum,
    Pairwise,
    PayoffGame,
    Penalty,
)

__all__ = ["FAMILIES", "MAZERO_TABLES", "Optimum", "PayoffGame", "mazero_game", "payoff_game"]

Builder = Callable[[int, int, np.random.Generator], PayoffGame]

CLIMBING = np.array([[11.0, -30.0, 0.0], [-30.0, 7.0, 6.0], [0.0, 0.0, 5.0]])

# The four two-agent matrix games that MAZero's code ships: best returns over ten steps 80, 80, 100 and 100.
MAZERO_TABLES = {
    1: ((8.0, -12.0, -12.0), (-12.0, 0.0, 0.0), (-12.0, 0.0, 0.0)),
    2: ((0.0, 0.0, -12.0), (0.0, 0.0, -12.0), (-12.0, -12.0, 8.0)),
    3: ((10.0, -10.0, -10.0), (-10.0, 9.0, 0.0), (-10.0, 0.0, 9.0)),
    4: ((2.0, 6.0, 10.0), (2.0, 4.0, 9.0), (1.0, 2.0, 3.0)),
}


@dataclass(frozen=True)
class GameFamily:
    """How to build a game of one kind, and the smallest one that there is."""

    build: Builder
    summary: str
    min_agents: int = 1
    min_actions: int = 2


def payoff_game(
    family: str, num_agents: int, num_actions: int, seed: int = 0, *, noise: str = "fixed"
) -> PayoffGame:
    """Build the game of a family, a size and a seed; `noise="per-step"` is for the nonlinear family alone."""
    if family not in FAMILIES:
        close = difflib.get_close_matches(family, FAMILIES, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known ones: {', '.join(FAMILIES)}."
        raise ValueError(f"unknown payoff family '{family}': {hint}")
    kind = FAMILIES[family]
    if num_agents < kind.min_agents or num_actions < kind.min_actions:
        raise ValueError(
            f"a {family} game needs at least {kind.min_agents} agents and {kind.min_actions} actions, "
            f"not {num_agents}x{num_actions}"
        )
    if not 0 <= seed < 2**32:
        raise ValueError(f"a game's seed is a number from 0 to 4294967295, not {seed}")
    if noise not in ("fixed", "per-step"):
        raise ValueError(f"noise is 'fixed' or 'per-step', not '{noise}'")
    if noise == "per-step":
        if family != "nonlinear":
            raise ValueError(f"noise='per-step' is for nonlinear games; {family} games have no noise")
        return NoisyLinear(num_agents, num_actions)
    salt = zlib.crc32(family.encode())
    return kind.build(num_agents, num_actions, np.random.default_rng((seed, num_agents, num_actions, salt)))


def mazero_game(number: int) -> PayoffGame:
    """One of MAZero's four two-agent matrix games, numbered from 1 as in its code."""
    if number not in MAZERO_TABLES:
        raise ValueError(f"MAZero's matrix games are numbered 1 to 4, not {number}")
    table = np.array(MAZERO_TABLES[number])
    best = np.array(np.unravel_index(table.argmax(), table.shape))
    return _pairwise(np.zeros((2, 3)), np.array([[0, 1]]), table[None], best)


def _linear(num_agents: int, num_actions: int, rng: np.random.Generator) -> PayoffGame:
    del rng
    return Linear(num_agents, num_actions)


def _nonlinear(num_agents: int, num_actions: int, rng: np.random.Generator) -> PayoffGame:
    key = jax.random.key(rng.integers(2**32, dtype=np.uint32), impl="threefry2x32")
    return Nonlinear(num_agents, num_actions, key)


def _centred(rng: np.random.Generator, *shape: int) -> np.ndarray:
    # An agent's terms average to zero over its actions: uniform play earns zero, the best play more.
    terms = rng.normal(size=shape)
    return terms - terms.mean(axis=1, keepdims=True)


def _additive(num_agents: int, num_actions: int, rng: np.random.Generator) -> PayoffGame:
    return Additive(num_agents, num_actions, _floats(_centred(rng, num_agents, num_actions)))


def _asinh_additive(num_agents: int, num_actions: int, rng: np.random.Generator) -> PayoffGame:
    return Additive(num_agents, num_actions, _floats(_centred(rng, num_agents, num_actions)), link_scale=5.0)


def _low_rank(num_agents: int, num_actions: int, rng: np.random.Generator, rank: int = 3) -> PayoffGame:
    w = 0.3 * _centred(rng, num_agents, num_actions)
    v = _centred(rng, num_agents, num_actions, rank)
    signs = rng.choice([-1.0, 1.0], size=rank)
    return LowRank(num_agents, num_actions, _floats(w), _floats(v), _floats(signs))


def _paired_traps(num_agents: int, num_actions: int, rng: np.random.Generator) -> PayoffGame:
    """Hidden pairs: own slopes lead to a decoy worth 2, the target pays 4 to 6, half a target costs 2."""
    own = rng.uniform(0.0, 0.8, size=(num_agents, num_actions))
    decoy = rng.integers(num_actions, size=num_agents)
    own[np.arange(num_agents), decoy] = 1.0
    target = (decoy + rng.integers(1, num_actions, size=num_agents)) % num_actions
    pairs = rng.permutation(num_agents)[: num_agents // 2 * 2].reshape(-1, 2)
    prize = rng.uniform(4.0, 6.0, size=len(pairs))
    tables = np.zeros((len(pairs), num_actions, num_actions))
    best = own.argmax(axis=1)
    for table, (left, right), value in zip(tables, pairs, prize, strict=True):
        x, y = target[left], target[right]
        table[x, :] -= 2.0
        table[:, y] -= 2.0
        table[x, y] = value - own[left, x] - own[right, y]
        best[left], best[right] = x, y
    limits = (-2.0 * len(pairs), 6.0 * len(pairs) + num_agents % 2)
    return replace(_pairwise(own, pairs, tables, best), limits=limits)


def _climbing(num_agents: int, num_actions: int, rng: np.random.Generator) -> PayoffGame:
    """The climbing game between hidden ring neighbours: all pairs reach its 11 together, the optimum."""
    ring = rng.permutation(num_agents)
    pairs = np.stack([ring, np.roll(ring, -1)], axis=1)
    labels = rng.permuted(np.tile(np.arange(num_actions), (num_agents, 1)), axis=1)
    # Actions beyond the climbing game's three pay little with anyone.
    by_label = rng.uniform(-2.0, 2.0, size=(num_agents, num_actions, num_actions))
    by_label[:, :3, :3] = CLIMBING
    rows, columns = labels[pairs[:, 0]][:, :, None], labels[pairs[:, 1]][:, None, :]
    tables = by_label[np.arange(num_agents)[:, None, None], rows, columns] / num_agents
    own = np.zeros((num_agents, num_actions))
    return _pairwise(own, pairs, tables, (labels == 0).argmax(axis=1))


def _penalty(num_agents: int, num_actions: int, rng: np.random.Generator) -> PayoffGame:
    labels = rng.permuted(np.tile(np.arange(num_actions), (num_agents, 1)), axis=1)
    return Penalty(num_agents, num_actions, jnp.asarray(labels, jnp.int32))


def _nk(num_agents: int, num_actions: int, rng: np.random.Generator) -> PayoffGame:
    order = jnp.asarray(rng.permutation(num_agents), jnp.int32)
    return NK(num_agents, num_actions, order, _floats(rng.random((num_agents, *[num_actions] * 3))))


def _pairwise(own: np.ndarray, pairs: np.ndarray, tables: np.ndarray, best: np.ndarray) -> Pairwise:
    left, right, best_actions = (jnp.asarray(x, jnp.int32) for x in (pairs[:, 0], pairs[:, 1], best))
    num_agents, num_actions = own.shape
    return Pairwise(num_agents, num_actions, _floats(own), left, right, _floats(tables), best_actions)


def _floats(array: np.ndarray) -> jax.Array:
    return jnp.asarray(array, jnp.float32)


FAMILIES: dict[str, GameFamily] = {
    "linear": GameFamily(_linear, "the sum of the actions"),
    "nonlinear": GameFamily(_nonlinear, "the sum of the actions plus noise fixed per joint action"),
    "additive": GameFamily(_additive, "a random term of each agent"),
    "asinh-additive": GameFamily(_asinh_additive, "asinh of the sum of a random term of each agent"),
    "low-rank": GameFamily(_low_rank, "all pairs of agents interact through three factors", min_agents=2),
    "paired-traps": GameFamily(_paired_traps, "hidden pairs must leave a decoy together", min_agents=2),
    "climbing": GameFamily(_climbing, "the climbing game on a hidden ring", min_agents=2, min_actions=3),
    "penalty": GameFamily(_penalty, "the penalty game between all pairs", min_agents=2, min_actions=3),
    "nk": GameFamily(_nk, "random contributions of three neighbours on a hidden ring", min_agents=3),
}
