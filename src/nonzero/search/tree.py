"""The tree while it grows: node first, [N, B, ...], so that adding a node is one contiguous write."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from nonzero.types import Candidates, ModelOutputs, SearchTree

ROOT = 0
UNVISITED = -1


class Node(eqx.Module):
    """Everything stored for a node; the growing tree is the same with a leading axis N on every array."""

    shown: SearchTree
    latent: Any
    record: Any
    """What the averaging rule remembers of the returns that passed through."""
    base: Float[Array, "*BN"]
    """The parent's own value, from which an advantage is measured."""
    is_counted: Bool[Array, "*BN"]
    """Whether Q into this node counts in the tree's normalisation: it is no root, and not past the end."""
    possible: Any
    """Actions that proposals may use [*BN, I, A]; kept only where there are proposals."""
    theta: Any
    """The surrogate's parameters, where there is one."""


def new_node(
    outputs: ModelOutputs,
    latent: Any,
    candidates: Candidates,
    record: Any,
    *,
    parent: Int[Array, "B"],
    slot: Int[Array, "B"],
    depth: Int[Array, "B"],
    ended: Bool[Array, "B"],
    base: Float[Array, "B"],
    is_counted: Bool[Array, "B"],
    possible: Bool[Array, "B I A"] | None = None,
    theta: Any = None,
    eta: Float[Array, "B K"] | None = None,
) -> Node:
    """A node without visits, [B, ...]."""
    edges = candidates.filled.shape
    shown = SearchTree(
        candidates=candidates,
        visits=jnp.zeros(edges, jnp.int32),
        q=jnp.zeros(edges),
        children=jnp.full(edges, UNVISITED, jnp.int32),
        parent=parent,
        slot=slot,
        depth=depth,
        reward=outputs.reward,
        discount=outputs.discount,
        ended=ended,
        raw_value=outputs.value,
        value=outputs.value,
        eta=eta,
    )
    return Node(shown, latent, record, base, is_counted, possible, theta)


def plant(root: Node, num_nodes: int) -> Node:
    """A tree of `num_nodes` nodes, [N, B, ...], that holds the root alone."""
    empty = jax.tree.map(lambda x: jnp.zeros((num_nodes, *x.shape), x.dtype), root)
    children = jnp.full(empty.shown.children.shape, UNVISITED)
    empty = eqx.tree_at(lambda tree: tree.shown.children, empty, children)
    return write(empty, jnp.int32(ROOT), root)


def write(tree: Node, index: Int[Array, ""], node: Node) -> Node:
    """The tree with the new `node` [B, ...] as number `index` of every batch row."""
    written = jax.tree.map(
        lambda stack, x: jax.lax.dynamic_update_index_in_dim(stack, x.astype(stack.dtype), index, 0),
        tree,
        node,
    )
    # What the tree was planted with; writing it again would make the compiler copy these arrays.
    return eqx.tree_at(edge_statistics, written, edge_statistics(tree))


def edge_statistics(tree: Node) -> tuple[Any, Any, Any]:
    """The arrays that are the same in every new node."""
    return tree.shown.visits, tree.shown.q, tree.shown.children


def rows_of(nodes: Int[Array, "B"]) -> tuple[Int[Array, "B"], Int[Array, "B"]]:
    """The index that picks one node for each batch row out of an array [N, B, ...]."""
    return nodes, jnp.arange(nodes.shape[0])


def flattened(stacks: Any) -> Any:
    """Arrays [N, B, ...] as [N * B, ...]: node n of tree b is row n * B + b.

    One number as an index costs a loop that picks a node at a time half of what a pair costs.
    """
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), stacks)


def fetch(stack: Array, row: Int[Array, "..."]) -> Array:
    """The rows at indices that are never negative; beyond the end it is the last."""
    return stack.at[row].get(mode="clip", wrap_negative_indices=False)
