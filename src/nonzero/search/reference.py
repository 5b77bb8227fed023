"""The same search in plain Python over one tree: the oracle of the tests, and the planner for any simulator.

It takes the rules of the compiled search and, given the same random draws, visits the same nodes in the same
order. It is written to be read: a node is an object, a model is a function of one state, nothing is batched.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from nonzero.search import guide as root_guide
from nonzero.search.backup import Averaging
from nonzero.search.draws import Draws
from nonzero.search.expand import Expansion
from nonzero.search.gradient import GradientRule, changed, random_directions
from nonzero.search.guide import Guide, start
from nonzero.search.presets import Rules
from nonzero.search.select import GOLDEN, Selection
from nonzero.surrogate.predictor import Counterfactuals, Directions
from nonzero.types import PRIOR, Candidates, ModelOutputs

decide = jax.jit(root_guide.decide, static_argnums=0)
hear = jax.jit(root_guide.hear, static_argnums=0)
eta_of = jax.jit(root_guide.eta, static_argnums=0)


def compiled_method(name: str) -> Callable:
    """A method of a surrogate rule as a compiled function of the rule and the method's arguments."""
    return jax.jit(lambda rule, *arguments: getattr(rule, name)(*arguments), static_argnums=0)


initial_by, score_by, update_by = (compiled_method(name) for name in ("initial", "score", "update"))
propose_by, teach_by = (compiled_method(name) for name in ("propose", "teach"))

Outcome = tuple["Said", Any]
Step = Callable[[Any, np.ndarray], Outcome]


@dataclass(frozen=True)
class Said:
    """What a model says of one state and of the step that led there."""

    policy_logits: np.ndarray
    """[I, A]"""
    value: float
    reward: float = 0.0
    discount: float = 1.0
    surrogate: Any = None


@dataclass
class Node:
    """A state in the tree, its candidates [K, I] and what the search knows of each."""

    said: Said
    latent: Any
    actions: np.ndarray
    prior: np.ndarray
    filled: np.ndarray
    origin: np.ndarray
    possible: np.ndarray
    parent: "Node | None" = None
    slot: int = -1
    depth: int = 0
    ended: bool = False
    value: float = 0.0
    returns: list[tuple[int, float]] = field(default_factory=list)
    """(levels below, return) of every simulation that passed through."""
    theta: Any = None
    eta: np.ndarray | None = None

    def __post_init__(self) -> None:
        num_slots = len(self.filled)
        self.visits = np.zeros(num_slots, int)
        self.q = np.zeros(num_slots)
        self.children: list[Node | None] = [None] * num_slots


@dataclass(frozen=True)
class Plan:
    """What the search found at its root; the fields are those of `SearchResult`."""

    action: np.ndarray
    actions: np.ndarray
    visits: np.ndarray
    q: np.ndarray
    value: float
    nodes: list[Node]
    """In the order in which they came; the root first."""


def plan(
    step: Step,
    root: Outcome,
    *,
    num_simulations: int,
    num_candidates: int,
    rules: Rules,
    draws: Draws,
    legal: np.ndarray | None = None,
    dirichlet_fraction: float = 0.25,
    dirichlet_alpha: float = 0.3,
    temperature: float = 1.0,
    has_chance: bool = True,
) -> Plan:
    """Plan from one state: `step(latent, joint action)` says what follows, `root` what is known of it.

    `has_chance` says whether the same step may turn out otherwise when it is asked for again.
    """
    said, latent = root
    rules = rules if has_chance else rules.without_chance()
    legal = np.ones(said.policy_logits.shape, bool) if legal is None else np.asarray(legal, bool)
    check_plan(said, legal, num_simulations, num_candidates)
    policy = softmax(said.policy_logits) * legal + rules.expansion.legal_floor * legal
    policy /= policy.sum(axis=1, keepdims=True)
    policy = policy * (1.0 - dirichlet_fraction) + draws.noise(legal, dirichlet_fraction, dirichlet_alpha)
    top = new_node(rules, said, latent, policy, legal, draws, -1, num_candidates)
    nodes = [top]
    back_up(rules.averaging, top)
    memory = None if rules.guide is None else Memory(rules.guide, said, legal, num_simulations)
    for simulation in range(num_simulations):
        root_slot = None if memory is None else memory.visit(top, draws.proposal(simulation))
        parent, slot = descend(rules.selection, nodes, draws.tie(simulation), root_slot)
        said, latent, ended = follow(step, parent, slot)
        policy, possible = interior_policy(rules.expansion, said.policy_logits)
        leaf = new_node(rules, said, latent, policy, possible, draws, simulation, num_candidates)
        leaf.parent, leaf.slot, leaf.depth, leaf.ended = parent, slot, parent.depth + 1, ended
        parent.children[slot] = leaf
        nodes.append(leaf)
        gain = back_up(rules.averaging, leaf)
        if rules.surrogate is not None:
            learn(rules, leaf, draws.proposal(simulation))
        if rules.counterfactuals(len(legal)):
            supervise(rules, step, leaf, draws.proposal(simulation))
        if memory is not None and root_slot is not None:
            memory.hear(simulation, top.actions[root_slot], leaf.depth, gain)
    if memory is not None:
        memory.conclude(top)
    weights = (top.visits / top.visits.max()) ** (1.0 / max(temperature, 1e-6))
    slot = draws.slot(weights / weights.sum())
    if temperature == 0 and memory is not None and top.eta is not None:
        slot = int(np.argmax(np.where(top.visits > 0, top.eta, -np.inf)))
    return Plan(top.actions[slot], top.actions, top.visits, top.q, top.value, nodes)


