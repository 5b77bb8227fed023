"""Games inside the surrogate's own family, NonUCT and UCB1 playing them, and the true local maxima.

A game is a random θ: its payoffs c·asinh(α z) have about unit spread under uniform play, half of it from the
agents' own terms and half from their interactions where R > 0. Whether a joint action is a local maximum is
decided on the true payoffs of all its one- and two-agent changes, never on what an optimiser learned.
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from nonzero.surrogate.bandit import Rules, ask, new_bandit
from nonzero.surrogate.deviations import apply_change
from nonzero.surrogate.predictor import (
    Directions,
    Link,
    Surrogate,
    apply_link,
    moves_two_agents,
    pair_score_changes,
    predict,
    score,
    signs,
    single_score_changes,
)

LINK = Link()
Scalar = Float[Array, ""] | float


class Verdict(eqx.Module):
    """What the joint actions of T rounds are worth, judged by the true payoff."""

    is_asked_outside: Bool[Array, "*T"]
    """Whether the joint action asked in a round is no (ε, ε)-local maximum."""
    is_outside: Bool[Array, "*T"]
    """The same of the incumbent, the best joint action asked until then."""
    gap: Float[Array, "*T"]
    """How far the incumbent's payoff lies below the local maximum that steepest ascent from it finds."""
    best: Float[Array, "*T"]
    """The incumbent's payoff."""


def rules_for(num_actions: int, rank: int) -> Rules:
    """The settings with which `nonzero.surrogate.NonUCT` plays a game of that many actions an agent."""
    return Rules(rank=rank, members=1 if rank == 0 else Rules.members, initial=2 * num_actions)


def realisable_game(num_agents: int, num_actions: int, rank: int, seed: int, columns: int = 0) -> Surrogate:
    """A random θ of rank R; its factors are padded with zeros to `columns`, which changes no payoff."""
    rng = np.random.default_rng((seed, num_agents, num_actions, rank))
    own = rng.normal(size=(num_agents, num_actions))
    own -= own.mean(axis=1, keepdims=True)
    factors = rng.normal(size=(num_agents, num_actions, rank))
    factors -= factors.mean(axis=1, keepdims=True)
    left, right = np.triu_indices(num_agents, 1)
    tables = np.einsum("paf,pbf,f->pab", factors[left], factors[right], np.asarray(signs(rank)))
    interaction = np.sum(tables.var(axis=(1, 2)))
    share = 0.5 if interaction > 0 else 1.0
    own *= np.sqrt(share / np.sum(own.var(axis=1)))
    if interaction > 0:
        factors *= ((1.0 - share) / interaction) ** 0.25
    padding = ((0, 0), (0, 0), (0, max(columns - rank, 0)))
    return Surrogate(jnp.zeros(()), jnp.float32(own), jnp.float32(np.pad(factors, padding)))


@partial(jax.jit, static_argnames=("rounds", "rules"))
def play(
    games: Surrogate, keys: Key[Array, " S"], rounds: int, rules: Rules
) -> tuple[Int[Array, "S T I"], Float[Array, "S T"]]:
    """What NonUCT asks in T rounds of each of S games, and the payoffs that it is told."""
    return jax.vmap(lambda game, key: play_one(game, key, rounds, rules))(games, keys)


def play_one(
    game: Surrogate, key: PRNGKeyArray, rounds: int, rules: Rules
) -> tuple[Int[Array, "T I"], Float[Array, " T"]]:
    """NonUCT's ask and tell in one compiled loop; values are normalised as `NonUCT` does it."""
    legal, nothing = jnp.ones(game.w.shape, bool), jnp.zeros(rounds, bool)

    def advance(carry, _):
        bandit, payoffs, weights = carry
        told = weights > 0
        count = jnp.maximum(told.sum(), 1)
        centre = jnp.sum(payoffs * told) / count
        spread = jnp.sqrt(jnp.sum((payoffs - centre) ** 2 * told) / count)
        values = jnp.where(told, (payoffs - centre) / jnp.where(spread > 1e-6, spread, 1.0), 0.0)
        bandit, answer = ask(bandit, values, weights, nothing, legal, rules)
        payoff = predict(game, answer.actions, LINK)
        # Where nothing untried came up, the round is spent and nothing is learned.
        row = jnp.where(answer.found, answer.row, rounds)
        payoffs = payoffs.at[row].set(payoff, mode="drop")
        weights = weights.at[row].set(1.0, mode="drop")
        return (bandit, payoffs, weights), (answer.actions, payoff)

    bandit = new_bandit(key, legal.shape[0], legal.shape[1], rounds, rules)
    start = (bandit, jnp.zeros(rounds), jnp.zeros(rounds))
    return jax.lax.scan(advance, start, None, length=rounds)[1]


