"""The search: for every simulation select, evaluate the model, expand, back up."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero.search import guide
from nonzero.search.backup import backup, new_record
from nonzero.search.check import check_arguments, check_result, check_root, check_step
from nonzero.search.expand import (
    Draws,
    dirichlet_noise,
    interior_policy,
    new_candidates,
    root_policy,
    simulation_draws,
)
from nonzero.search.gradient import GradientRule, supervise
from nonzero.search.presets import Rules
from nonzero.search.proposals import fill, learn
from nonzero.search.select import select
from nonzero.search.tree import ROOT, UNVISITED, Node, new_node, plant, rows_of, write
from nonzero.types import ModelOutputs, SearchResult, SearchTree

RecurrentFn = Callable[[Any, PRNGKeyArray, Int[Array, "B I"], Any], tuple[ModelOutputs, Any]]


def search(
    recurrent_fn: RecurrentFn,
    params: Any,
    root: tuple[ModelOutputs, Any],
    key: PRNGKeyArray,
    *,
    num_simulations: int,
    num_candidates: int,
    rules: Rules,
    legal: ArrayLike | None = None,
    dirichlet_fraction: ArrayLike = 0.25,
    dirichlet_alpha: ArrayLike = 0.3,
    temperature: ArrayLike = 1.0,
    is_exact: bool = True,
    keep_tree: bool = False,
) -> SearchResult:
    """Plan from a batch of roots with a model of the game, one tree for each.

    `recurrent_fn(params, key, actions [B, I], latent)` gives the next state's outputs and latent, a pytree of
    arrays [B, ...]; `root` is what the model says of the states to plan from, in the same form; `legal` [B,
    I, A] (default: all) holds at the root. At most `num_candidates` joint actions are looked at in a node.
    Where chance plays no part in an exact model's answers, one answer is the last word at the root; a learned
    model's (`is_exact` False) never is. It may be called inside jit; called outside, it also refuses what
    only values show: no legal action, NaN.
    """
    outputs, latent = jax.tree.map(jnp.asarray, root)
    legal = jnp.ones(outputs.policy_logits.shape, bool) if legal is None else jnp.asarray(legal, bool)
    num_slots = check_arguments(outputs, latent, legal, num_simulations, num_candidates, rules.expansion)
    check_root(outputs, legal, temperature)
    if not check_step(recurrent_fn, params, key, outputs, latent) and is_exact:
        rules = rules.without_chance()
    noise_key, key = jax.random.split(key)
    # Compiled on its own: it is large, and the same for all rules.
    noise = dirichlet_noise(noise_key, legal, jnp.float32(dirichlet_fraction), jnp.float32(dirichlet_alpha))
    result = _search(
        recurrent_fn,
        params,
        (outputs, latent),
        key,
        legal,
        noise,
        jnp.float32(temperature),
        num_simulations=num_simulations,
        num_slots=num_slots,
        rules=rules,
        keep_tree=keep_tree,
    )
    check_result(result)
    return result


@partial(jax.jit, static_argnames=("recurrent_fn", "num_simulations", "num_slots", "rules", "keep_tree"))
def _search(
    recurrent_fn: RecurrentFn,
    params: Any,
    root: tuple[ModelOutputs, Any],
    key: PRNGKeyArray,
    legal: Bool[Array, "B I A"],
    noise: Float[Array, "B I A"],
    temperature: Float[Array, ""],
    *,
    num_simulations: int,
    num_slots: int,
    rules: Rules,
    keep_tree: bool,
) -> SearchResult:
    """The compiled part of `search`."""
    batch, num_agents, _ = legal.shape
    num_nodes = num_simulations + 1
    action_key, key = jax.random.split(key)
    num_samples = rules.expansion.num_prior(num_slots)

    def draw(simulation: Int[Array, ""] | int) -> Draws:
        return simulation_draws(key, simulation, batch, num_samples, num_agents)

    # All at once: drawing one simulation's takes as long as drawing all of them.
    numbers = jax.vmap(draw)(jnp.arange(-1, num_simulations))
    policy = root_policy(rules.expansion, root[0].policy_logits, legal, noise)
    nowhere = jnp.full(batch, UNVISITED, jnp.int32)
    no, zero = jnp.zeros(batch, bool), jnp.zeros(batch)
    place = Place(nowhere, nowhere, jnp.zeros(batch, jnp.int32), no, zero, no)
    record = new_record(rules.averaging, root[0].value, ROOT, num_nodes)
    root_draws: Draws = jax.tree.map(lambda x: x[0], numbers)
    first = expand(rules, *root, Prior(policy, legal), root_draws, place, num_slots, record)
    tree = plant(first, num_nodes)
    guided = None if rules.guide is None else guide.start(rules.guide, root[0], legal, num_simulations)

    def simulate(simulation: Int[Array, ""], carry: tuple) -> tuple:
        tree, guided, is_finite = carry
        new, root_slot = simulation + 1, None
        draws: Draws = jax.tree.map(lambda x: x[new], numbers)
        if rules.guide is not None:
            tree, root_slot = guide.visit(rules.guide, guided, tree, draws.proposal)
        parent, slot, path = select(rules.selection, tree, draws.tie, root_slot)
        outputs, latent, prior, place = evaluate(recurrent_fn, params, rules, tree, parent, slot, draws.model)
        record = new_record(rules.averaging, outputs.value, new, num_nodes)
        leaf = expand(rules, outputs, latent, prior, draws, place, num_slots, record)
        tree, gain = backup(rules.averaging, link(write(tree, new, leaf), parent, slot, new), new, path)
        if rules.surrogate is not None:
            tree = learn(rules.surrogate, rules.widening, tree, new, draws.proposal)
        if isinstance(rules.surrogate, GradientRule) and rules.counterfactuals(num_agents):
            tree = supervise(rules.surrogate, recurrent_fn, params, tree, parent, new, draws.proposal)
        if rules.guide is not None:
            actions = tree.shown.candidates.actions[ROOT, jnp.arange(batch), root_slot]
            guided = guide.hear(rules.guide, guided, simulation, actions, leaf.shown.depth, gain)
        return tree, guided, is_finite & all_finite(outputs, prior.policy)

    start = (tree, guided, jnp.ones(batch, bool))
    tree, guided, is_finite = jax.lax.fori_loop(0, num_simulations, simulate, start)
    eta = None
    if rules.guide is not None:
        candidates = jax.tree.map(lambda x: x[ROOT], tree.shown.candidates)
        eta = guide.eta(rules.guide, guided, candidates)
        # The tree counts only what hangs in it: not what was given up, nor earlier answers of the model.
        visits, q = guide.tally(guided, candidates)
        counted = (tree.shown.visits.at[ROOT].set(visits), tree.shown.q.at[ROOT].set(q))
        tree = eqx.tree_at(lambda t: (t.shown.visits, t.shown.q), tree, counted)
    evaluations = num_simulations * (1 + 3 * rules.counterfactuals(num_agents))
    sizes = (num_simulations, evaluations)
    return summary(tree.shown, eta, action_key, temperature, is_finite, sizes, keep_tree)


class Prior(NamedTuple):
    """The distribution that candidates come from, and the actions that they may use."""

    policy: Float[Array, "B I A"]
    possible: Bool[Array, "B I A"]


class Place(NamedTuple):
    """Where a new node hangs in the tree."""

    parent: Int[Array, "B"]
    slot: Int[Array, "B"]
    depth: Int[Array, "B"]
    ended: Bool[Array, "B"]
    base: Float[Array, "B"]
    is_counted: Bool[Array, "B"]


def evaluate(
    recurrent_fn: RecurrentFn,
    params: Any,
    rules: Rules,
    tree: Node,
    parent: Int[Array, "B"],
    slot: Int[Array, "B"],
    key: PRNGKeyArray,
) -> tuple[ModelOutputs, Any, Prior, Place]:
    """What the model says of each row's step into `slot` of `parent`."""
    at = rows_of(parent)
    actions = tree.shown.candidates.actions[(*at, slot)]
    outputs, latent = recurrent_fn(params, key, actions, jax.tree.map(lambda x: x[at], tree.latent))
    was_over = tree.shown.ended[at]
    discount = jnp.where(was_over, 0.0, outputs.discount)
    ended = discount == 0
    # What a model says of states past the end is noise: they are worth nothing, whatever it says.
    outputs = ModelOutputs(
        policy_logits=jnp.where(ended[:, None, None], 0.0, outputs.policy_logits),
        value=jnp.where(ended, 0.0, outputs.value),
        reward=jnp.where(was_over, 0.0, outputs.reward),
        discount=discount,
        surrogate=outputs.surrogate,
    )
    prior = Prior(*interior_policy(rules.expansion, outputs.policy_logits))
    place = Place(parent, slot, tree.shown.depth[at] + 1, ended, tree.shown.raw_value[at], ~was_over)
    return outputs, latent, prior, place


