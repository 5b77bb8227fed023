"""The return surrogate η(θ, a): its value, its finite differences, and the loss that teaches it.

    z(θ, a) = b + Σ_i w[i, a_i] + ½ Σ_f σ_f ((Σ_i v[i, a_i, f])² − Σ_i v[i, a_i, f]²)
    η(θ, a) = c · asinh(α z)

Rank R = 0 is the paper's asinh-GLM. Departure: R > 0 is the default, because a strictly increasing function
of a sum of per-agent terms has no local maximum that is not global, so it can never show that a pair of
changes helps where neither change helps alone. Nothing here enumerates joint actions: the work is O(I·A·R),
and O(m²·R) for the pairs of m directions. Functions take one θ and one joint action; the caller vmaps.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num, PRNGKeyArray


class Link(NamedTuple):
    """The fixed scale parameters of η = c·asinh(α z), for returns normalised to about one unit of
    spread."""

    c: float = 4.0
    alpha: float = 0.25


class Surrogate(eqx.Module):
    """θ: what one node (or one black box) has learned about the returns of its joint actions."""

    bias: Float[Array, "*B"]
    w: Float[Array, "*B I A"]
    v: Float[Array, "*B I A R"]

    @property
    def rank(self) -> int:
        """R, the number of pairwise factors."""
        return self.v.shape[-1]


class Directions(NamedTuple):
    """One-agent changes i←j."""

    agents: Int[Array, " M"]
    choices: Int[Array, " M"]


def init_surrogate(
    key: PRNGKeyArray, num_agents: int, num_actions: int, rank: int, scale: float = 0.1
) -> Surrogate:
    """θ that predicts almost nothing: small random factors, since all-zero ones would never move."""
    return Surrogate(
        bias=jnp.zeros(()),
        w=jnp.zeros((num_agents, num_actions)),
        v=scale * jax.random.normal(key, (num_agents, num_actions, rank)),
    )


def signs(rank: int) -> Float[Array, " R"]:
    """σ: alternating, so that factors can reward agreement and disagreement alike."""
    return jnp.where(jnp.arange(rank) % 2 == 0, 1.0, -1.0)


def chosen(table: Num[Array, "I A *R"], actions: Int[Array, " I"]) -> Num[Array, "I *R"]:
    """Each agent's row of a per-action table."""
    return table[jnp.arange(table.shape[0]), actions]


def score(theta: Surrogate, actions: Int[Array, " I"]) -> Float[Array, ""]:
    """z(θ, a)."""
    factors = chosen(theta.v, actions)
    pairwise = 0.5 * jnp.sum(signs(theta.rank) * (factors.sum(0) ** 2 - (factors**2).sum(0)))
    return theta.bias + chosen(theta.w, actions).sum() + pairwise


def apply_link(z: Float[Array, "*B"], link: Link) -> Float[Array, "*B"]:
    """η from z."""
    return link.c * jnp.arcsinh(link.alpha * z)


def invert_link(value: Float[Array, "*B"], link: Link) -> Float[Array, "*B"]:
    """z from η."""
    return jnp.sinh(value / link.c) / link.alpha


def link_slope(z: Float[Array, "*B"], link: Link) -> Float[Array, "*B"]:
    """dη/dz."""
    return link.c * link.alpha * jax.lax.rsqrt(1.0 + (link.alpha * z) ** 2)


def predict(theta: Surrogate, actions: Int[Array, " I"], link: Link) -> Float[Array, ""]:
    """η(θ, a)."""
    return apply_link(score(theta, actions), link)


def single_score_changes(theta: Surrogate, actions: Int[Array, " I"]) -> Float[Array, "I A"]:
    """δ_u = z(a^(u)) − z(a) of every direction u = (i←j); zero where j is the action played."""
    factors = chosen(theta.v, actions)
    others = signs(theta.rank) * (factors.sum(0) - factors)
    interaction = jnp.einsum("iaf,if->ia", theta.v - factors[:, None], others)
    return theta.w - chosen(theta.w, actions)[:, None] + interaction


def gains(
    theta: Surrogate, actions: Int[Array, " I"], score_changes: Float[Array, "*L"], link: Link
) -> Float[Array, "*L"]:
    """How much η grows where z changes by so much."""
    z = score(theta, actions)
    return apply_link(z + score_changes, link) - apply_link(z, link)