def check_plan(said: Said, legal: np.ndarray, num_simulations: int, num_candidates: int) -> None:
    """Refuse a search that cannot be."""
    if num_simulations < 1 or num_candidates < 1:
        raise ValueError("num_simulations and num_candidates must be at least 1")
    if legal.shape != said.policy_logits.shape:
        raise ValueError(f"legal must have the shape {said.policy_logits.shape}, not {legal.shape}")
    if not legal.any(axis=1).all():
        raise ValueError(f"agent {int(np.argmin(legal.any(axis=1)))} has no legal action")


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities over the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def follow(step: Step, parent: Node, slot: int) -> tuple[Said, Any, bool]:
    """What the model says of the step into `slot`; past the end of the episode nothing is worth anything."""
    said, latent = step(parent.latent, parent.actions[slot])
    numbers = [said.value, said.reward, said.discount]
    if not np.all(np.isfinite(numbers)) or np.any(np.isnan(said.policy_logits)):
        raise ValueError(
            f"the model returned NaN or infinity after joint action {parent.actions[slot].tolist()}"
        )
    if not (parent.ended or said.discount == 0):
        return said, latent, False
    reward = 0.0 if parent.ended else said.reward
    return Said(np.zeros_like(said.policy_logits), 0.0, reward, 0.0, said.surrogate), latent, True


