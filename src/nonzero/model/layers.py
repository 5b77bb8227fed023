"""The layers that the networks are made of; they work on the last axis of arrays with any leading axes."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

FEW_AGENTS = 4
"""Up to this many agents attention is faster as multiply and reduce than as many tiny matrix products."""


def normalised(x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    """Mean 0 and variance 1 over the last axis."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


class Linear(eqx.Module):
    """x W + b."""

    weight: Float[Array, "In Out"]
    bias: Float[Array, " Out"]

    def __init__(self, key: PRNGKeyArray, width_in: int, width_out: int, scale: float = 1.0) -> None:
        self.weight = scale * width_in**-0.5 * jax.random.normal(key, (width_in, width_out))
        self.bias = jnp.zeros(width_out)

    def __call__(self, x: Float[Array, "*B In"]) -> Float[Array, "*B Out"]:
        """The layer's output."""
        return x @ self.weight + self.bias


class Block(eqx.Module):
    """Linear, LayerNorm, ReLU."""

    linear: Linear
    scale: Float[Array, " Out"]
    shift: Float[Array, " Out"]

    def __init__(self, key: PRNGKeyArray, width_in: int, width_out: int) -> None:
        self.linear = Linear(key, width_in, width_out, scale=2.0**0.5)
        self.scale, self.shift = jnp.ones(width_out), jnp.zeros(width_out)

    def __call__(self, x: Float[Array, "*B In"]) -> Float[Array, "*B Out"]:
        """The block's features."""
        return jax.nn.relu(normalised(self.linear(x)) * self.scale + self.shift)


class Perceptron(eqx.Module):
    """Blocks in a row."""

    blocks: list[Block]

    def __init__(self, key: PRNGKeyArray, width_in: int, widths: Sequence[int]) -> None:
        sizes = (width_in, *widths)
        keys = jax.random.split(key, max(1, len(widths)))
        self.blocks = [Block(k, a, b) for k, a, b in zip(keys, sizes, sizes[1:], strict=False)]

    def __call__(self, x: Float[Array, "*B In"]) -> Float[Array, "*B Out"]:
        """The last block's features."""
        for block in self.blocks:
            x = block(x)
        return x


class Attention(eqx.Module):
    """Attention across agents with a residual; queries, keys and values come from one matrix product."""

    inward: Linear
    outward: Linear
    heads: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, width: int, heads: int) -> None:
        if width % heads:
            raise ValueError(f"{heads} attention heads cannot share a width of {width}")
        inward, outward = jax.random.split(key)
        self.inward, self.outward = Linear(inward, width, 3 * width), Linear(outward, width, width)
        self.heads = heads

    def __call__(self, x: Float[Array, "*B I D"]) -> Float[Array, "*B I D"]:
        """The agents' features after they looked at each other."""
        *lead, agents, width = x.shape
        parts = self.inward(x).reshape(*lead, agents, 3, self.heads, width // self.heads)
        query, key, value = parts[..., 0, :, :], parts[..., 1, :, :], parts[..., 2, :, :]
        scale = (width // self.heads) ** -0.5
        if agents <= FEW_AGENTS:
            scores = scale * jnp.sum(query[..., :, None, :, :] * key[..., None, :, :, :], axis=-1)
            weights = jax.nn.softmax(scores, axis=-2)
            mixed = jnp.sum(weights[..., None] * value[..., None, :, :, :], axis=-3)
        else:
            scores = scale * jnp.einsum("...ihd,...jhd->...hij", query, key)
            mixed = jnp.einsum("...hij,...jhd->...ihd", jax.nn.softmax(scores, axis=-1), value)
        return normalised(x + self.outward(mixed.reshape(x.shape)))
