"""From sampled windows to a loss: the model is unrolled along what was played and held against targets."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from nonzero.model.inference import window_histories
from nonzero.model.networks import Mixing, Model
from nonzero.surrogate.predictor import Link, Surrogate
from nonzero.training.losses import (
    advantage_weights,
    consistency_loss,
    cross_entropy,
    normalise_valid,
    policy_loss,
    surrogate_loss,
)
from nonzero.training.rollout import PolicyTargets, Step
from nonzero.training.settings import LossSettings, TargetSettings
from nonzero.training.targets import n_step_returns, reach

LOSSES = ("reward", "value", "policy", "consistency", "surrogate", "entropy")
"""Their names, which are those of their weights in the settings."""


class Batch(eqx.Module):
    """Windows as the loss sees them: a sampled position and U imagined steps after it, P = U + 1 in all."""

    histories: Float[Array, "B P L I O"]
    legal: Bool[Array, "B P I A"]
    actions: Int[Array, "B U I"]
    rewards: Float[Array, "B U"]
    values: Float[Array, "B P"]
    gains: Float[Array, "B U"]
    """What the joint action played turned out to be worth: its reward, or r + γ v(next) − v."""
    is_inside: Bool[Array, "B P"]
    """Whether the position still belongs to the episode."""
    is_known: Bool[Array, "B P"]
    """Whether it is known what the position is worth."""
    policy: PolicyTargets
    policy_weight: Float[Array, "B"]
    """Weight of the window's policy targets, before the replay's."""


def new_batch(
    target: Model, windows: Step, age: Int[Array, "B"], settings: TargetSettings, length: int
) -> Batch:
    """Windows with their targets, values bootstrapped from the `target` network."""
    unroll, steps = settings.unroll_steps, settings.return_steps
    histories = jax.vmap(window_histories, (0, 0, None))(windows.obs, windows.is_first, length)
    value = target.support.mean(target.value_head(target.represent(histories)))
    after = jax.tree.map(lambda x: x[:, length - 1 :], windows)
    horizon = jnp.full(age.shape, steps)
    if settings.old_after:
        horizon = jnp.clip(steps - age // settings.old_after, 1, steps)

    def returns(steps: int, horizon: Int[Array, "B"]) -> Float[Array, "B T"]:
        one = partial(n_step_returns, discount=settings.discount, steps=steps)
        return jax.vmap(one)(after.reward, value, after.terminated, after.truncated, horizon=horizon)

    inside, known = jax.vmap(reach)(after.terminated, after.truncated)
    values = returns(steps, horizon)
    gains = rewards = jnp.where(inside, after.reward, 0.0)[:, :unroll]
    if settings.gain == "return":
        gains = returns(1, jnp.ones_like(horizon))[:, :unroll] - value[:, :unroll]
    first = slice(0, unroll + 1)
    return Batch(
        histories=histories[:, first],
        legal=after.legal[:, first],
        actions=after.actions[:, :unroll],
        rewards=rewards,
        values=jnp.where(inside[:, first], values[:, first], 0.0),
        gains=gains,
        is_inside=inside[:, first],
        is_known=known[:, first],
        policy=jax.tree.map(lambda x: x[:, first], after.policy),
        policy_weight=jnp.full(age.shape, settings.stored_weight),
    )


def unroll(
    model: Model, latent: Float[Array, "B I D"], actions: Int[Array, "B U I"]
) -> tuple[Float[Array, "B P I D"], Float[Array, "B U C"]]:
    """The latents along `actions`, and logits of the rewards; each step passes half of its gradient back."""

    def step(latent: Array, action: Array) -> tuple[Array, tuple[Array, Array]]:
        halved = 0.5 * (latent + jax.lax.stop_gradient(latent))
        following, reward = model.imagine(halved, action)
        return following, (following, reward)

    _, (latents, rewards) = jax.lax.scan(step, latent, jnp.swapaxes(actions, 0, 1))
    latents = jnp.concatenate([latent[None], latents])
    return jnp.swapaxes(latents, 0, 1), jnp.swapaxes(rewards, 0, 1)


def batch_loss(
    model: Model, batch: Batch, weights: Float[Array, "B"], settings: LossSettings, link: Link
) -> tuple[Float[Array, ""], tuple[dict[str, Float[Array, ""]], Float[Array, "B"]]]:
    """The weighted loss of a batch; besides it what to report, and the error of each first value."""
    latents, reward_logits = unroll(model, model.represent(batch.histories[:, 0]), batch.actions)
    value_logits = model.value_head(latents)
    support, known = model.support, batch.is_known
    losses = {
        "value": cross_entropy(value_logits, support.project(batch.values)) * known,
        "reward": cross_entropy(reward_logits, support.project(batch.rewards)) * known[:, :-1],
    }
    losses |= policy_losses(model, latents, batch, settings, link)
    if settings.consistency > 0:
        observed = jax.lax.stop_gradient(model.project(model.represent(batch.histories[:, 1:])))
        imagined = model.predict_projection(latents[:, 1:])
        agreement = jax.vmap(jax.vmap(consistency_loss))(imagined, observed)
        losses["consistency"] = agreement * batch.is_inside[:, 1:]
    num_steps = batch.actions.shape[1]
    means = {name: jnp.mean(weights * jnp.sum(loss, axis=1)) / num_steps for name, loss in losses.items()}
    total = sum((getattr(settings, name) * mean for name, mean in means.items()), jnp.zeros(()))
    error = jnp.abs(support.mean(value_logits[:, 0]) - batch.values[:, 0])
    clipped = jnp.mean(support.clips(batch.values)) + jnp.mean(support.clips(batch.rewards))
    report = {f"loss/{name}": means.get(name, jnp.zeros(())) for name in LOSSES}
    report |= {"loss/total": total, "clipped": clipped, "value_error": jnp.mean(error)}
    return total, (report, error)


def policy_losses(
    model: Model, latents: Float[Array, "B P I D"], batch: Batch, settings: LossSettings, link: Link
) -> dict[str, Float[Array, "B P"]]:
    """The policy's loss and minus its entropy, and the surrogate's loss."""
    logits, policy = model.policy_head(latents), batch.policy
    trust = batch.policy_weight / jnp.maximum(jnp.mean(batch.policy_weight), 1e-6)
    is_valid = (policy.shares > 0) & (batch.is_inside & (trust > 0)[:, None])[..., None]
    advantage = normalise_valid(policy.q - policy.value[..., None], is_valid)
    worth = advantage_weights(
        advantage, temperature=settings.advantage_temperature, largest=settings.advantage_clip
    )
    shares = jnp.where(is_valid, policy.shares, 0.0) * trust[:, None, None]
    losses = {"policy": jax.vmap(jax.vmap(policy_loss))(logits, policy.actions, shares, worth)}
    log_policy = jax.nn.log_softmax(jnp.where(batch.legal, logits, -1e9))
    losses["entropy"] = (
        jnp.mean(jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1), axis=-1) * batch.is_inside
    )
    if model.mixing is not None:
        losses["surrogate"] = mixing_losses(model.mixing, latents[:, :-1], batch, settings, link)
    return losses


def mixing_losses(
    mixing: Mixing, latents: Float[Array, "B U I D"], batch: Batch, settings: LossSettings, link: Link
) -> Float[Array, "B U"]:
    """The surrogate's loss at the joint actions played, whose gains are known.

    Departure: the paper's mixing network learns from what the reward head says of joint actions that were not
    played. What was really gained asks no model, and teaches as much: θ has so few parameters that each of
    them was in hundreds of joint actions played.
    """
    theta = mixing(latents)
    surrogate = Surrogate(theta.bias, theta.w, theta.v)
    fit = partial(surrogate_loss, link=link, ridge=settings.surrogate_ridge)
    losses = jax.vmap(jax.vmap(fit))(surrogate, batch.actions, (batch.gains - theta.centre) / theta.unit)
    return losses * (batch.is_inside & batch.is_known)[:, :-1]
