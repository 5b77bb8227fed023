"""Noise that belongs to a joint action: hashed from a key and the actions, never stored.

The hash is threefry through `jax.random.fold_in`, one block for each 32-bit word of the packed joint action.
"""

import math
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

GAUSSIAN_SCALE = 2.0
UNIFORM_SCALE = 3.0
# The outermost of the 2^24 quantiles that `gaussian_plus_uniform` maps its bits to, with room for rounding.
NOISE_BOUND = GAUSSIAN_SCALE * NormalDist().inv_cdf(1 - 2.0**-25) + UNIFORM_SCALE + 1e-3


def joint_action_words(actions: Int[Array, " I"], num_actions: int) -> list[UInt32[Array, ""]]:
    """Pack a joint action `[I]` into as few 32-bit words as hold it, so that different ones differ."""
    digits = max(size for size in range(1, 33) if num_actions**size <= 2**32)
    chunks = [actions[start : start + digits] for start in range(0, actions.shape[0], digits)]
    weights = [num_actions ** np.arange(chunk.shape[0], dtype=np.uint64) for chunk in chunks]
    return [
        jnp.sum(chunk.astype(jnp.uint32) * weight.astype(np.uint32), dtype=jnp.uint32)
        for chunk, weight in zip(chunks, weights, strict=True)
    ]


def gaussian_plus_uniform(key: PRNGKeyArray) -> Float[Array, ""]:
    """N(0, 2²) + U(−3, 3) as a function of a hashed key's two words, bounded by `NOISE_BOUND`."""
    gaussian, uniform = jnp.moveaxis(_centred(jax.random.key_data(key)), -1, 0)
    return GAUSSIAN_SCALE * math.sqrt(2.0) * jax.lax.erf_inv(gaussian) + UNIFORM_SCALE * uniform


def _centred(bits: UInt32[Array, "*B"]) -> Float[Array, "*B"]:
    # Odd multiples of 2^-24: symmetric about zero, never ±1, and exact in float32.
    odd = 2 * (bits >> 8).astype(jnp.int32) + 1 - 2**24
    return odd.astype(jnp.float32) * 2.0**-24
