"""Fit θ to a history of joint actions and their returns, one agent's rows at a time, in closed form.

With every other agent's rows fixed, z is linear in agent i's rows: z = rest + w[i, j] + v[i, j]·(σ ∘
Σ_{k≠i} v[k, a_k]) wherever agent i played j. So the best rows of one agent are d separate ridge regressions
of R + 1 unknowns, and a sweep over the agents costs O(T·I·(A + R²)): no step size to tune, and no (I·A)²
anywhere.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from nonzero.surrogate.predictor import Link, Surrogate, invert_link, link_slope, signs


class History(NamedTuple):
    """Evaluated joint actions and their normalised returns; rows of weight 0 are empty."""

    actions: Int[Array, "T I"]
    values: Float[Array, " T"]
    weights: Float[Array, " T"]


class Ridge(NamedTuple):
    """Variances assumed before any data: of a return's noise, of an entry of w, of an entry of v."""

    noise: Float[Array, ""] | float
    w: float
    v: float


def solve_positive(matrices: Float[Array, "A P P"], rows: Float[Array, "A P"]) -> Float[Array, "A P"]:
    """x of matrix·x = row for many tiny positive definite matrices: elimination, unrolled over P.

    A batched LAPACK call costs microseconds per matrix, more than all arithmetic here.
    """
    size = rows.shape[-1]
    augmented = jnp.concatenate([matrices, rows[..., None]], axis=-1)
    for column in range(size):
        pivot = augmented[:, column, :] / augmented[:, column, column, None]
        augmented = augmented - augmented[:, :, column, None] * pivot[:, None, :]
        augmented = augmented.at[:, column, :].set(pivot)
    return augmented[..., -1]


def sweep(theta: Surrogate, history: History, link: Link, ridge: Ridge) -> tuple[Surrogate, Float[Array, ""]]:
    """Refit the bias, then each agent's rows in turn; also returns the mean squared error left in η.

    Values are fitted in z, where they are linear, with weights dη/dz squared, so that what is made small is
    the squared error in η.
    """
    target = invert_link(history.values, link)
    weights = history.weights * link_slope(target, link) ** 2
    num_actions = theta.w.shape[1]
    sigma = signs(theta.rank)[:, None]
    prior = ridge.noise * jnp.diag(jnp.array([1.0 / ridge.w] + [1.0 / ridge.v] * theta.rank))
    # Everything keeps T last, and look-ups are products with one-hot rows: both are many times quicker here.
    members = (history.actions.T[:, None, :] == np.arange(num_actions)[:, None]).astype(jnp.float32)
    factors = jnp.einsum("iar,iat->irt", theta.v, members)
    totals = factors.sum(0)
    pairwise = 0.5 * jnp.sum(sigma * (totals**2 - (factors**2).sum(0)), axis=0)
    error = target - jnp.einsum("ia,iat->t", theta.w, members) - pairwise
    bias = jnp.sum(weights * error) / (jnp.sum(weights) + 1e-6)
    left, right, place = symmetric_entries(theta.rank + 1)

    def refit_agent(carry, agent):
        residual, totals = carry
        w, v, is_played, own = agent
        features = jnp.concatenate([jnp.ones_like(residual)[None], (totals - own) * sigma])
        old = jnp.concatenate([w[None], v.T]) @ is_played
        wanted = residual + jnp.sum(features * old, axis=0)
        terms = jnp.concatenate([features[left] * features[right], features * wanted])
        sums = (is_played * weights) @ terms.T
        matrices = sums[:, : left.size][:, place] + prior
        rows = solve_positive(matrices, sums[:, left.size :])
        new = rows.T @ is_played
        residual = wanted - jnp.sum(features * new, axis=0)
        return (residual, totals + new[1:] - own), (rows[:, 0], rows[:, 1:])

    agents = (theta.w, theta.v, members, factors)
    (residual, _), (w, v) = jax.lax.scan(refit_agent, (error - bias, totals), agents)
    # To first order dη = η'(z) dz, and the weights hold η'(z)² already.
    error = jnp.sum(weights * residual**2) / jnp.maximum(jnp.sum(history.weights), 1.0)
    return Surrogate(bias=bias, w=w, v=v), error


def symmetric_entries(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row and column of each entry that a symmetric matrix does not repeat, and the place of every entry."""
    left, right = np.triu_indices(size)
    place = np.zeros((size, size), int)
    place[left, right] = place[right, left] = np.arange(left.size)
    return left, right, place
