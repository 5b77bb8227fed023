"""A network of MAZero's size for speed measurements: random weights, real shapes.

Latents [B, I, 128]; three layers of attention across agents over latent and action, then a residual MLP;
heads for reward, value (categorical, averaged over agents) and policy, each with one hidden layer of 32.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nonzero.types import ModelOutputs

WIDTH, HEADS, HIDDEN, BINS, LAYERS = 128, 4, 32, 101, 3
FEW_AGENTS = 4
"""Up to this many agents attention is faster as multiply and reduce than as many tiny matrix products."""


class Block(eqx.Module):
    """Linear, LayerNorm, ReLU."""

    weight: Float[Array, "In Out"]
    bias: Float[Array, " Out"]
    scale: Float[Array, " Out"]

    def __init__(self, key: PRNGKeyArray, width_in: int, width_out: int) -> None:
        self.weight = jax.random.normal(key, (width_in, width_out)) * width_in**-0.5
        self.bias, self.scale = jnp.zeros(width_out), jnp.ones(width_out)

    def __call__(self, x: Float[Array, "*B In"]) -> Float[Array, "*B Out"]:
        """The block's features."""
        return jax.nn.relu(normalised(x @ self.weight) * self.scale + self.bias)


def normalised(x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    """Mean 0 and variance 1 over the last axis."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


class Attention(eqx.Module):
    """Attention across agents with a residual; queries, keys and values come from one matrix product."""

    inward: Float[Array, "D E"]
    outward: Float[Array, "D D"]

    def __init__(self, key: PRNGKeyArray) -> None:
        self.inward = jax.random.normal(key, (WIDTH, 3 * WIDTH)) * WIDTH**-0.5
        self.outward = jax.random.normal(jax.random.fold_in(key, 1), (WIDTH, WIDTH)) * WIDTH**-0.5

    def __call__(self, x: Float[Array, "B I D"]) -> Float[Array, "B I D"]:
        """The agents' features after they looked at each other."""
        batch, agents, _ = x.shape
        parts = (x @ self.inward).reshape(batch, agents, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts[:, :, 0], parts[:, :, 1], parts[:, :, 2]
        if agents <= FEW_AGENTS:
            scores = jnp.sum(query[:, :, None] * key[:, None], axis=-1)
            weights = jax.nn.softmax(scores * (WIDTH // HEADS) ** -0.5, axis=2)
            mixed = jnp.sum(weights[..., None] * value[:, None], axis=2)
        else:
            scores = jnp.einsum("bihd,bjhd->bhij", query, key)
            weights = jax.nn.softmax(scores * (WIDTH // HEADS) ** -0.5, axis=-1)
            mixed = jnp.einsum("bhij,bjhd->bihd", weights, value)
        return normalised(x + mixed.reshape(batch, agents, WIDTH) @ self.outward)


class Network(eqx.Module):
    """The recurrent part of a MuZero-style model: next latent, reward, value and policy."""

    action: Float[Array, "A D"]
    attention: list[Attention]
    dynamics: list[Block]
    hidden: Block
    policy: Float[Array, "H A"]
    bins: Float[Array, "H C"]

    def __init__(self, key: PRNGKeyArray, num_actions: int) -> None:
        keys = iter(jax.random.split(key, 10))
        self.action = jax.random.normal(next(keys), (num_actions, WIDTH))
        self.attention = [Attention(next(keys)) for _ in range(LAYERS)]
        self.dynamics = [Block(next(keys), WIDTH, WIDTH) for _ in range(2)]
        self.hidden = Block(next(keys), WIDTH, 3 * HIDDEN)
        self.policy = jax.random.normal(next(keys), (HIDDEN, num_actions)) * HIDDEN**-0.5
        self.bins = jax.random.normal(next(keys), (2 * HIDDEN, 2 * BINS)) * HIDDEN**-0.5

    def outputs(self, latent: Float[Array, "B I D"]) -> ModelOutputs:
        """What the heads say of states."""
        hidden = self.hidden(latent)
        pooled = jnp.mean(hidden[..., HIDDEN:], axis=1) @ self.bins
        support = jnp.linspace(-10.0, 10.0, BINS)
        scalars = jax.nn.softmax(pooled.reshape(-1, 2, BINS), axis=-1) @ support
        discount = jnp.full(scalars.shape[:1], 0.997)
        return ModelOutputs(hidden[..., :HIDDEN] @ self.policy, scalars[:, 0], scalars[:, 1], discount)


def recurrent(
    network: Network, key: PRNGKeyArray, actions: Int[Array, "B I"], latent: Float[Array, "B I D"]
) -> tuple[ModelOutputs, Float[Array, "B I D"]]:
    """One step of the model, as `nonzero.search.search` calls it."""
    del key
    x = latent + network.action[actions]
    for layer in network.attention:
        x = layer(x)
    following = normalised(latent + network.dynamics[1](network.dynamics[0](x)))
    return network.outputs(following), following
