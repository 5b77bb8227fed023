"""The bandit at the root: NonUCT hears the return of every simulation and says which joint action is next.

Simulation by simulation it decides between the candidates in the root's K slots and changes of the best of
them. A change that wins takes an empty slot or else that of the candidate thought worst, whose subtree is
given up; what it taught stays with the surrogate. So the root looks at many more joint actions than it has
slots, and goes back to one as often as that may pay.
"""

from dataclasses import dataclass, field, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero.search.tree import ROOT, UNVISITED, Node
from nonzero.surrogate import posterior
from nonzero.surrogate.choice import Choice, choose
from nonzero.surrogate.posterior import (
    Beliefs,
    Forecast,
    Scale,
    Told,
    coefficients,
    nothing_told,
    predicted,
    scale,
    surprises,
)
from nonzero.surrogate.predictor import Surrogate, apply_link
from nonzero.types import Candidates, ModelOutputs


@dataclass(frozen=True)
class Guide:
    """How the root is guided; hashable, being a static argument of compiled functions."""

    beliefs: Beliefs = field(default_factory=Beliefs)
    pairs: bool = True
    """Whether two agents may be changed at once."""
    uses_model: bool = True
    """Whether θ starts where the model says (the mixing network); else, and without such a model, where the
    policy leans."""
    policy_weight: float = 0.3
    """How many deviations of the prior an action is expected to lose for each nat by which the policy likes
    it less than the agent's likeliest one."""
    most_nats: float = 5.0
    """Beyond so many it loses no more: a policy that rules an action out may be wrong."""
    daring: float = 0.7
    """How far draws lie from the posterior's mean, in units of its deviation."""
    doubt: float = 8.0
    """Where a model says θ: the variance of its answers' own errors, in units of θ's.

    They are learned, too, and of many more parameters, and asking again brings the same answer.
    """
    asks_anew: float = 8.0
    """Visits of a candidate that ask the model for its step anew; later ones grow the subtree.

    Departure: the paper's tree keeps the first answer. Where chance plays a part, one answer says little, and
    going deeper under it says less than another answer.
    """
    has_chance: bool = True
    """Whether asking the model again may bring another answer."""
    sure_noise: float = 0.02
    """The beliefs' noise where it does not: what takes three agents."""

    @property
    def least_gain(self) -> float:
        """What a change must gain more than: where asking again tells nothing, any change tells more."""
        return 0.0 if self.has_chance else -np.inf

    def without_chance(self) -> "Guide":
        """The guide for a model that always answers alike: it asks once, and looks at all it can reach."""
        return replace(
            self,
            beliefs=replace(self.beliefs, noise=self.sure_noise),
            asks_anew=min(self.asks_anew, 1.0) if self.asks_anew < np.inf else np.inf,
            has_chance=False,
        )


class Guided(eqx.Module):
    """What is known of a batch of roots."""

    told: Told
    prior: Surrogate
    unit: Float[Array, "B"] | None
    """The difference in returns that η = 1 stands for in the model's θ, if it says one."""
    error: Float[Array, "B"]
    """How far θ may be off before anything is told, in that unit."""
    legal: Bool[Array, "B I A"]


def start(guide: Guide, root: ModelOutputs, legal: Bool[Array, "B I A"], num_simulations: int) -> Guided:
    """Nothing was told yet."""
    batch, num_agents, _ = legal.shape
    told = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (batch, *x.shape)),
        nothing_told(num_simulations, num_agents),
    )
    forecast = root.surrogate
    if guide.uses_model and isinstance(forecast, Forecast):
        told = eqx.tree_at(lambda t: t.own, told, jnp.full(batch, guide.doubt))
        return Guided(told, forecast.surrogate, forecast.unit, forecast.error, legal)
    w = lean(guide, root.policy_logits, legal)
    prior = Surrogate(jnp.zeros(batch), w, jnp.zeros((*legal.shape, 0)))
    return Guided(told, prior, None, jnp.ones(batch), legal)


def lean(guide: Guide, logits: Float[Array, "B I A"], legal: Bool[Array, "B I A"]) -> Float[Array, "B I A"]:
    """What the policy makes the guide expect of actions before any return: 0 of an agent's likeliest one."""
    logits = jnp.where(legal, logits, -jnp.inf)
    nats = jnp.clip(jnp.max(logits, axis=-1, keepdims=True) - logits, 0.0, guide.most_nats)
    single, _ = guide.beliefs.variances(legal.shape[1])
    return -guide.policy_weight * np.sqrt(single) * nats


def scales(guide: Guide, guided: Guided) -> Scale:
    """How each root normalises returns: as they are spread, or as the model's θ is meant.

    The model's θ says differences: the returns told say from where they are to be counted.
    """
    if guided.unit is None:
        return jax.vmap(scale)(guided.told)

    told, said = guided.told, apply_link(guided.told.expected, guide.beliefs.link)
    rest = jnp.where(told.filled, told.returns - guided.unit[:, None] * said, 0.0)
    centre = jnp.sum(rest, axis=-1) / jnp.maximum(jnp.sum(told.filled, axis=-1), 1)
    return Scale(centre, guided.unit)