def single_gains(theta: Surrogate, actions: Int[Array, " I"], link: Link) -> Float[Array, "I A"]:
    """Δ_u η of every direction."""
    return gains(theta, actions, single_score_changes(theta, actions), link)


def pair_score_changes(
    theta: Surrogate, actions: Int[Array, " I"], directions: Directions
) -> Float[Array, "M M"]:
    """z(a^(u,v)) − z(a) for all pairs among M directions; meaningless where u and v move the same agent."""
    delta = single_score_changes(theta, actions)[directions]
    return delta[:, None] + delta[None, :] + interactions(theta, actions, directions)


def interactions(theta: Surrogate, actions: Int[Array, " I"], directions: Directions) -> Float[Array, "M M"]:
    """Δ²_{u,v} z of all pairs among M directions; meaningless where u and v move the same agent."""
    agents, choices = directions
    moved = theta.v[agents, choices] - theta.v[agents, actions[agents]]
    return (moved * signs(theta.rank)) @ moved.T


def pair_gains(
    theta: Surrogate, actions: Int[Array, " I"], directions: Directions, link: Link
) -> Float[Array, "M M"]:
    """η(a^(u,v)) − η(a) = Δ_u + Δ_v + Δ²_{u,v} for all pairs among M directions."""
    return gains(theta, actions, pair_score_changes(theta, actions, directions), link)


def mixed_differences(
    theta: Surrogate, actions: Int[Array, " I"], directions: Directions, link: Link
) -> Float[Array, "M M"]:
    """Δ²_{u,v} η = η(a^(u,v)) − η(a^(u)) − η(a^(v)) + η(a) for all pairs among M directions."""
    single = single_gains(theta, actions, link)[directions]
    return pair_gains(theta, actions, directions, link) - single[:, None] - single[None, :]


def moves_two_agents(directions: Directions) -> Bool[Array, "M M"]:
    """Which pairs of directions may be applied together."""
    return directions.agents[:, None] != directions.agents[None, :]


class Counterfactuals(NamedTuple):
    """One supervision sample x = (a, u, v): a joint action, two changes of it, and the four returns
    there."""

    actions: Int[Array, " I"]
    directions: Directions
    """u and v, M = 2, of different agents."""
    value: Float[Array, ""]
    single_values: Float[Array, "2"]
    """Returns of a^(u) and a^(v)."""
    pair_value: Float[Array, ""]


def four_square_loss(theta: Surrogate, sample: Counterfactuals, link: Link) -> Float[Array, ""]:
    """The mean of four squared errors (Eq. 7): value at a, value at a^(u), Δ_u and Δ²_{u,v}.

    Departure: Algorithm 1's Expand writes Δ² as η(a^(u,v)) − η(a), which is the pair's gain; the mixed
    difference of section 3.1 is what is meant, and used.
    """
    eta = predict(theta, sample.actions, link)
    gain = single_gains(theta, sample.actions, link)[sample.directions][0]
    curvature = mixed_differences(theta, sample.actions, sample.directions, link)[0, 1]
    value_u, value_v = sample.single_values
    errors = jnp.stack(
        [
            eta - sample.value,
            eta + gain - value_u,
            gain - (value_u - sample.value),
            curvature - (sample.pair_value - value_u - value_v + sample.value),
        ]
    )
    return jnp.mean(errors**2)


def value_loss(
    theta: Surrogate, actions: Int[Array, " I"], value: Float[Array, ""], link: Link
) -> Float[Array, ""]:
    """The squared error at one joint action whose return is known, such as search's Q of a candidate."""
    return (predict(theta, actions, link) - value) ** 2


def gradient_update(
    theta: Surrogate, gradient: Surrogate, learning_rate: float, *, max_norm: float = 1.0
) -> Surrogate:
    """One gradient step, shortened to `max_norm` since a factor model's gradient grows with its factors."""
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))
    step = learning_rate * jnp.minimum(1.0, max_norm / jnp.maximum(norm, 1e-12))
    return jax.tree.map(lambda leaf, slope: leaf - step * slope, theta, gradient)
