"""Backup: the new leaf's value travels to the root, several levels a turn, all batch rows at once.

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

from nonzero.search.tree import Node, fetch, flattened

ABSENT, DROPPED, KEPT = 0, 1, 2
LEVELS = 8
"""Levels a turn: on a CPU starting an operation takes longer than doing it for a few more levels."""


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
    same_depth: Bool[Array, "M L"],
    row: Int[Array, "M"],
    leaf: Int[Array, ""],
    levels: Int[Array, "M"],
    value: Float[Array, "M"],
) -> tuple[Record, Float[Array, "M"]]:
    """The records with a return `value` from `leaf`, `levels` below, added in M rows; the rows' averages.

    `record` has one row for each node of each tree; `same_depth` says which leaves are as deep as this one.
    Rows beyond the end are left out.
    """
    returns, marks, gain, more = record.returns, record.marks, value, jnp.ones_like(value)
    if rule.rho > 0:
        # Written before it is read: the other order would copy the whole record.
        returns = returns.at[row, leaf].set(value)
        gain, more, changes = rank(rule, fetch(returns, row), fetch(marks, row), same_depth, value)
        new_mark, other, other_mark = changes
        marks = marks.at[row, leaf].set(new_mark).at[row, other].set(other_mark)
    factor = jnp.power(rule.lam, levels.astype(jnp.float32))
    weighted, weight = record.weighted.at[row].add(factor * gain), record.weight.at[row].add(factor * more)
    return Record(weighted, weight, returns, marks), fetch(weighted, row) / fetch(weight, row)


def rank(
    rule: Averaging,
    returns: Float[Array, "M L"],
    marks: Int[Array, "M L"],
    same_depth: Bool[Array, "M L"],
    value: Float[Array, "M"],
) -> tuple[Float[Array, "M"], Float[Array, "M"], tuple]:
    """What one more return adds to the sum and to the number of those kept, and the marks that change.

    If the quota grows, the new one is kept or, if better, the best dropped one; if not, it takes the place of
    the worst kept one if it is better. The changes are its own mark, another's column (L for none) and that
    one's mark.
    """
    # One count tells both: of so many returns the quota was kept.
    count = jnp.sum(same_depth & (marks != ABSENT), axis=-1, dtype=jnp.int32)
    grows = rule.num_kept(1 + count) > jnp.where(count > 0, rule.num_kept(count), 0)
    sign = jnp.where(grows, 1.0, -1.0)
    wanted = jnp.where(grows, DROPPED, KEPT).astype(marks.dtype)
    is_rival = same_depth & (marks == wanted[:, None])
    best = jnp.max(jnp.where(is_rival, sign[:, None] * returns, -jnp.inf), axis=-1)
    swaps = best > sign * value
    rival = sign * best
    columns = jnp.arange(returns.shape[-1])
    is_other = is_rival & (returns == rival[:, None])
    other = jnp.min(jnp.where(is_other, columns, columns.size), axis=-1)
    gain = jnp.where(grows, jnp.maximum(value, rival), jnp.maximum(value - rival, 0.0))
    new_mark = jnp.where(grows != swaps, KEPT, DROPPED).astype(marks.dtype)
    other_mark = jnp.where(grows, KEPT, DROPPED).astype(marks.dtype)
    return gain, grows.astype(value.dtype), (new_mark, jnp.where(swaps, other, columns.size), other_mark)


def backup(
    rule: Averaging, tree: Node, leaf: Int[Array, ""], path: Int[Array, "N B"]
) -> tuple[Node, Float[Array, "B"]]:
    """The tree after the value of the new node `leaf` reached every row's root, and what arrived there.

    `path` has the rows that the descent to the leaf passed, by depth.
    """
    shown = tree.shown
    num_nodes, batch, num_slots = shown.visits.shape
    depth, value = shown.depth[leaf], shown.raw_value[leaf]
    trees = jnp.arange(batch)
    path = path.at[depth, trees].set(leaf * batch + trees)
    same_depth = jnp.tile((shown.depth == depth).T, (LEVELS, 1))
    slot, reward, discount = flattened((shown.slot, shown.reward, shown.discount))

    def turn(carry: tuple) -> tuple:
        number, gain, average, visits, q, values, record = carry
        depths = number * LEVELS + jnp.arange(LEVELS)
        is_above = depths[:, None] < depth
        # Where there is no such level, the row is out of bounds, which scatters ignore.
        row = jnp.where(is_above, fetch(path, depths), num_nodes * batch)
        child = fetch(path, depths + 1)
        step, share = fetch(reward, child), fetch(discount, child)
        gains = []
        for level in reversed(range(LEVELS)):
            gain = jnp.where(is_above[level], step[level] + share[level] * gain, gain)
            gains.insert(0, gain)
        levels = (depth - depths[:, None]).reshape(-1)
        record, averages = add_return(
            rule, record, same_depth, row.reshape(-1), leaf, levels, jnp.concatenate(gains)
        )
        averages = jnp.where(is_above, averages.reshape(row.shape), value)
        below = jnp.concatenate([averages[1:], average[None]])
        edge = jnp.where(is_above, row * num_slots + fetch(slot, child), visits.size)
        visits, q = visits.at[edge].add(1), q.at[edge].set(step + share * below)
        return number - 1, gain, averages[0], visits, q, values.at[row].set(averages), record

    stored = (shown.visits, shown.q, shown.value, tree.record)
    flat = (*(x.reshape(-1) for x in stored[:3]), flattened(tree.record))
    start = (jnp.max(depth - 1) // LEVELS, value, value, *flat)
    _, gain, _, *found = jax.lax.while_loop(lambda carry: carry[0] >= 0, turn, start)
    changed = jax.tree.map(lambda x, like: x.reshape(like.shape), tuple(found), stored)
    return eqx.tree_at(lambda t: (t.shown.visits, t.shown.q, t.shown.value, t.record), tree, changed), gain