def expand(
    rules: Rules,
    outputs: ModelOutputs,
    latent: Any,
    prior: Prior,
    draws: Draws,
    place: Place,
    num_slots: int,
    record: Any,
) -> Node:
    """The new node of each row with its candidates."""
    candidates = new_candidates(rules.expansion, *prior, draws.sampling, num_slots)
    extra = {}
    if rules.surrogate is not None:
        theta = rules.surrogate.initial(outputs, prior.possible)
        if rules.widening is not None:
            limit = min(rules.widening.start, num_slots)
            candidates = fill(rules.surrogate, theta, candidates, prior.possible, limit, draws.proposal)
            extra["possible"] = prior.possible
        extra |= {"theta": theta, "eta": rules.surrogate.score(theta, candidates.actions)}
    return new_node(
        outputs,
        latent,
        candidates,
        record,
        **place._asdict(),
        **extra,
    )


def link(tree: Node, parent: Int[Array, "B"], slot: Int[Array, "B"], child: Int[Array, ""]) -> Node:
    """The tree with `child` hanging at each row's `parent` and `slot`."""
    children = tree.shown.children.at[(*rows_of(parent), slot)].set(child)
    return eqx.tree_at(lambda t: t.shown.children, tree, children)


def all_finite(outputs: ModelOutputs, policy: Float[Array, "B I A"]) -> Bool[Array, "B"]:
    """Whether a step's outputs are numbers, [B]; logits of minus infinity are."""
    numbers = outputs.value + outputs.reward + outputs.discount + jnp.sum(policy, axis=(1, 2))
    return jnp.isfinite(numbers)


