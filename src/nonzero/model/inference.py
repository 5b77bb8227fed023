"""The two questions that a search asks a model, and the histories of observations that it is asked with."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero.model.networks import Model
from nonzero.types import ModelOutputs

Latent = Float[Array, "B I D"]


def initial_inference(model: Model, history: Float[Array, "B L I O"]) -> tuple[ModelOutputs, Latent]:
    """What the model says of observed states, in the form of a search's root."""
    latent = model.represent(history)
    return outputs(model, latent, jnp.zeros(latent.shape[0])), latent


def recurrent_inference(
    model: Model, key: PRNGKeyArray, actions: Int[Array, "B I"], latent: Latent
) -> tuple[ModelOutputs, Latent]:
    """What the model says of the states after `actions`, as `nonzero.search.search` calls it."""
    del key
    following, reward = model.imagine(latent, actions)
    return outputs(model, following, model.support.mean(reward)), following


def outputs(model: Model, latent: Latent, reward: Float[Array, "B"]) -> ModelOutputs:
    """The heads' say on latents that were reached with `reward`."""
    return ModelOutputs(
        policy_logits=model.policy_head(latent),
        value=model.support.mean(model.value_head(latent)),
        reward=reward,
        discount=jnp.full(latent.shape[0], model.discount),
        surrogate=None if model.mixing is None else model.mixing(latent),
    )


def start_history(obs: Float[Array, "*B I O"], length: int) -> Float[Array, "*B L I O"]:
    """The history at an episode's start: its first observation, repeated."""
    return jnp.repeat(obs[..., None, :, :], length, axis=-3)


def extend_history(
    history: Float[Array, "B L I O"], obs: Float[Array, "B I O"], is_first: Bool[Array, "B"]
) -> Float[Array, "B L I O"]:
    """The history after `obs`, begun anew where that opens an episode."""
    longer = jnp.concatenate([history[:, 1:], obs[:, None]], axis=1)
    fresh = start_history(obs, history.shape[1])
    return jnp.where(is_first[:, None, None, None], fresh, longer)


def window_histories(
    obs: Float[Array, "T I O"], is_first: Bool[Array, " T"], length: int
) -> Float[Array, "U L I O"]:
    """The histories at the U steps from length − 1 on of a stretch of play, as `extend_history` built them.

    `is_first[t]` says whether step t opens an episode.
    """
    steps = obs.shape[0] - length + 1
    stack = [obs[length - 1 :]]
    begun = jnp.zeros(steps, bool)
    for back in range(1, length):
        # Once the episode's first step is reached, its observation is repeated.
        begun = begun | jax.lax.dynamic_slice_in_dim(is_first, length - back, steps)
        earlier = obs[length - 1 - back : length - 1 - back + steps]
        stack.append(jnp.where(begun[:, None, None], stack[-1], earlier))
    return jnp.stack(stack[::-1], axis=1)
