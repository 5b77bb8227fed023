"""The surrogates of the plain search: the bandit at its root, and θ at every node.

What is compiled for batches is asked for batches of one; when it is asked, and what follows, is plain here.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from nonzero.search import guide as root_guide
from nonzero.search.gradient import GradientRule, changed, random_directions
from nonzero.search.guide import Guide, start
from nonzero.search.presets import Rules
from nonzero.search.reference_tree import Node, Said, Step
from nonzero.surrogate.predictor import Counterfactuals, Directions
from nonzero.types import Candidates, ModelOutputs

decide = jax.jit(root_guide.decide, static_argnums=0)
hear = jax.jit(root_guide.hear, static_argnums=0)
eta_of = jax.jit(root_guide.eta, static_argnums=0)


def compiled_method(name: str) -> Callable:
    """A method of a surrogate rule as a compiled function of the rule and the method's arguments."""
    return jax.jit(lambda rule, *arguments: getattr(rule, name)(*arguments), static_argnums=0)


initial_by, score_by, update_by = (compiled_method(name) for name in ("initial", "score", "update"))
propose_by, teach_by = (compiled_method(name) for name in ("propose", "teach"))


class Memory:
    """The bandit at the root, where the rules have one."""

    def __init__(self, guide: Guide, root: Said, legal: np.ndarray, num_simulations: int) -> None:
        self._guide = guide
        self._guided = start(guide, batched(root), jnp.asarray(legal)[None], num_simulations)
        self._heard: list[tuple[list[int], float]] = []

    def visit(self, root: Node, key: PRNGKeyArray) -> int:
        """The slot that the next simulation goes through, with a change in it where one is worth a try."""
        untried = np.flatnonzero(root.filled & (root.visits == 0))
        choice = decide(self._guide, self._guided, candidates_of(root), key)
        worth = np.asarray(choice.worth[0])
        best = int(np.argmax(np.where(root.filled, worth, -np.inf)))
        rivals = [slot for slot in range(len(worth)) if slot != best]
        slot = int(untried[0]) if len(untried) else int(choice.slot[0])
        if choice.gain[0] > self._guide.least_gain and not len(untried) and rivals:
            slot = min(rivals, key=lambda k: worth[k] if root.filled[k] else -np.inf)
            root.actions[slot], root.origin[slot] = choice.actions[0], choice.origin[0]
            root.filled[slot], root.prior[slot] = True, 1.0 / len(root.filled)
            root.visits[slot], root.q[slot] = 0, 0.0
        if root.visits[slot] < self._guide.asks_anew:
            root.children[slot] = None
        return slot

    def hear(self, simulation: int, actions: np.ndarray, depth: int, gain: float) -> None:
        """Remember the return of a simulation that began with `actions`."""
        self._heard.append((actions.tolist(), gain))
        said = (jnp.asarray(actions, jnp.int32), jnp.int32(depth), jnp.float32(gain))
        self._guided = hear(self._guide, self._guided, simulation, *(x[None] for x in said))

    def conclude(self, root: Node) -> None:
        """Give the root's candidates η, and the number and the mean of all returns that began with them."""
        root.eta = np.asarray(eta_of(self._guide, self._guided, candidates_of(root))[0])
        for slot, actions in enumerate(root.actions.tolist()):
            gains = [gain for heard, gain in self._heard if heard == actions and root.filled[slot]]
            root.visits[slot], root.q[slot] = len(gains), np.mean(gains) if gains else 0.0


def candidates_of(node: Node) -> Candidates:
    """A node's candidates as a batch of one."""
    fields = (node.actions.astype(np.int32), node.prior, node.filled, node.origin)
    return Candidates(*(jnp.asarray(x)[None] for x in fields))


def batched(said: Said) -> ModelOutputs:
    """What was said, as a batch of one."""
    numbers = (
        jnp.asarray([x], jnp.float32) for x in (said.policy_logits, said.value, said.reward, said.discount)
    )
    theta = jax.tree.map(lambda x: jnp.asarray(x)[None], said.surrogate)
    return ModelOutputs(*numbers, surrogate=theta)


def equip(rules: Rules, node: Node, key: PRNGKeyArray) -> None:
    """Give a new node its θ, its first proposals and η, where the rules have a surrogate."""
    if rules.surrogate is None:
        return
    said, possible = batched(node.said), jnp.asarray(node.possible)[None]
    node.theta = initial_by(rules.surrogate, said, possible)
    if rules.widening is not None:
        limit = min(rules.widening.start, len(node.filled))
        for number in range(limit):
            propose(rules, node, limit, jax.random.fold_in(key, number))
    node.eta = np.asarray(score_by(rules.surrogate, node.theta, jnp.asarray(node.actions)[None])[0])


def learn(rules: Rules, leaf: Node, key: PRNGKeyArray) -> None:
    """Let the surrogates above the leaf learn their new Q, propose where more is due, and score."""
    slot, node = leaf.slot, leaf.parent
    while rules.surrogate is not None and node is not None:
        key, proposal_key = jax.random.split(key)
        taken, q = jnp.asarray(node.actions[slot])[None], jnp.asarray([node.q[slot]], jnp.float32)
        node.theta = update_by(rules.surrogate, node.theta, taken, q)
        if rules.widening is not None:
            limit = float(rules.widening.limit(jnp.asarray([node.visits.sum()]))[0])
            propose(rules, node, limit, proposal_key)
        node.eta = np.asarray(score_by(rules.surrogate, node.theta, jnp.asarray(node.actions)[None])[0])
        slot, node = node.slot, node.parent


def supervise(rules: Rules, step: Step, leaf: Node, key: PRNGKeyArray) -> None:
    """Let the leaf's parent learn what other joint actions would have brought (Eq. 7)."""
    rule, node = rules.surrogate, leaf.parent
    if not isinstance(rule, GradientRule) or node is None:
        return
    actions = node.actions[leaf.slot].astype(np.int32)

    def worth(said: Said) -> float:
        following = said.discount * said.value if rule.target == "return" else 0.0
        return 0.0 if node.ended else said.reward + following

    for number in range(rule.counterfactuals):
        pick_key, *_ = jax.random.split(jax.random.fold_in(key, number), 4)
        agents, choices = random_directions(jnp.asarray(node.possible)[None], pick_key)
        others = changed(jnp.asarray(actions)[None], agents, choices)
        first, second, both = (worth(step(node.latent, np.asarray(other[0]))[0]) for other in others)
        own, *rest = (jnp.asarray(x, jnp.float32)[None] for x in (worth(leaf.said), [first, second], both))
        sample = Counterfactuals(jnp.asarray(actions)[None], Directions(agents, choices), own, *rest)
        node.theta = teach_by(rule, node.theta, sample)
    node.eta = np.asarray(score_by(rule, node.theta, jnp.asarray(node.actions)[None])[0])


def propose(rules: Rules, node: Node, limit: float | int, key: PRNGKeyArray) -> None:
    """Give one proposal the first empty slot, unless the node has `limit` candidates."""
    empty = np.flatnonzero(~node.filled)
    if rules.surrogate is None or node.filled.sum() >= limit or not len(empty):
        return
    candidates = candidates_of(node)
    visits, possible = jnp.asarray(node.visits)[None], jnp.asarray(node.possible)[None]
    actions, origin, found = propose_by(rules.surrogate, node.theta, candidates, visits, possible, key)
    if found[0]:
        slot = empty[0]
        node.actions[slot], node.origin[slot] = actions[0], origin[0]
        node.filled[slot], node.prior[slot] = True, 1.0 / len(node.filled)
