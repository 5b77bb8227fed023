"""The paper's surrogate at every node: θ takes one gradient step per backup, NonUCT fills the slots.

θ starts where the model says (the mixing network), or at zero. Returns are normalised by the mean and the
spread of what the node was told, so that the link's fixed scale suits rewards of any size. With
counterfactuals, the step that makes a leaf also teaches its parent what two random changes, and both of them
together, would have brought (Eq. 7); each such sample asks the model three times more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero.search.proposals import Proposal
from nonzero.search.tree import Node, rows_of
from nonzero.surrogate.deviations import apply_change
from nonzero.surrogate.posterior import Forecast
from nonzero.surrogate.predictor import (
    Counterfactuals,
    Directions,
    Link,
    Surrogate,
    four_square_loss,
    gradient_update,
    init_surrogate,
    predict,
    value_loss,
)
from nonzero.surrogate.proposal import Optimism, direction_variances, propose
from nonzero.surrogate.tried import nothing_tried, with_one_more
from nonzero.types import Candidates, ModelOutputs


class Theta(eqx.Module):
    """What one node has learned, [B, ...]."""

    surrogate: Surrogate
    tries: Int[Array, "*BN I A"]
    """How often each action was backed up."""
    count: Float[Array, "*BN"]
    mean: Float[Array, "*BN"]
    """Of the returns told."""
    square: Float[Array, "*BN"]
    """The sum of their squared distances from the mean."""
    unit: Float[Array, "*BN"] | None = None
    """The spread that the model's θ is meant for, about its value; without it, that of the returns."""

    @property
    def spread(self) -> Float[Array, "*BN"]:
        """The returns' standard deviation; 1 until two of them differ."""
        if self.unit is not None:
            return self.unit
        spread = jnp.sqrt(self.square / jnp.maximum(self.count, 1.0))
        return jnp.where(spread > 1e-5 * jnp.abs(self.mean), spread, 1.0)

    def normalised(self, value: Float[Array, "*BN"]) -> Float[Array, "*BN"]:
        """A return as the link expects it."""
        return (value - self.mean) / self.spread


@dataclass(frozen=True)
class GradientRule:
    """A surrogate rule of the search (see `SurrogateRule`)."""

    rank: int = 0
    learning_rate: float = 0.1
    uses_model: bool = True
    """Whether θ starts where the model says."""
    counterfactuals: int = 0
    """Samples of Eq. 7 for each simulation."""
    target: Literal["reward", "return"] = "return"
    """What a counterfactual step is worth: its reward (the paper's), or with what the model expects after it.

    Departure: a reward alone is short-sighted outside one-step games.
    """
    link: Link = field(default_factory=Link)
    optimism: Optimism = field(default_factory=Optimism)

    def initial(self, outputs: ModelOutputs, possible: Bool[Array, "B I A"]) -> Theta:
        """θ of a new node: the model's, or one that predicts almost nothing."""
        batch, num_agents, num_actions = possible.shape
        forecast = outputs.surrogate
        tries, nothing = jnp.zeros(possible.shape, jnp.int32), jnp.zeros(batch)
        if self.uses_model and isinstance(forecast, Forecast):
            return Theta(forecast.surrogate, tries, nothing, outputs.value, nothing, forecast.unit)
        blank = init_surrogate(jax.random.key(0), num_agents, num_actions, self.rank)
        theta = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), blank)
        return Theta(theta, tries, nothing, outputs.value, nothing)

    def score(self, theta: Theta, actions: Int[Array, "B K I"]) -> Float[Array, "B K"]:
        """η of joint actions, on the scale of Q."""

        def one(surrogate: Surrogate, joint: Int[Array, " I"]) -> Float[Array, ""]:
            return predict(surrogate, joint, self.link)

        eta = jax.vmap(jax.vmap(one, in_axes=(None, 0)))(theta.surrogate, actions)
        return theta.mean[:, None] + theta.spread[:, None] * eta

    def update(self, theta: Theta, actions: Int[Array, "B I"], q: Float[Array, "B"]) -> Theta:
        """θ after one gradient step towards what the search thinks of `actions`."""
        count = theta.count + 1.0
        mean = jnp.where(theta.count == 0, q, theta.mean + (q - theta.mean) / count)
        mean = mean if theta.unit is None else theta.mean
        square = jnp.where(theta.count == 0, 0.0, theta.square + (q - theta.mean) * (q - mean))
        rows = jnp.arange(q.shape[0])[:, None]
        tries = theta.tries.at[rows, jnp.arange(actions.shape[1]), actions].add(1)
        told = Theta(theta.surrogate, tries, count, mean, square, theta.unit)
        gradient = jax.vmap(jax.grad(lambda s, a, v: value_loss(s, a, v, self.link)))
        return self._stepped(told, gradient(told.surrogate, actions, told.normalised(q)))

    def teach(self, theta: Theta, sample: Counterfactuals) -> Theta:
        """θ after one gradient step on a sample of Eq. 7 for each row."""
        normalised = eqx.tree_at(
            lambda s: (s.value, s.single_values, s.pair_value),
            sample,
            (
                theta.normalised(sample.value),
                (sample.single_values - theta.mean[:, None]) / theta.spread[:, None],
                theta.normalised(sample.pair_value),
            ),
        )
        gradient = jax.vmap(jax.grad(lambda s, x: four_square_loss(s, x, self.link)))
        return self._stepped(theta, gradient(theta.surrogate, normalised))

    def propose(
        self,
        theta: Theta,
        candidates: Candidates,
        visits: Int[Array, "B K"],
        possible: Bool[Array, "B I A"],
        key: PRNGKeyArray,
    ) -> Proposal:
        """NonUCT's change of the best candidate under η."""
        del visits, key
        eta = jnp.where(candidates.filled, self.score(theta, candidates.actions), -jnp.inf)

        def one(theta: Theta, mine: Candidates, eta: Array, possible: Array) -> tuple[Array, ...]:
            def enter(tried: Any, slot: tuple) -> tuple[Any, None]:
                actions, row, is_new = slot
                return with_one_more(tried, actions, row, is_new), None

            num_slots = mine.filled.shape[0]
            num_agents, num_actions = possible.shape
            rows = (mine.actions, jnp.arange(num_slots), mine.filled)
            tried = jax.lax.scan(enter, nothing_tried(num_agents, num_actions, num_slots), rows)[0]
            variances = direction_variances(theta.tries, jnp.float32(1.0), self.optimism)
            best = jnp.argmax(eta)
            found = propose(
                theta.surrogate,
                mine.actions[best],
                jnp.float32(0.0),
                variances,
                tried,
                possible,
                self.link,
                self.optimism,
            )
            return found.actions, found.origin, jnp.isfinite(found.value)

        return Proposal(*jax.vmap(one)(theta, candidates, eta, possible))

    def _stepped(self, theta: Theta, gradient: Surrogate) -> Theta:
        step = jax.vmap(lambda s, g: gradient_update(s, g, self.learning_rate))
        return eqx.tree_at(lambda t: t.surrogate, theta, step(theta.surrogate, gradient))


