"""Selection: from the root down to the first slot that was never visited, all batch rows in lockstep.

The loop carries a node, a slot and a depth for each row and reads the tree from outside: a loop that carried
the tree would copy it at every step.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from nonzero.search.tree import ROOT, UNVISITED, Node, fetch, flattened
from nonzero.types import SearchTree

GOLDEN = 0.6180340


@dataclass(frozen=True)
class Selection:
    """How a node chooses among its candidates: normalised worth plus exploration bound (pUCT)."""

    worth: Literal["q", "advantage"] = "q"
    """Q, an unvisited candidate counting as the worst; or Q minus the model's value, it counting as 0."""
    normalise: Literal["tree", "siblings"] = "tree"
    """Min-max over all visited nodes of the tree, or over the node's own candidates and its value."""
    least_span: float = 0.01
    """The least denominator of the min-max normalisation."""
    prior: Literal["policy", "uniform"] = "policy"
    exploration: float = 1.0
    """Factor on the whole bound."""
    bound_init: float = 1.25
    bound_base: float = 19652.0
    counts_own_visit: bool = False
    """Whether the parent's count N in the bound includes the visit that created it."""
    tries_root_in_order: bool = True
    """Every root slot once, in order, before any score counts."""
    tie_tolerance: float = 1e-6
    """Scores this close are drawn at random; at 0 the first of equals is taken."""
    kappa: float = 0.0
    """Visits that the surrogate's η is worth: 0 ignores it, infinity ignores the search's own mean."""


Bounds = tuple[Float[Array, "B"], Float[Array, "B"]]


def tree_bounds(rule: Selection, tree: Node) -> Bounds:
    """The least and the largest worth of the visited nodes of each tree, [B] each."""
    worth = tree.shown.reward + tree.shown.discount * tree.shown.value
    worth = worth - tree.base if rule.worth == "advantage" else worth
    low = jnp.min(jnp.where(tree.is_counted, worth, jnp.inf), axis=0)
    high = jnp.max(jnp.where(tree.is_counted, worth, -jnp.inf), axis=0)
    none = low > high
    return jnp.where(none, 0.0, low), jnp.where(none, 0.0, high)


def scores(rule: Selection, node: SearchTree, bounds: Bounds | None) -> Float[Array, "B K"]:
    """The selection score of each slot of one node a tree, [B, K]; an empty slot's is minus infinity."""
    filled = node.candidates.filled
    visits = node.visits.astype(jnp.float32)
    total = jnp.sum(visits, axis=-1, keepdims=True) + rule.counts_own_visit
    if rule.prior == "policy":
        prior = node.candidates.prior
    else:
        prior = 1.0 / jnp.maximum(jnp.sum(filled, axis=-1, keepdims=True), 1)
    growth = jnp.log((total + rule.bound_base + 1.0) / rule.bound_base) + rule.bound_init
    bound = rule.exploration * growth * prior * jnp.sqrt(total) / (1.0 + visits)
    return jnp.where(filled, normalised_worth(rule, node, visits, bounds) + bound, -jnp.inf)


def normalised_worth(
    rule: Selection, node: SearchTree, visits: Float[Array, "B K"], bounds: Bounds | None
) -> Float[Array, "B K"]:
    """The worth of every slot scaled to [0, 1], [B, K]; Q̃ = (N Q + κ η) / (N + κ) where κ > 0."""
    known, q = visits > 0, node.q
    base = node.raw_value[:, None] if rule.worth == "advantage" else jnp.zeros(())
    if bounds is None:
        value = node.value[:, None]
        low = jnp.minimum(value, jnp.min(jnp.where(known, q, jnp.inf), axis=-1, keepdims=True)) - base
        high = jnp.maximum(value, jnp.max(jnp.where(known, q, -jnp.inf), axis=-1, keepdims=True)) - base
    else:
        low, high = bounds[0][:, None], bounds[1][:, None]
    if rule.kappa > 0 and node.eta is not None:
        eta = node.eta
        mixed = eta if rule.kappa == float("inf") else (visits * q + rule.kappa * eta) / (visits + rule.kappa)
        worth = mixed - base
    else:
        worth = jnp.where(known, q - base, 0.0 if rule.worth == "advantage" else low)
    return jnp.clip((worth - low) / jnp.maximum(high - low, rule.least_span), 0.0, 1.0)


def choose(
    rule: Selection, score: Float[Array, "B K"], tie_draw: Float[Array, "B"] | Float[Array, ""]
) -> Int[Array, "B"]:
    """The slot of the best score; among ties the one that `tie_draw` in [0, 1) points at."""
    if rule.tie_tolerance == 0:
        return jnp.argmax(score, axis=-1).astype(jnp.int32)
    tied = score >= jnp.max(score, axis=-1, keepdims=True) - rule.tie_tolerance
    rank = jnp.cumsum(tied, axis=-1)
    wanted = 1 + jnp.floor(tie_draw[..., None] * rank[:, -1:]).astype(rank.dtype)
    return jnp.sum(rank < jnp.minimum(wanted, rank[:, -1:]), axis=-1, dtype=jnp.int32)


def untried_root_slot(tree: SearchTree) -> tuple[Bool[Array, "B"], Int[Array, "B"]]:
    """Whether the root has a filled slot without visits, and the first such slot."""
    untried = tree.candidates.filled[ROOT] & (tree.visits[ROOT] == 0)
    return jnp.any(untried, axis=-1), jnp.argmax(untried, axis=-1).astype(jnp.int32)


def select(
    rule: Selection, growing: Node, tie_draw: Float[Array, "B"], root_slot: Int[Array, "B"] | None = None
) -> tuple[Int[Array, "B"], Int[Array, "B"], Int[Array, "N B"]]:
    """The node and its unvisited slot at which each row's simulation leaves the tree, and the way there.

    `root_slot` is where it leaves the root, if that is decided already. The way is the rows (see `flattened`)
    that the descent passed, by depth; below the node they mean nothing.
    """
    tree = growing.shown
    bounds = tree_bounds(rule, growing) if rule.normalise == "tree" else None
    has_untried, untried = untried_root_slot(tree)
    num_nodes, batch, num_slots = tree.visits.shape
    trees = jnp.arange(batch)
    flat: SearchTree = flattened(tree)

    def step(carry: tuple) -> tuple:
        row, slot, depth, moving, path = carry
        path = path.at[depth].set(row)
        # One draw serves a whole descent: golden-ratio steps decorrelate it from depth to depth.
        draw = jnp.mod(tie_draw + depth * GOLDEN, 1.0)
        node: SearchTree = jax.tree.map(lambda x: fetch(x, row), flat)
        best = choose(rule, scores(rule, node, bounds), draw)
        if root_slot is not None:
            best = jnp.where(row < batch, root_slot, best)
        elif rule.tries_root_in_order:
            best = jnp.where((row < batch) & has_untried, untried, best)
        child = jnp.sum(jnp.where(jnp.arange(num_slots) == best[:, None], node.children, 0), axis=-1)
        slot = jnp.where(moving, best, slot)
        moving = moving & (child != UNVISITED)
        return jnp.where(moving, child * batch + trees, row), slot, depth + 1, moving, path

    path = jnp.zeros((num_nodes, batch), jnp.int32)
    start = (trees, jnp.zeros(batch, jnp.int32), jnp.int32(0), jnp.ones(batch, bool), path)
    row, slot, _, _, path = jax.lax.while_loop(lambda carry: jnp.any(carry[3]), step, start)
    return row // batch, slot, path
