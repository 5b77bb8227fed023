"""Fit θ to a history of joint actions and their returns, one agent's rows at a time, in closed form.

With every other agent's rows fixed, z is linear in agent i's rows: z = rest + w[i, j] + v[i, j]·(σ ∘
Σ_{k≠i} v[k, a_k]) wherever agent i played j. So the best rows of one agent are d separate ridge regressions
of R + 1 unknowns, and a sweep over the agents costs O(T·I·(A + R²)): no step size to tune, and no (I·A)²
anywhere.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
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
    sigma = signs(theta.rank)
    prior = ridge.noise * jnp.concatenate(
        [jnp.full((1,), 1.0 / ridge.w), jnp.full((theta.rank,), 1.0 / ridge.v)]
    )

    def rows_of(table: Float[Array, "I A *R"]) -> Float[Array, "T I *R"]:
        return jax.vmap(lambda rows, actions: rows[actions], in_axes=(0, 1), out_axes=1)(
            table, history.actions
        )

    linear, factors = rows_of(theta.w).sum(1), rows_of(theta.v)
    totals = factors.sum(1)
    pairwise = 0.5 * ((totals**2 - (factors**2).sum(1)) @ sigma)
    error = target - linear - pairwise
    bias = jnp.sum(weights * error) / (jnp.sum(weights) + 1e-6)
    residual = error - bias

    def refit_agent(carry, agent_rows):
        residual, totals = carry
        w, v, actions = agent_rows
        own = v[actions]
        features = jnp.concatenate([jnp.ones((own.shape[0], 1)), (totals - own) * sigma], axis=1)
        rows = jnp.concatenate([w[:, None], v], axis=1)
        wanted = residual + jnp.sum(features * rows[actions], axis=1)
        members = jax.nn.one_hot(actions, num_actions, axis=0) * weights
        size = features.shape[1]
        squares = (features[:, :, None] * features[:, None, :]).reshape(-1, size * size)
        matrices = (members @ squares).reshape(num_actions, size, size) + jnp.diag(prior)
        rows = solve_positive(matrices, members @ (features * wanted[:, None]))
        new_own = rows[actions, 1:]
        residual = wanted - jnp.sum(features * rows[actions], axis=1)
        return (residual, totals + new_own - own), (rows[:, 0], rows[:, 1:])

    rows = (theta.w, theta.v, history.actions.T)
    (residual, _), (w, v) = jax.lax.scan(refit_agent, (residual, totals), rows)
    # To first order dη = η'(z) dz, and the weights hold η'(z)² already.
    error = jnp.sum(weights * residual**2) / jnp.maximum(jnp.sum(history.weights), 1.0)
    return Surrogate(bias=bias, w=w, v=v), error