def random_directions(
    possible: Bool[Array, "B I A"], key: PRNGKeyArray
) -> tuple[Int[Array, "B 2"], Int[Array, "B 2"]]:
    """Two different agents of each row, and a random possible action for each."""
    agent_key, choice_key = jax.random.split(key)
    _, agents = jax.lax.top_k(jax.random.uniform(agent_key, possible.shape[:2]), 2)
    numbers = jnp.where(possible, jax.random.uniform(choice_key, possible.shape), -1.0)
    choices = jnp.argmax(numbers, axis=-1).astype(jnp.int32)
    return agents, jnp.take_along_axis(choices, agents, axis=1)


def changed(
    actions: Int[Array, "B I"], agents: Int[Array, "B 2"], choices: Int[Array, "B 2"]
) -> list[Int[Array, "B I"]]:
    """a^(u), a^(v) and a^(u,v)."""

    def one(left: int, right: int) -> Int[Array, "B I"]:
        first, second = (Directions(agents[:, side], choices[:, side]) for side in (left, right))
        return jax.vmap(apply_change)(actions, first, second)

    return [one(0, 0), one(1, 1), one(0, 1)]


def supervise(
    rule: GradientRule,
    recurrent_fn: Callable,
    params: Any,
    tree: Node,
    parent: Int[Array, "B"],
    leaf: Int[Array, ""],
    key: PRNGKeyArray,
) -> Node:
    """The tree after the parents of the new `leaf` learned what other joint actions would have brought."""
    at = rows_of(parent)
    shown = tree.shown
    latent, possible = (jax.tree.map(lambda x: x[at], part) for part in (tree.latent, tree.possible))
    actions = shown.candidates.actions[(*at, shown.slot[leaf])]
    theta = jax.tree.map(lambda x: x[at], tree.theta)

    def worth(reward: Array, discount: Array, value: Array) -> Float[Array, "B"]:
        following = discount * value if rule.target == "return" else 0.0
        return jnp.where(shown.ended[at], 0.0, reward + following)

    for number in range(rule.counterfactuals):
        pick_key, *model_keys = jax.random.split(jax.random.fold_in(key, number), 4)
        agents, choices = random_directions(possible, pick_key)
        said = [
            recurrent_fn(params, model_key, other, latent)[0]
            for model_key, other in zip(model_keys, changed(actions, agents, choices), strict=True)
        ]
        first, second, both = (worth(o.reward, o.discount, o.value) for o in said)
        own = worth(shown.reward[leaf], shown.discount[leaf], shown.raw_value[leaf])
        sample = Counterfactuals(
            actions, Directions(agents, choices), own, jnp.stack([first, second], axis=1), both
        )
        theta = rule.teach(theta, sample)
    learned = (theta, rule.score(theta, shown.candidates.actions[at]))
    before = (tree.theta, shown.eta)
    after = jax.tree.map(lambda x, new: x.at[at].set(new), before, learned)
    return eqx.tree_at(lambda t: (t.theta, t.shown.eta), tree, after)
