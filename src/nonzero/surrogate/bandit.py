"""The compiled half of the optimiser: what was asked, a few surrogates, and the next joint action.

Several surrogates ("members") share the history and take turns. Their factors start at random, so where the
data can be explained by several pairs of agents, each member bets on other ones, and the turns test the
bets; member 0 has no factors, because few data are better explained without interactions. When the member
at turn believes, bonus included, that no change of an incumbent beats the best value known, a local maximum
is reached: the next joint action is a fresh sample, every second time led uphill on η first, which teaches
the members about pairs nobody would try from here.
"""

from dataclasses import dataclass, field
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from nonzero.surrogate.fit import History, Ridge, sweep
from nonzero.surrogate.predictor import Link, Surrogate, init_surrogate, predict
from nonzero.surrogate.proposal import Optimism, Proposal, climb, direction_variances, propose
from nonzero.surrogate.tried import (
    Tried,
    hash_actions,
    hash_table,
    is_known,
    nothing_tried,
    tries_of_actions,
    with_one_more,
    with_room,
)
from nonzero.types import PRIOR

TURN = 2
"""Joint actions a member chooses in a row; it is refitted before the first of them."""
FRESH_TRIES = 8
"""How many fresh samples are looked at for one that is new."""


@dataclass(frozen=True)
class Rules:
    """The optimiser's settings; hashable, being a static argument of compiled functions."""

    rank: int = 4
    members: int = 4
    incumbents: int = 3
    initial: int = 16
    """Fresh samples before the first proposal."""
    is_noisy: bool = False
    """Whether a joint action may be evaluated again."""
    noise_floor: float = 1e-3
    """The least share of the returns' variance that is taken for noise."""
    link: Link = field(default_factory=Link)
    optimism: Optimism = field(default_factory=Optimism)


class Bandit(eqx.Module):
    """What was asked for and what was learned; T is the capacity, E the number of members."""

    actions: Int[Array, "T I"]
    tried: Tried
    count: Int[Array, ""]
    """Rows in use."""
    asked: Int[Array, ""]
    drawn: Int[Array, ""]
    """Fresh samples taken so far."""
    members: Surrogate
    noises: Float[Array, " E"]
    """The mean squared error each member was left with."""
    seen: Int[Array, " E"]
    """How many values each member was fitted to."""
    key: UInt32[Array, " 2"]
    """Plain numbers, which files can hold and calls hand over sooner."""


class Answer(eqx.Module):
    """The next joint action to evaluate."""

    actions: Int[Array, " I"]
    row: Int[Array, ""]
    origin: Int[Array, ""]
    """PRIOR, SINGLE or PAIR, unless the row is an older one."""
    found: Bool[Array, ""]
    """False where no untried joint action came up."""


def new_bandit(key: PRNGKeyArray, num_agents: int, num_actions: int, capacity: int, rules: Rules) -> Bandit:
    """A bandit that knows nothing."""
    members_key, key = jax.random.split(key)
    keys = jax.random.split(members_key, rules.members)
    members = jax.vmap(lambda k: init_surrogate(k, num_agents, num_actions, rules.rank))(keys)
    if rules.members > 1:
        members = eqx.tree_at(lambda m: m.v, members, members.v.at[0].set(0.0))
    zero = jnp.zeros((), jnp.int32)
    return Bandit(
        actions=jnp.zeros((capacity, num_agents), jnp.int32),
        tried=nothing_tried(num_agents, num_actions, capacity),
        count=zero,
        asked=zero,
        drawn=zero,
        members=members,
        noises=jnp.ones(rules.members),
        seen=jnp.zeros(rules.members, jnp.int32),
        key=jax.random.key_data(key),
    )


def grown(bandit: Bandit, capacity: int) -> Bandit:
    """The same bandit with room for `capacity` joint actions."""
    more = capacity - bandit.actions.shape[0]
    actions = jnp.pad(bandit.actions, ((0, more), (0, 0)))
    return eqx.tree_at(lambda b: (b.actions, b.tried), bandit, (actions, with_room(bandit.tried, capacity)))


