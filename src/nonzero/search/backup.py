"""Backup: the new leaf's value travels to the root, one level of the tree a turn, all batch rows at once.

OS(λ) needs, at each node on the path, the returns that passed through it grouped by the depth of their leaf.
Each node keeps them with a mark for those that count, so that one more return changes at most one other's
mark: O(S) a node.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from nonzero.search.tree import ROOT, Node, rows_of

ABSENT, DROPPED, KEPT = 0, 1, 2


@dataclass(frozen=True)
class Averaging:
    """OS(λ): of a node's returns keep at each depth the best share 1 - ρ, at least one, weighted λ^depth.

    ρ = 0, λ = 1 is the plain mean.
    """

    rho: float = 0.0
    lam: float = 1.0

    def num_kept(self, count: Int[Array, "B"]) -> Int[Array, "B"]:
        """How many of `count` returns of one depth are kept; 1e-5 absorbs the rounding of m (1 - ρ)."""
        return jnp.maximum(1, jnp.ceil(count * (1.0 - self.rho) - 1e-5).astype(jnp.int32))


class Record(eqx.Module):
    """What a node remembers of the returns that passed through it."""

    weighted: Float[Array, "*BN"]
    """Sum of λ^depth times the return over the kept ones."""
    weight: Float[Array, "*BN"]
    """Sum of λ^depth over the kept ones."""
    returns: Any
    """The return of leaf l in column l, [*BN, L]; None where all are kept."""
    marks: Any
    """ABSENT, DROPPED or KEPT, [*BN, L]."""


def new_record(
    rule: Averaging, value: Float[Array, "B"], index: Int[Array, ""] | int, num_nodes: int
) -> Record:
    """The record of node `index` when only its own value passed through it, [B, ...]."""
    if rule.rho == 0:
        return Record(value, jnp.ones_like(value), None, None)
    own = jnp.arange(num_nodes) == index
    returns = jnp.where(own, value[:, None], 0.0)
    marks = jnp.broadcast_to(jnp.where(own, KEPT, ABSENT).astype(jnp.int8), returns.shape)
    return Record(value, jnp.ones_like(value), returns, marks)


def add_return(
    rule: Averaging,
    record: Record,
    same_depth: Bool[Array, "B L"],
    node: Int[Array, "B"],
    leaf: Int[Array, ""],
    levels: Int[Array, ""],
    value: Float[Array, "B"],
) -> tuple[Record, Float[Array, "B"]]:
    """The record with a return `value` from `leaf`, `levels` below `node`, and the node's average [B].

    `same_depth` says which leaves are as deep as this one.
    """
    at = rows_of(node)
    returns, marks, gain, more = record.returns, record.marks, value, jnp.ones_like(value)
    if rule.rho > 0:
        # Written before it is read: the other order would copy the whole record.
        returns = returns.at[(*at, leaf)].set(value)
        gain, more, changes = rank(rule, returns[at], marks[at], same_depth, value)
        new_mark, other, other_mark = changes
        marks = marks.at[(*at, leaf)].set(new_mark).at[(*at, other)].set(other_mark)
    factor = jnp.power(rule.lam, levels.astype(jnp.float32))
    weighted, weight = record.weighted.at[at].add(factor * gain), record.weight.at[at].add(factor * more)
    return Record(weighted, weight, returns, marks), weighted[at] / weight[at]


def rank(
    rule: Averaging,
    returns: Float[Array, "B L"],
    marks: Int[Array, "B L"],
    same_depth: Bool[Array, "B L"],
    value: Float[Array, "B"],
) -> tuple[Float[Array, "B"], Float[Array, "B"], tuple]:
    """What one more return adds to the sum and to the number of those kept, and the marks that change.

    If the quota grows, the new one is kept or, if better, the best dropped one; if not, it takes the place of
    the worst kept one if it is better. The changes are its own mark, another's column (L for none) and that
    one's mark.
    """
    present, kept = same_depth & (marks != ABSENT), same_depth & (marks == KEPT)
    num_kept = jnp.sum(kept, axis=-1, dtype=jnp.int32)
    grows = rule.num_kept(1 + jnp.sum(present, axis=-1, dtype=jnp.int32)) > num_kept
    sign = jnp.where(grows, 1.0, -1.0)
    rivals = jnp.where(present & (kept != grows[:, None]), sign[:, None] * returns, -jnp.inf)
    best = jnp.max(rivals, axis=-1)
    swaps = best > sign * value
    columns = jnp.arange(returns.shape[-1])
    other = jnp.min(jnp.where(rivals == best[:, None], columns, columns.size), axis=-1)
    rival = sign * best
    gain = jnp.where(grows, jnp.maximum(value, rival), jnp.maximum(value - rival, 0.0))
    new_mark = jnp.where(grows != swaps, KEPT, DROPPED).astype(marks.dtype)
    other_mark = jnp.where(grows, KEPT, DROPPED).astype(marks.dtype)
    return gain, grows.astype(value.dtype), (new_mark, jnp.where(swaps, other, columns.size), other_mark)


def backup(rule: Averaging, tree: Node, leaf: Int[Array, ""]) -> Node:
    """The tree after the value of the new node `leaf` reached the root of every batch row."""
    shown = tree.shown
    num_nodes, batch = shown.value.shape
    same_depth = (shown.depth == shown.depth[leaf]).T

    def level(carry: tuple) -> tuple:
        levels, node, gain, average, visits, q, values, record = carry
        at = rows_of(node)
        # Rows that are at the root already write out of bounds, which scatters ignore.
        above = jnp.where(node == ROOT, num_nodes, shown.parent[at])
        edge = (above, at[1], shown.slot[at])
        visits = visits.at[edge].add(1)
        q = q.at[edge].set(shown.reward[at] + shown.discount[at] * average)
        gain = shown.reward[at] + shown.discount[at] * gain
        record, average = add_return(rule, record, same_depth, above, leaf, levels, gain)
        values = values.at[rows_of(above)].set(average)
        return levels + 1, jnp.where(node == ROOT, ROOT, above), gain, average, visits, q, values, record

    value = shown.raw_value[leaf]
    start = (
        jnp.int32(1),
        jnp.full(batch, leaf),
        value,
        value,
        shown.visits,
        shown.q,
        shown.value,
        tree.record,
    )
    *_, visits, q, values, record = jax.lax.while_loop(lambda carry: jnp.any(carry[1] != ROOT), level, start)
    return eqx.tree_at(
        lambda t: (t.shown.visits, t.shown.q, t.shown.value, t.record), tree, (visits, q, values, record)
    )
