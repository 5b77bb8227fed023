"""The losses, each of one prediction and its target; the caller vmaps and averages."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from nonzero.surrogate.predictor import Link, Surrogate, value_loss


def cross_entropy(logits: Float[Array, "*B C"], target: Float[Array, "*B C"]) -> Float[Array, "*B"]:
    """−Σ_c target_c log p_c of a distribution over bins."""
    return -jnp.sum(target * jax.nn.log_softmax(logits, axis=-1), axis=-1)


def joint_log_probability(
    logits: Float[Array, "*B I A"], actions: Int[Array, "*B K I"]
) -> Float[Array, "*B K"]:
    """log π(a) = Σ_i log π_i(a_i) of K joint actions."""
    log_policy = jax.nn.log_softmax(logits, axis=-1)[..., None, :, :]
    return jnp.sum(jnp.take_along_axis(log_policy, actions[..., None], axis=-1)[..., 0], axis=-1)


def normalise_valid(x: Float[Array, "*B"], is_valid: Bool[Array, "*B"]) -> Float[Array, "*B"]:
    """Mean 0 and deviation 1 over all valid entries together; 0 elsewhere."""
    count = jnp.maximum(jnp.sum(is_valid), 1)
    mean = jnp.sum(jnp.where(is_valid, x, 0.0)) / count
    centred = jnp.where(is_valid, x - mean, 0.0)
    return centred * jax.lax.rsqrt(jnp.sum(centred**2) / count + 1e-10)


def advantage_weights(
    advantage: Float[Array, "*B"], *, temperature: float, largest: float
) -> Float[Array, "*B"]:
    """w = min(exp(Â / τ), w_max) of normalised advantages."""
    return jnp.minimum(jnp.exp(advantage / temperature), largest)


def policy_loss(
    logits: Float[Array, "I A"],
    actions: Int[Array, "K I"],
    shares: Float[Array, " K"],
    weights: Float[Array, " K"],
) -> Float[Array, ""]:
    """AWPO: −Σ_k share_k · w_k · log π(a_k), over a root's candidates with their shares of visits."""
    return -jnp.sum(shares * weights * joint_log_probability(logits, actions))


def consistency_loss(prediction: Float[Array, "I P"], target: Float[Array, "I P"]) -> Float[Array, ""]:
    """Minus the cosine between the views of an imagined and of the observed latent, mean over agents."""
    dot = jnp.sum(prediction * target, axis=-1)
    size = jnp.sum(prediction**2, axis=-1) * jnp.sum(target**2, axis=-1)
    return -jnp.mean(dot * jax.lax.rsqrt(size + 1e-8))


def surrogate_loss(
    theta: Surrogate, actions: Int[Array, " I"], value: Float[Array, ""], *, link: Link, ridge: float
) -> Float[Array, ""]:
    """The squared error of η at the joint action played, plus ridge·‖θ‖²."""
    size = sum(jnp.sum(leaf**2) for leaf in (theta.w, theta.v))
    return value_loss(theta, actions, value, link) + ridge * size
