"""The seam for a bandit at each node: it scores candidates, learns from every backup and proposes others.

The search knows nothing of its parameters θ but that they are a pytree with leading axes [N, B]. Without a
bandit none of this is computed or stored.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero.search.tree import ROOT, Node, rows_of
from nonzero.types import Candidates, ModelOutputs


class Proposal(NamedTuple):
    """One new joint action a row: where `found`, it is possible and no candidate yet."""

    actions: Int[Array, "B I"]
    origin: Int[Array, "B"]
    found: Bool[Array, "B"]


@runtime_checkable
class SurrogateRule(Protocol):
    """A bandit over joint actions as pure functions of θ, batch first; hashable, being a static argument."""

    def initial(self, outputs: ModelOutputs, possible: Bool[Array, "B I A"]) -> Any:
        """θ of a new node, a pytree [B, ...]."""
        ...

    def score(self, theta: Any, actions: Int[Array, "B K I"]) -> Float[Array, "B K"]:
        """η of joint actions, on the scale of Q."""
        ...

    def update(self, theta: Any, actions: Int[Array, "B I"], q: Float[Array, "B"]) -> Any:
        """θ after the search thinks `q` of `actions`."""
        ...

    def propose(
        self,
        theta: Any,
        candidates: Candidates,
        visits: Int[Array, "B K"],
        possible: Bool[Array, "B I A"],
        key: PRNGKeyArray,
    ) -> Proposal:
        """The most promising joint action that is no candidate yet."""
        ...


@dataclass(frozen=True)
class Widening:
    """How many candidates a node may have after N visits: start + rate * N ** power, at most K."""

    start: int
    rate: float
    power: float = 0.5

    def limit(self, visits: Int[Array, "B"]) -> Float[Array, "B"]:
        """The limit at each of `visits`."""
        return self.start + jnp.floor(self.rate * visits.astype(jnp.float32) ** self.power)


def admit(candidates: Candidates, proposal: Proposal, wanted: Bool[Array, "B"]) -> Candidates:
    """The candidates with the proposal in the first empty slot of each row that wants one and has room."""
    num_slots = candidates.filled.shape[-1]
    empty = ~candidates.filled
    first = jnp.argmax(empty, axis=-1)
    use = (wanted & proposal.found & jnp.any(empty, axis=-1))[:, None]
    here = use & (jnp.arange(num_slots) == first[:, None])
    # A proposal weighs in the bound as if the prior had been sampled once more and had hit it.
    return Candidates(
        actions=jnp.where(here[..., None], proposal.actions[:, None], candidates.actions),
        prior=jnp.where(here, 1.0 / num_slots, candidates.prior),
        filled=candidates.filled | here,
        origin=jnp.where(here, proposal.origin[:, None].astype(jnp.int8), candidates.origin),
    )


def fill(
    rule: SurrogateRule,
    theta: Any,
    candidates: Candidates,
    possible: Bool[Array, "B I A"],
    limit: int,
    key: PRNGKeyArray,
) -> Candidates:
    """A new node's candidates after proposals brought their number up to `limit`, where there are as many."""
    visits = jnp.zeros(candidates.filled.shape, jnp.int32)
    for number in range(limit):
        proposal = rule.propose(theta, candidates, visits, possible, jax.random.fold_in(key, number))
        wanted = jnp.sum(candidates.filled, axis=-1) < limit
        candidates = admit(candidates, proposal, wanted)
    return candidates


def learn(
    rule: SurrogateRule, widening: Widening | None, tree: Node, leaf: Int[Array, ""], key: PRNGKeyArray
) -> Node:
    """The tree after the nodes above `leaf` learned, scored anew and perhaps took a proposal in."""
    shown = tree.shown
    num_nodes = shown.value.shape[0]

    def level(carry: tuple) -> tuple:
        node, slot, theta, eta, candidates, key = carry
        at = rows_of(node)
        key, proposal_key = jax.random.split(key)
        mine: Candidates = jax.tree.map(lambda x: x[at], candidates)
        taken = mine.actions[at[1], slot]
        learned = rule.update(jax.tree.map(lambda x: x[at], theta), taken, shown.q[(*at, slot)])
        if widening is not None:
            visits = shown.visits[at]
            limit = widening.limit(jnp.sum(visits, axis=-1))
            wanted = (node < num_nodes) & (jnp.sum(mine.filled, axis=-1) < limit)
            mine = jax.lax.cond(
                jnp.any(wanted & ~jnp.all(mine.filled, axis=-1)),
                lambda: admit(
                    mine, rule.propose(learned, mine, visits, tree.possible[at], proposal_key), wanted
                ),
                lambda: mine,
            )
            candidates = jax.tree.map(lambda x, new: x.at[at].set(new), candidates, mine)
        theta = jax.tree.map(lambda x, new: x.at[at].set(new), theta, learned)
        eta = eta.at[at].set(rule.score(learned, mine.actions))
        passed = (node == ROOT) | (node == num_nodes)
        return jnp.where(passed, num_nodes, shown.parent[at]), shown.slot[at], theta, eta, candidates, key

    start = (shown.parent[leaf], shown.slot[leaf], tree.theta, shown.eta, shown.candidates, key)
    _, _, theta, eta, candidates, _ = jax.lax.while_loop(
        lambda carry: jnp.any(carry[0] < num_nodes), level, start
    )
    return eqx.tree_at(lambda t: (t.theta, t.shown.eta, t.shown.candidates), tree, (theta, eta, candidates))