@partial(jax.jit, static_argnames=("rules",))
def ask(
    bandit: Bandit,
    values: Float[Array, " T"],
    weights: Float[Array, " T"],
    waiting: Bool[Array, " T"],
    legal: Bool[Array, "I A"],
    rules: Rules,
) -> tuple[Bandit, Answer]:
    """Choose the next joint action given all normalised values told so far (`weights` counts evaluations).

    Where noisy evaluations may be repeated, those still `waiting` for a value are not.
    """
    bandit, theta, noise = learn(bandit, values, weights, rules)
    standing = jnp.where(weights > 0, values, -jnp.inf)
    if rules.is_noisy:
        believed = jax.vmap(lambda actions: predict(theta, actions, rules.link))(bandit.actions)
        standing = jnp.where(weights > 0, (weights * values + believed) / (weights + 1.0), -jnp.inf)
    proposal = best_change(bandit, theta, noise, standing, legal, rules)
    is_uphill = (bandit.asked % 2 == 1) & (jnp.sum(weights > 0) >= rules.initial)
    wants_fresh = (jnp.sum(weights > 0) < rules.initial) | (proposal.value <= jnp.max(standing))
    fresh, fresh_is_new, drawn = jax.lax.cond(
        wants_fresh,
        lambda: fresh_sample(bandit, theta, legal, is_uphill),
        lambda: (proposal.actions, jnp.bool_(False), bandit.drawn),
    )
    is_fresh = wants_fresh & fresh_is_new
    again, again_value = worth_repeating(standing, weights, waiting, noise, rules)
    stays = rules.is_noisy & (again_value > proposal.value) & ~is_fresh
    actions = jnp.where(stays, bandit.actions[again], jnp.where(is_fresh, fresh, proposal.actions))
    row = jnp.where(stays, again, bandit.count)
    found = stays | is_fresh | jnp.isfinite(proposal.value)
    bandit = remember(bandit, actions, found & ~stays)
    bandit = eqx.tree_at(
        lambda b: (b.asked, b.drawn),
        bandit,
        (bandit.asked + 1, jnp.where(wants_fresh & ~stays, drawn, bandit.drawn)),
    )
    origin = jnp.where(is_fresh, PRIOR, proposal.origin)
    return bandit, Answer(actions, row, origin, found)


@partial(jax.jit, static_argnames=("rules", "count"))
def ask_many(
    bandit: Bandit,
    values: Float[Array, " T"],
    weights: Float[Array, " T"],
    waiting: Bool[Array, " T"],
    legal: Bool[Array, "I A"],
    rules: Rules,
    count: int,
) -> tuple[Bandit, Int[Array, "L J"]]:
    """The next `count` joint actions, each a row of J = I + 3 numbers, so that all travel as one array."""

    def one(carry: tuple[Bandit, Bool[Array, " T"]], _: None) -> tuple[tuple, Int[Array, " J"]]:
        bandit, answer = ask(carry[0], values, weights, carry[1], legal, rules)
        waiting = carry[1].at[answer.row].set(answer.found | carry[1][answer.row])
        packed = jnp.stack([answer.row, answer.origin, answer.found.astype(jnp.int32)])
        return (bandit, waiting), jnp.concatenate([answer.actions, packed])

    (bandit, _), answers = jax.lax.scan(one, (bandit, waiting), None, length=count)
    return bandit, answers


@jax.jit
def remember(bandit: Bandit, actions: Int[Array, " I"], is_new: Bool[Array, ""]) -> Bandit:
    """The bandit with one more row in use, where the joint action is new."""
    row = bandit.count
    added = bandit.actions.at[row].set(jnp.where(is_new, actions, bandit.actions[row]))
    tried = with_one_more(bandit.tried, actions, row, is_new)
    return eqx.tree_at(lambda b: (b.actions, b.tried, b.count), bandit, (added, tried, row + is_new))


