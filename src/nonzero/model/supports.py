"""Scalars as distributions over bins: MuZero's value transform, two-hot targets, and what falls outside.

    h(x) = sign(x)(√(|x| + 1) − 1) + εx,  ε = 0.001

Departure: the paper writes the root without |x|, which is not defined for x < −1. Departure: MAZero's bins
end at fixed numbers and clip whatever lies beyond; here they follow from the environment's return bounds, and
what is clipped can be counted.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

EPSILON = 0.001


def transform(x: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """h(x): about √|x| for large numbers, so that bins are narrow where numbers are small."""
    size = jnp.abs(x)
    # √(|x| + 1) − 1 without the cancellation that costs small numbers their digits.
    return jnp.sign(x) * size / (jnp.sqrt(size + 1.0) + 1.0) + EPSILON * x


def invert_transform(y: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """x of y = h(x)."""
    size = jnp.abs(y) + 1.0 + EPSILON
    root = 2.0 * size / (jnp.sqrt(1.0 + 4.0 * EPSILON * size) + 1.0)
    return jnp.sign(y) * (root - 1.0) * (root + 1.0)


@dataclass(frozen=True)
class Support:
    """Bins that lie evenly between h(low) and h(high); hashable, being a static part of models."""

    low: float
    high: float
    bins: int

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"a support needs finite bounds low < high, not {self.low} and {self.high}")
        if self.bins < 2:
            raise ValueError(f"a support needs at least 2 bins, not {self.bins}")

    @property
    def centres(self) -> Float[Array, " C"]:
        """The bins' places on the axis of h."""
        ends = transform(jnp.array([self.low, self.high], jnp.float32))
        return jnp.linspace(ends[0], ends[1], self.bins)

    def project(self, x: Float[Array, "*B"]) -> Float[Array, "*B C"]:
        """The distribution on the two bins around h(x) with mean h(x); on the last bin where x is outside."""
        centres = self.centres
        step = centres[1] - centres[0]
        place = jnp.clip((transform(x) - centres[0]) / step, 0.0, self.bins - 1.0)
        return jnp.maximum(0.0, 1.0 - jnp.abs(place[..., None] - jnp.arange(self.bins)))

    def mean(self, logits: Float[Array, "*B C"]) -> Float[Array, "*B"]:
        """The number that a distribution over bins, given as logits, stands for."""
        return invert_transform(jax.nn.softmax(logits, axis=-1) @ self.centres)

    def clips(self, x: Float[Array, "*B"]) -> Bool[Array, "*B"]:
        """Whether x lies outside; rounding at the ends does not count."""
        slack = 1e-4 * (self.high - self.low)
        return (x < self.low - slack) | (x > self.high + slack)


def support_of(return_bounds: tuple[float, float], bins: int) -> Support:
    """The support of rewards and values in games whose episode returns lie within `return_bounds`.

    What is left of an episode may be worth nothing, so 0 is always inside.
    """
    low, high = return_bounds
    return Support(min(0.0, low), max(0.0, high), bins)