def hear(
    guide: Guide,
    guided: Guided,
    simulation: Int[Array, ""] | int,
    actions: Int[Array, "B I"],
    depth: Int[Array, "B"],
    gain: Float[Array, "B"],
) -> Guided:
    """After a simulation that began with `actions` brought `gain` back; each depth of leaves is a level."""
    row = jnp.int32(simulation)

    def one(told: Told, prior: Surrogate, actions: Array, depth: Array, gain: Array) -> Told:
        return posterior.tell(told, row, actions, depth, gain, prior, guide.beliefs)

    told = jax.vmap(one)(guided.told, guided.prior, actions, depth, gain)
    return eqx.tree_at(lambda g: g.told, guided, told)


def eta(guide: Guide, guided: Guided, candidates: Candidates) -> Float[Array, "B K"]:
    """η of the root's candidates, on the scale of Q."""

    def one(told: Told, prior: Surrogate, unit: Scale, actions: Int[Array, "K I"]) -> Float[Array, " K"]:
        alpha = coefficients(told, surprises(told, unit, guide.beliefs))
        return predicted(told, alpha, prior, unit, actions, guide.beliefs)

    return jax.vmap(one)(guided.told, guided.prior, scales(guide, guided), candidates.actions)


def tally(guided: Guided, candidates: Candidates) -> tuple[Int[Array, "B K"], Float[Array, "B K"]]:
    """The number and the mean of all returns that began with each of the root's candidates."""

    def one(told: Told, actions: Int[Array, "K I"]) -> tuple[Int[Array, " K"], Float[Array, " K"]]:
        begins = told.filled & (posterior.agreements(told, actions) == actions.shape[1])
        count = jnp.sum(begins, axis=1, dtype=jnp.int32)
        return count, jnp.sum(jnp.where(begins, told.returns, 0.0), axis=1) / jnp.maximum(count, 1)

    visits, q = jax.vmap(one)(guided.told, candidates.actions)
    return jnp.where(candidates.filled, visits, 0), jnp.where(candidates.filled, q, 0.0)


def decide(guide: Guide, guided: Guided, candidates: Candidates, key: PRNGKeyArray) -> Choice:
    """What each root should try next, and η of its candidates."""

    def one(guided: Guided, unit: Scale, mine: Candidates, key: PRNGKeyArray) -> Choice:
        return choose(
            guided.told,
            guided.prior,
            mine.actions,
            mine.filled,
            guided.legal,
            key,
            scale=unit,
            # A draw strays as far as θ was found to be off.
            daring=guide.daring * guided.error,
            pairs=guide.pairs,
            repeats=guide.has_chance,
            beliefs=guide.beliefs,
        )

    keys = jax.random.split(key, guided.legal.shape[0])
    return jax.vmap(one)(guided, scales(guide, guided), candidates, keys)


def visit(guide: Guide, guided: Guided, tree: Node, key: PRNGKeyArray) -> tuple[Node, Int[Array, "B"]]:
    """The root's slot for the next simulation, and the tree with a change in it where one is worth a try."""
    candidates: Candidates = jax.tree.map(lambda x: x[ROOT], tree.shown.candidates)
    visits = tree.shown.visits[ROOT]
    batch, num_slots = visits.shape
    choice = decide(guide, guided, candidates, key)
    worth = choice.worth
    # Samples of the prior come first; then an empty slot takes the change, or the worst candidate's, never
    # the best one's.
    untried = candidates.filled & (visits == 0)
    is_settled = ~jnp.any(untried, axis=-1)
    is_best = jnp.arange(num_slots) == jnp.argmax(jnp.where(candidates.filled, worth, -jnp.inf), -1)[:, None]
    rank = jnp.where(candidates.filled, jnp.where(is_best, jnp.inf, worth), -jnp.inf)
    enters = (choice.gain > guide.least_gain) & is_settled & (jnp.min(rank, axis=-1) < jnp.inf)
    slot = jnp.where(enters, jnp.argmin(rank, axis=-1), choice.slot)
    slot = jnp.where(is_settled, slot, jnp.argmax(untried, axis=-1)).astype(jnp.int32)
    seen = jnp.where(enters, 0, visits[jnp.arange(batch), slot])
    return place(tree, choice, slot, enters, seen < guide.asks_anew), slot


def place(
    tree: Node, choice: Choice, slot: Int[Array, "B"], enters: Bool[Array, "B"], is_anew: Bool[Array, "B"]
) -> Node:
    """The tree with the change in the root's `slot` where it `enters`, and without what hangs there where
    `is_anew`."""
    shown = tree.shown
    rows, num_slots = jnp.arange(slot.shape[0]), shown.visits.shape[-1]
    # Writing out of bounds, which scatters ignore, leaves a row as it is.
    into = (ROOT, rows, jnp.where(enters, slot, num_slots))
    anew = (ROOT, rows, jnp.where(is_anew, slot, num_slots))
    candidates = Candidates(
        actions=shown.candidates.actions.at[into].set(choice.actions),
        # A change weighs in the bound as if the prior had been sampled once more and had hit it.
        prior=shown.candidates.prior.at[into].set(1.0 / num_slots),
        filled=shown.candidates.filled.at[into].set(True),
        origin=shown.candidates.origin.at[into].set(choice.origin.astype(jnp.int8)),
    )
    return eqx.tree_at(
        lambda t: (t.shown.candidates, t.shown.visits, t.shown.q, t.shown.children),
        tree,
        (
            candidates,
            shown.visits.at[into].set(0),
            shown.q.at[into].set(0.0),
            shown.children.at[anew].set(UNVISITED),
        ),
    )
