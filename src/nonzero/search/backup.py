"""Backup: the new leaf's value travels to the root, one level of the tree a turn, all batch rows at once.

OS(λ) needs, at each node on the path, the returns that passed through it grouped by the depth of their leaf.
Each node keeps them with a mark for those that count, so that one more return changes at most one other's
mark: O(S) a node.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
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

    def num_kept(self, count: Float[Array, "B"]) -> Float[Array, "B"]:
        """How many of `count` returns of one depth count; 1e-5 absorbs the rounding of m (1 - ρ)."""
        return jnp.maximum(1.0, jnp.ceil(count * (1.0 - self.rho) - 1e-5))


class Sums(eqx.Module):
    """The record of a node where every return counts."""

    weighted: Float[Array, "*BN"]
    weight: Float[Array, "*BN"]


class Returns(eqx.Module):
    """The record of a node where only the best returns count: the one of leaf l in column l."""

    value: Float[Array, "*BN L"]
    mark: Int[Array, "*BN L"]
    """ABSENT, DROPPED or KEPT."""


def new_record(
    rule: Averaging, value: Float[Array, "B"], index: Int[Array, ""] | int, num_nodes: int
) -> Sums | Returns:
    """The record of node `index` when only its own value passed through it, [B, ...]."""
    if rule.rho == 0:
        return Sums(value, jnp.ones_like(value))
    own = jnp.arange(num_nodes) == index
    values = jnp.where(own, value[:, None], 0.0)
    return Returns(values, jnp.broadcast_to(jnp.where(own, KEPT, ABSENT).astype(jnp.int8), values.shape))


def add_return(
    rule: Averaging,
    record: Sums | Returns,
    depths: Int[Array, "N B"],
    node: Int[Array, "B"],
    leaf: Int[Array, ""],
    levels: Int[Array, ""],
    value: Float[Array, "B"],
) -> tuple[Sums | Returns, Float[Array, "B"]]:
    """The record with a return `value` from `leaf`, `levels` below `node`, and the node's average [B]."""
    at = rows_of(node)
    if isinstance(record, Sums):
        gain = jnp.power(rule.lam, levels.astype(jnp.float32))
        record = Sums(record.weighted.at[at].add(gain * value), record.weight.at[at].add(gain))
        return record, record.weighted[at] / record.weight[at]
    values = record.value[at].at[:, leaf].set(value)
    marks = remark(rule, values, record.mark[at].at[:, leaf].set(DROPPED), depths[leaf][:, None] == depths.T)
    record = Returns(
        record.value.at[(*at, leaf)].set(value),
        record.mark.at[at].set(marks),
    )
    powers = jnp.asarray(np.power(rule.lam, np.arange(depths.shape[0])), jnp.float32)
    weights = jnp.where(marks == KEPT, powers[depths.T - depths[at][:, None]], 0.0)
    return record, jnp.sum(weights * values, axis=-1) / jnp.sum(weights, axis=-1)


def remark(
    rule: Averaging, values: Float[Array, "B L"], marks: Int[Array, "B L"], same_depth: Bool[Array, "B L"]
) -> Int[Array, "B L"]:
    """Marks of one node after a return came in as DROPPED, whose group is `same_depth`.

    Of the group's returns the largest dropped one moves up; if the group's quota did not grow, the smallest
    kept one then moves down.
    """
    dropped, kept = same_depth & (marks == DROPPED), same_depth & (marks == KEPT)
    num_kept = jnp.sum(kept, axis=-1)
    quota = rule.num_kept((num_kept + jnp.sum(dropped, axis=-1)).astype(jnp.float32))
    number = jnp.arange(values.shape[-1])
    best = jnp.argmax(jnp.where(dropped, values, -jnp.inf), axis=-1)[:, None]
    marks = jnp.where(number == best, KEPT, marks)
    worst = jnp.argmin(jnp.where(kept | (number == best), values, jnp.inf), axis=-1)[:, None]
    return jnp.where((number == worst) & (num_kept >= quota)[:, None], DROPPED, marks)


def backup(rule: Averaging, tree: Node, leaf: Int[Array, ""]) -> Node:
    """The tree after the value of the new node `leaf` reached the root of every batch row."""
    shown = tree.shown
    num_nodes, batch = shown.value.shape

    def level(carry: tuple) -> tuple:
        levels, node, gain, average, visits, q, values, record = carry
        at = rows_of(node)
        # Rows that are at the root already write out of bounds, which scatters ignore.
        above = jnp.where(node == ROOT, num_nodes, shown.parent[at])
        edge = (above, at[1], shown.slot[at])
        visits = visits.at[edge].add(1)
        q = q.at[edge].set(shown.reward[at] + shown.discount[at] * average)
        gain = shown.reward[at] + shown.discount[at] * gain
        record, average = add_return(rule, record, shown.depth, above, leaf, levels, gain)
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