def learn(
    bandit: Bandit, values: Float[Array, " T"], weights: Float[Array, " T"], rules: Rules
) -> tuple[Bandit, Surrogate, Float[Array, ""]]:
    """Refit the member whose turn it is, if it has not seen all values; also returns it and the noise it
    sees.

    Before there are as many values as directions not even the additive part is determined: member 0 has
    every turn.
    """
    told = jnp.sum(weights).astype(jnp.int32)
    num_directions = bandit.members.w[0].size
    is_additive = told < num_directions
    member = jnp.where(is_additive, 0, bandit.asked // TURN % rules.members)
    theta: Surrogate = jax.tree.map(lambda x: x[member], bandit.members)

    def refit() -> tuple[Surrogate, Float[Array, ""]]:
        ridge = Ridge(bandit.noises[member], rules.optimism.prior_w, rules.optimism.prior_v)
        fitted, noise = sweep(theta, History(bandit.actions, values, weights), rules.link, ridge)
        return fitted, jnp.maximum(noise, rules.noise_floor)

    is_stale = (bandit.seen[member] != told) & (is_additive | (bandit.asked % TURN == 0))
    theta, noise = jax.lax.cond(is_stale, refit, lambda: (theta, bandit.noises[member]))
    members = jax.tree.map(lambda all_, x: all_.at[member].set(x), bandit.members, theta)
    new = (members, bandit.noises.at[member].set(noise), bandit.seen.at[member].set(told))
    return eqx.tree_at(lambda b: (b.members, b.noises, b.seen), bandit, new), theta, noise


def best_change(
    bandit: Bandit,
    theta: Surrogate,
    noise: Float[Array, ""],
    standing: Float[Array, " T"],
    legal: Bool[Array, "I A"],
    rules: Rules,
) -> Proposal:
    """NonUCT over the best few joint actions."""
    variances = direction_variances(tries_of_actions(bandit.tried), noise, rules.optimism)
    best, rows = jax.lax.top_k(standing, rules.incumbents)

    def from_incumbent(row: Int[Array, ""], value: Float[Array, ""]) -> Proposal:
        return propose(
            theta, bandit.actions[row], value, variances, bandit.tried, legal, rules.link, rules.optimism
        )

    proposals = jax.vmap(from_incumbent)(rows, best)
    winner = jnp.argmax(proposals.value)
    return jax.tree.map(lambda x: x[winner], proposals)


def worth_repeating(
    standing: Float[Array, " T"],
    weights: Float[Array, " T"],
    waiting: Bool[Array, " T"],
    noise: Float[Array, ""],
    rules: Rules,
) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """The row whose next noisy evaluation promises most, and how much; −inf where none may be repeated."""
    optimistic = standing + rules.optimism.weight * jnp.sqrt(noise / jnp.maximum(weights, 1.0))
    optimistic = jnp.where(waiting, -jnp.inf, optimistic)
    row = jnp.argmax(optimistic)
    return row, optimistic[row]


def fresh_sample(
    bandit: Bandit, theta: Surrogate, legal: Bool[Array, "I A"], is_uphill: Bool[Array, ""]
) -> tuple[Int[Array, " I"], Bool[Array, ""], Int[Array, ""]]:
    """An untried joint action from a stream in which every A in a row hold each agent's actions once each.

    Where `is_uphill`, the first is led to a local maximum of η, if nobody has been there.
    """
    num_agents, num_actions = legal.shape
    table = hash_table(num_agents, num_actions)

    def is_new(actions: Int[Array, " I"]) -> Bool[Array, ""]:
        return ~is_known(bandit.tried, hash_actions(table, actions)[None])[0]

    def look(carry: tuple) -> tuple:
        actions = stratified_sample(bandit.key, bandit.drawn + carry[2], legal)
        return actions, is_new(actions), carry[2] + 1

    sample = stratified_sample(bandit.key, bandit.drawn, legal)
    # Two rounds over the agents, starting anywhere: the game gives their order no meaning.
    order = (jnp.arange(2 * num_agents) + bandit.asked) % num_agents
    sample = jnp.where(is_uphill, climb(theta, sample, order, legal), sample)
    start = (sample, is_new(sample), jnp.where(is_uphill, 0, 1))
    actions, found, looked_at = jax.lax.while_loop(
        lambda carry: ~carry[1] & (carry[2] < FRESH_TRIES), look, start
    )
    return actions, found, bandit.drawn + jnp.maximum(looked_at, 1)


def stratified_sample(
    key: UInt32[Array, " 2"], number: Int[Array, ""], legal: Bool[Array, "I A"]
) -> Int[Array, " I"]:
    """Number `number` of a stream of blocks of A, in each of which every agent walks a permutation."""
    num_agents, num_actions = legal.shape
    block = jax.random.fold_in(jax.random.wrap_key_data(key), number // num_actions)
    words = jax.random.bits(block, (num_agents, num_actions))
    places = jnp.argsort(words, axis=1)[:, number % num_actions]
    counts = legal.sum(axis=1)
    # The place-th legal action, places running round where an agent has fewer actions than others.
    ranks = jnp.cumsum(legal, axis=1) - 1
    return jnp.argmax(legal & (ranks == (places % counts)[:, None]), axis=1).astype(jnp.int32)


@partial(jax.jit, static_argnames=("rules",))
def believed_values(bandit: Bandit, rules: Rules) -> Float[Array, " T"]:
    """η of every joint action asked for, averaged over the members."""

    def predict_all(theta: Surrogate) -> Float[Array, " T"]:
        return jax.vmap(lambda actions: predict(theta, actions, rules.link))(bandit.actions)

    return jnp.mean(jax.vmap(predict_all)(bandit.members), axis=0)
