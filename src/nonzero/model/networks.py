"""The model: from observations to a latent, from a latent and a joint action to the next, and what they mean.

Every agent has its own latent; the networks are shared between agents, who tell themselves apart by their id
in the input. Only the communication e and the pooled heads of reward and value look across agents.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nonzero.model.layers import Attention, Linear, Perceptron, normalised
from nonzero.model.settings import ModelSettings
from nonzero.model.supports import Support, support_of
from nonzero.types import EnvSpec


class Head(eqx.Module):
    """Numbers from features: for each agent from its own, or for the team from the mean of hidden layers."""

    hidden: Perceptron
    out: Linear
    is_pooled: bool = eqx.field(static=True)

    def __init__(
        self, key: PRNGKeyArray, width: int, layers: tuple[int, ...], width_out: int, *, is_pooled: bool
    ) -> None:
        hidden, out = jax.random.split(key)
        self.hidden = Perceptron(hidden, width, layers)
        # All outputs alike at first: uniform policies, values at the middle of the support.
        self.out = Linear(out, layers[-1], width_out, scale=0.0)
        self.is_pooled = is_pooled

    def __call__(self, features: Float[Array, "*B I D"]) -> Float[Array, "*lead Out"]:
        """The numbers [*B, Out], or [*B, I, Out] of each agent."""
        hidden = self.hidden(features)
        return self.out(jnp.mean(hidden, axis=-2) if self.is_pooled else hidden)


ENTRY = 0.1
"""About the size of an entry of θ."""


class Theta(NamedTuple):
    """The surrogate's parameters at a state, named as in `nonzero.surrogate.predictor`, and their units."""

    bias: Float[Array, "*B"]
    w: Float[Array, "*B I A"]
    v: Float[Array, "*B I A R"]
    centre: Float[Array, "*B"]
    unit: Float[Array, "*B"]
    error: Float[Array, "*B"]


class Mixing(eqx.Module):
    """m: from a state to θ, the surrogate's parameters there (the rows of an agent from its own latent)."""

    rows: Head
    bias: Head
    centre: Float[Array, ""]
    """The gain that η = 0 stands for; like the next two tracked, not learned."""
    unit: Float[Array, ""]
    """The difference in gains that η = 1 stands for."""
    error: Float[Array, ""]
    """The deviation of gains from what η said of them, in these units."""
    num_actions: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, num_actions: int, settings: ModelSettings) -> None:
        rows, bias, factors = jax.random.split(key, 3)
        self.num_actions, self.rank = num_actions, settings.rank
        width, layers = settings.width, settings.mixing_layers
        head = Head(rows, width, layers, num_actions * (1 + settings.rank), is_pooled=False)
        # Factors that are all zero would stay so: their gradient is a product of other factors.
        start = jax.random.normal(factors, (num_actions, 1 + settings.rank)).at[:, 0].set(0.0)
        self.rows = eqx.tree_at(lambda h: h.out.bias, head, start.reshape(-1))
        self.bias = Head(bias, width, layers, 1, is_pooled=True)
        self.centre, self.unit, self.error = jnp.zeros(()), jnp.ones(()), jnp.ones(())

    def __call__(self, latent: Float[Array, "*B I D"]) -> Theta:
        """θ of each state."""
        # Many entries add up to one z: Adam's steps, alike for all parameters, must be small in each.
        table = ENTRY * self.rows(latent)
        table = table.reshape(*table.shape[:-1], self.num_actions, 1 + self.rank)
        bias = self.bias(latent)[..., 0]
        tracked = (
            jnp.broadcast_to(jax.lax.stop_gradient(x), bias.shape)
            for x in (self.centre, self.unit, self.error)
        )
        return Theta(bias, table[..., 0], table[..., 1:], *tracked)


class Model(eqx.Module):
    """All networks and the constants that give their outputs a meaning."""

    observe: Perceptron
    action: Linear
    communicate: list[Attention]
    advance: Perceptron
    reward_head: Head
    value_head: Head
    policy_head: Head
    mixing: Mixing | None
    projection: Perceptron
    prediction: tuple[Perceptron, Linear]
    support: Support = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    num_agents: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        spec: EnvSpec,
        settings: ModelSettings,
        *,
        discount: float,
        has_mixing: bool,
    ) -> None:
        keys = iter(jax.random.split(key, 11))
        width = settings.width
        seen = settings.history * math.prod(spec.obs_shape)
        self.observe = Perceptron(
            next(keys), seen + spec.num_agents, (*settings.representation_layers, width)
        )
        self.action = Linear(next(keys), spec.num_actions, width)
        layer_keys = jax.random.split(next(keys), max(1, settings.attention_layers))
        self.communicate = [
            Attention(k, width, settings.attention_heads) for k in layer_keys[: settings.attention_layers]
        ]
        self.advance = Perceptron(next(keys), 2 * width, (*settings.dynamics_layers, width))
        layers, bins = settings.head_layers, settings.bins
        self.reward_head = Head(next(keys), 2 * width, layers, bins, is_pooled=True)
        self.value_head = Head(next(keys), width, layers, bins, is_pooled=True)
        self.policy_head = Head(next(keys), width, layers, spec.num_actions, is_pooled=False)
        self.mixing = Mixing(next(keys), spec.num_actions, settings) if has_mixing else None
        self.projection = Perceptron(next(keys), width, settings.projection_layers)
        out = settings.projection_layers[-1]
        self.prediction = (Perceptron(next(keys), out, (out // 2,)), Linear(next(keys), out // 2, out))
        self.support = support_of(spec.return_bounds, settings.bins)
        self.discount, self.num_agents, self.num_actions = discount, spec.num_agents, spec.num_actions

    def represent(self, history: Float[Array, "*B L I O"]) -> Float[Array, "*B I D"]:
        """h: the agents' latents from their last L observations, oldest first."""
        *lead, length, agents, size = history.shape
        seen = jnp.moveaxis(history, -3, -2).reshape(*lead, agents, length * size)
        names = jnp.broadcast_to(jnp.eye(agents), (*lead, agents, agents))
        return normalised(self.observe(jnp.concatenate([normalised(seen), names], axis=-1)))

    def imagine(
        self, latent: Float[Array, "*B I D"], actions: Int[Array, "*B I"]
    ) -> tuple[Float[Array, "*B I D"], Float[Array, "*B C"]]:
        """e, g and r: the next latents, and logits of the reward on the way there."""
        played = self.action(jax.nn.one_hot(actions, self.num_actions))
        features = normalised(latent + played)
        for layer in self.communicate:
            features = layer(features)
        together = jnp.concatenate([latent, features], axis=-1)
        return normalised(latent + self.advance(together)), self.reward_head(together)

    def project(self, latent: Float[Array, "*B I D"]) -> Float[Array, "*B I P"]:
        """The consistency loss's view of a latent, as a target."""
        return normalised(self.projection(latent))

    def predict_projection(self, latent: Float[Array, "*B I D"]) -> Float[Array, "*B I P"]:
        """What an imagined latent says of the view of the latent that will be observed."""
        hidden, out = self.prediction
        return out(hidden(self.project(latent)))