def summary(
    tree: SearchTree,
    eta: Float[Array, "B K"] | None,
    key: PRNGKeyArray,
    temperature: Float[Array, ""],
    is_finite: Bool[Array, "B"],
    sizes: tuple[int, int],
    keep_tree: bool,
) -> SearchResult:
    """What the finished trees say of their roots, with an action drawn by visits ** (1 / temperature).

    Where the root has a surrogate, temperature 0 takes the visited candidate of the best η, not the most
    visited one: η weighs all returns, and a candidate that came late has few visits.
    """
    root: SearchTree = jax.tree.map(lambda x: x[ROOT], tree)
    share = root.visits / jnp.sum(root.visits, axis=-1, keepdims=True)
    # Relative to the most visited, so that a temperature near 0 leaves log 1 = 0 for it and no overflow.
    logits = jnp.log(root.visits / jnp.max(root.visits, axis=-1, keepdims=True))
    logits = jnp.where(root.visits > 0, logits / jnp.maximum(temperature, 1e-6), -jnp.inf)
    slot = jax.random.categorical(key, logits)
    if eta is not None:
        best = jnp.argmax(jnp.where(root.visits > 0, eta, -jnp.inf), axis=-1)
        slot = jnp.where(temperature == 0, best, slot)
    return SearchResult(
        action=root.candidates.actions[jnp.arange(slot.shape[0]), slot],
        candidates=root.candidates,
        visits=root.visits,
        weights=share,
        q=root.q,
        value=root.value,
        eta=eta,
        is_finite=is_finite,
        tree=jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), tree) if keep_tree else None,
        simulations=sizes[0],
        model_evaluations=sizes[1],
    )