def interior_policy(rule: Expansion, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The prior inside the tree and which actions it holds possible, [I, A] each."""
    with np.errstate(divide="ignore"):
        least = logits.max(axis=1, keepdims=True) + np.log(rule.policy_floor)
    possible = (logits > -np.inf) & (logits >= least)
    return softmax(np.where(possible, logits, -np.inf)), possible


def new_node(
    rules: Rules,
    said: Said,
    latent: Any,
    policy: np.ndarray,
    possible: np.ndarray,
    draws: Draws,
    simulation: int,
    num_slots: int,
) -> Node:
    """A node with its candidates: samples of the policy or every joint action, then proposals."""
    num_agents, num_actions = policy.shape
    if rules.expansion.candidates == "enumerated":
        actions = np.array(list(np.ndindex(*(num_actions,) * num_agents)))
        filled = np.array([all(possible[i, a] for i, a in enumerate(joint)) for joint in actions])
        prior = np.array([math.prod(policy[i, a] for i, a in enumerate(joint)) for joint in actions]) * filled
    else:
        num_samples = rules.expansion.num_prior(num_slots)
        numbers = draws.sampling(simulation, num_samples, num_agents)
        actions = np.zeros((num_slots, num_agents), int)
        filled, prior = np.zeros(num_slots, bool), np.zeros(num_slots)
        samples = [sample(policy, possible, row) for row in numbers]
        for slot, joint in enumerate(samples):
            actions[slot] = joint
            filled[slot] = joint not in samples[:slot]
            prior[slot] = samples.count(joint) / num_samples if filled[slot] else 0.0
    origin = np.full(len(actions), PRIOR)
    node = Node(said, latent, actions, prior, filled, origin, possible)
    if rules.surrogate is not None:
        node.theta = initial_by(rules.surrogate, batched(said), jnp.asarray(possible)[None])
        if rules.widening is not None:
            limit = min(rules.widening.start, num_slots)
            for number in range(limit):
                propose(rules, node, limit, jax.random.fold_in(draws.proposal(simulation), number))
        node.eta = np.asarray(score_by(rules.surrogate, node.theta, jnp.asarray(node.actions)[None])[0])
    return node


def sample(policy: np.ndarray, possible: np.ndarray, numbers: np.ndarray) -> tuple[int, ...]:
    """One joint action: each agent's first possible action with a cumulative probability above its number."""
    joint = []
    for agent, number in enumerate(numbers):
        cumulative = np.cumsum(policy[agent])
        above = possible[agent] & (cumulative > number * cumulative[-1])
        joint.append(int(np.flatnonzero(above if above.any() else possible[agent])[0 if above.any() else -1]))
    return tuple(joint)


def descend(rule: Selection, nodes: list[Node], tie_draw: float, root_slot: int | None) -> tuple[Node, int]:
    """The node and its unvisited slot at which a simulation leaves the tree; `root_slot` may be decided."""
    bounds = tree_bounds(rule, nodes) if rule.normalise == "tree" else None
    node = nodes[0]
    while True:
        untried = np.flatnonzero(node.filled & (node.visits == 0))
        if root_slot is not None and node is nodes[0]:
            slot = root_slot
        elif rule.tries_root_in_order and node is nodes[0] and len(untried):
            slot = int(untried[0])
        else:
            slot = choose(rule, scores(rule, node, bounds), (tie_draw + node.depth * GOLDEN) % 1.0)
        child = node.children[slot]
        if child is None:
            return node, slot
        node = child


def worth(rule: Selection, node: Node, q: np.ndarray) -> np.ndarray:
    """Q, or Q minus the model's value of the node."""
    return q - node.said.value if rule.worth == "advantage" else q


def tree_bounds(rule: Selection, nodes: list[Node]) -> tuple[float, float]:
    """The least and the largest worth of all steps from states before the end."""
    known = [
        worth(rule, node.parent, np.array([node.said.reward + node.said.discount * node.value]))[0]
        for node in nodes
        if node.parent is not None and not node.parent.ended
    ]
    return (float(min(known)), float(max(known))) if known else (0.0, 0.0)


def scores(rule: Selection, node: Node, bounds: tuple[float, float] | None) -> np.ndarray:
    """The selection score of every slot, [K]; empty slots score minus infinity."""
    known = node.visits > 0
    if bounds is None:
        around = worth(rule, node, np.append(node.q[known], node.value))
        bounds = around.min(), around.max()
    low, high = bounds
    if rule.kappa > 0 and node.eta is not None:
        share = 1.0 if math.isinf(rule.kappa) else rule.kappa / (node.visits + rule.kappa)
        value = worth(rule, node, (1.0 - share) * node.q + share * node.eta)
    else:
        value = np.where(known, worth(rule, node, node.q), 0.0 if rule.worth == "advantage" else low)
    total = node.visits.sum() + rule.counts_own_visit
    prior = node.prior if rule.prior == "policy" else 1.0 / node.filled.sum()
    growth = math.log((total + rule.bound_base + 1.0) / rule.bound_base) + rule.bound_init
    bound = rule.exploration * growth * prior * math.sqrt(total) / (1.0 + node.visits)
    score = np.clip((value - low) / max(high - low, rule.least_span), 0.0, 1.0) + bound
    return np.where(node.filled, score, -np.inf)


def choose(rule: Selection, score: np.ndarray, tie_draw: float) -> int:
    """The slot of the best score; among ties the one that `tie_draw` in [0, 1) points at."""
    if rule.tie_tolerance == 0:
        return int(np.argmax(score))
    tied = np.flatnonzero(score >= score.max() - rule.tie_tolerance)
    return int(tied[int(tie_draw * len(tied))])


def back_up(rule: Averaging, leaf: Node) -> float:
    """Carry the leaf's value to the root; what arrives there."""
    node, levels, value = leaf, 0, leaf.said.value
    while True:
        node.returns.append((levels, value))
        node.value = average(rule, node.returns)
        if node.parent is None:
            return value
        node.parent.visits[node.slot] += 1
        node.parent.q[node.slot] = node.said.reward + node.said.discount * node.value
        value = node.said.reward + node.said.discount * value
        node, levels = node.parent, levels + 1


def average(rule: Averaging, returns: list[tuple[int, float]]) -> float:
    """OS(λ): the best share 1 - ρ of each depth's returns, at least one, averaged with weights λ^depth."""
    total = weight = 0.0
    for depth in {depth for depth, _ in returns}:
        group = sorted((value for d, value in returns if d == depth), reverse=True)
        kept = group[: max(1, math.ceil(len(group) * (1.0 - rule.rho) - 1e-5))]
        total += rule.lam**depth * sum(kept)
        weight += rule.lam**depth * len(kept)
    return total / weight


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