def largest_gains(
    game: Surrogate, actions: Int[Array, " I"]
) -> tuple[Float[Array, ""], Float[Array, ""], Int[Array, " I"]]:
    """G₁ and G₂, the largest true gains of a one- and a two-agent change, and the best changed joint
    action."""
    num_agents, num_actions = game.w.shape
    agents, choices = (jnp.asarray(x) for x in np.divmod(np.arange(num_agents * num_actions), num_actions))
    directions = Directions(agents, choices)
    is_change = choices != actions[agents]
    # The link is increasing, so what is largest in z is largest in η.
    single = jnp.where(is_change, single_score_changes(game, actions).ravel(), -jnp.inf)
    allowed = moves_two_agents(directions) & is_change[:, None] & is_change[None, :]
    pair = jnp.where(allowed, pair_score_changes(game, actions, directions), -jnp.inf).ravel()
    first, second = jnp.divmod(jnp.argmax(pair), single.size)
    is_single = single.max() >= pair.max()
    first = jnp.where(is_single, jnp.argmax(single), first)
    second = jnp.where(is_single, first, second)
    u, v = (Directions(agents[x], choices[x]) for x in (first, second))
    z = score(game, actions)
    gains = apply_link(z + jnp.stack([single.max(), pair.max()]), LINK) - apply_link(z, LINK)
    return gains[0], gains[1], apply_change(actions, u, v)


@jax.jit
def is_local_maximum(game: Surrogate, actions: Int[Array, " I"], epsilon: Scalar) -> Bool[Array, ""]:
    """Whether no single and no pair of changes gains more than ε: G₁(a) ≤ ε and G₂(a) ≤ ε."""
    single, pair, _ = largest_gains(game, actions)
    return (single <= epsilon) & (pair <= epsilon)


def ascend(game: Surrogate, actions: Int[Array, " I"], epsilon: Scalar) -> Int[Array, " I"]:
    """The (ε, ε)-local maximum that the best one- or two-agent change, again and again, leads to."""

    def goes_on(carry):
        single, pair, _ = carry[1]
        return jnp.maximum(single, pair) > epsilon

    def climb(carry):
        better = carry[1][2]
        return better, largest_gains(game, better)

    return jax.lax.while_loop(goes_on, climb, (actions, largest_gains(game, actions)))[0]


@jax.jit
def judge(
    game: Surrogate, actions: Int[Array, "T I"], payoffs: Float[Array, " T"], epsilon: Scalar
) -> Verdict:
    """Judge T rounds by the true payoff."""

    def judge_round(carry, asked):
        action, payoff = asked
        is_asked_outside = ~is_local_maximum(game, action, epsilon)

        def replace():
            top = predict(game, ascend(game, action, epsilon), LINK)
            return payoff, is_asked_outside, jnp.where(is_asked_outside, top - payoff, 0.0)

        carry = jax.lax.cond(payoff > carry[0], replace, lambda: carry)
        return carry, Verdict(is_asked_outside, carry[1], carry[2], carry[0])

    start = (jnp.float32(-jnp.inf), jnp.bool_(True), jnp.float32(0.0))
    return jax.lax.scan(judge_round, start, (actions, payoffs))[1]


def all_payoffs(game: Surrogate) -> np.ndarray:
    """The payoffs of all A^I joint actions, the last agent's action changing fastest."""
    v = np.asarray(game.v, np.float64)
    sigma = np.asarray(signs(game.rank), np.float64)
    own = np.asarray(game.w, np.float64) - 0.5 * (v**2) @ sigma
    rows = np.concatenate([own[..., None], v], axis=-1)
    sums = np.zeros((1, rows.shape[-1]))
    for agent_rows in rows:
        sums = (sums[:, None] + agent_rows[None]).reshape(-1, rows.shape[-1])
    z = float(game.bias) + sums[:, 0] + 0.5 * (sums[:, 1:] ** 2) @ sigma
    return np.asarray(apply_link(jnp.float32(z), LINK))


def ucb_rounds(game: Surrogate, payoffs: np.ndarray, epsilon: float, seed: int) -> tuple[int, int]:
    """Rounds until UCB1's incumbent is a local maximum, and until it is within ε of the best of all arms.

    An arm never pulled has an infinite index and a payoff here has no noise, so UCB1's first A^I rounds are
    the arms in random order, and all ends within them.
    """
    order = np.random.default_rng(seed).permutation(payoffs.size)
    best = np.maximum.accumulate(payoffs[order])
    to_global = int(np.argmax(best >= payoffs.max() - epsilon)) + 1
    for place in np.flatnonzero(np.diff(best, prepend=-np.inf) > 0):
        actions = np.stack(np.unravel_index(order[place], (game.w.shape[1],) * game.w.shape[0]))
        if is_local_maximum(game, jnp.asarray(actions, jnp.int32), epsilon):
            return int(place) + 1, to_global
    raise AssertionError("the best of all joint actions is a local maximum")
