"""The same search in plain Python over one tree: the oracle of the tests, and the planner for any simulator.

It takes the rules of the compiled search and, given the same random draws, visits the same nodes in the same
order. It is written to be read: a node is an object, a model is a function of one state, nothing is batched.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nonzero.search.backup import Averaging
from nonzero.search.draws import Draws
from nonzero.search.expand import Expansion
from nonzero.search.presets import Rules
from nonzero.search.reference_surrogate import Memory, equip, learn, supervise
from nonzero.search.reference_tree import Node, Outcome, Said, Step
from nonzero.search.select import GOLDEN, Selection
from nonzero.types import PRIOR


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
    equip(rules, node, draws.proposal(simulation))
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
