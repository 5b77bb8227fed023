"""Play: the search chooses for a batch of environments, and what happened is kept for learning."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero.envs.wrappers import AutoReset, AutoResetState
from nonzero.model.inference import extend_history, initial_inference, recurrent_inference, start_history
from nonzero.model.networks import Model
from nonzero.search import Rules, SearchResult, search
from nonzero.search.gradient import changed, random_directions
from nonzero.surrogate.posterior import Forecast
from nonzero.surrogate.predictor import Surrogate
from nonzero.training.settings import SearchSettings
from nonzero.types import ModelOutputs


class PolicyTargets(eqx.Module):
    """What a search found for its root, as far as learning uses it."""

    actions: Int[Array, "*B K I"]
    shares: Float[Array, "*B K"]
    """Of the visits; 0 in an empty slot."""
    q: Float[Array, "*B K"]
    value: Float[Array, "*B"]
    """The model's own value of the root, from which advantages are measured."""


class Step(eqx.Module):
    """One step of play: what was seen, what was done, what followed, what the search had found."""

    obs: Float[Array, "*B I O"]
    legal: Bool[Array, "*B I A"]
    is_first: Bool[Array, "*B"]
    actions: Int[Array, "*B I"]
    reward: Float[Array, "*B"]
    terminated: Bool[Array, "*B"]
    truncated: Bool[Array, "*B"]
    policy: PolicyTargets


class Play(eqx.Module):
    """Environments in the middle of their episodes, [E, ...]."""

    envs: AutoResetState
    history: Float[Array, "E L I O"]
    is_first: Bool[Array, " E"]
    returned: Float[Array, " E"]
    """Reward of the running episodes so far."""


class Finished(eqx.Module):
    """Episodes that ended within one step of all environments."""

    is_last: Bool[Array, " E"]
    returned: Float[Array, " E"]
    won: Bool[Array, " E"]


def start_play(env: AutoReset[Any], key: PRNGKeyArray, num_envs: int, length: int) -> Play:
    """All environments at the start of an episode, with histories of `length`."""
    envs, first = jax.vmap(env.reset)(jax.random.split(key, num_envs))
    return Play(envs, start_history(first.obs, length), jnp.ones(num_envs, bool), jnp.zeros(num_envs))


def with_forecast(outputs: ModelOutputs) -> ModelOutputs:
    """The outputs with the mixing network's θ, if there is one, as the search knows it."""
    theta = outputs.surrogate
    if theta is None:
        return outputs
    forecast = Forecast(Surrogate(theta.bias, theta.w, theta.v), theta.unit, theta.error)
    return eqx.tree_at(lambda o: o.surrogate, outputs, forecast)


def imagined(
    model: Model, key: PRNGKeyArray, actions: Int[Array, "B I"], latent: Float[Array, "B I D"]
) -> tuple[ModelOutputs, Float[Array, "B I D"]]:
    """One step of the model, as the search asks for it."""
    outputs, following = recurrent_inference(model, key, actions, latent)
    return with_forecast(outputs), following


def plan(
    model: Model,
    history: Float[Array, "B L I O"],
    legal: Bool[Array, "B I A"],
    key: PRNGKeyArray,
    rules: Rules,
    settings: SearchSettings,
) -> tuple[SearchResult, Float[Array, "B"]]:
    """Search from observed states; also the model's own values of them."""
    outputs, latent = initial_inference(model, history)
    result = search(
        imagined,
        model,
        (with_forecast(outputs), latent),
        key,
        num_simulations=settings.simulations,
        num_candidates=settings.candidates,
        rules=rules,
        legal=legal,
        is_exact=False,
        dirichlet_fraction=settings.dirichlet_fraction,
        dirichlet_alpha=settings.dirichlet_alpha,
        temperature=settings.temperature,
    )
    return result, outputs.value


def policy_targets(result: SearchResult, value: Float[Array, "B"]) -> PolicyTargets:
    """The targets in a search's result."""
    return PolicyTargets(result.candidates.actions, result.weights, result.q, value)


def explored(
    actions: Int[Array, "E I"], legal: Bool[Array, "E I A"], key: PRNGKeyArray, share: float
) -> Int[Array, "E I"]:
    """The joint actions with, in a `share` of the rows, two agents' actions drawn anew.

    Departure: noise at the root moves all agents at once, and a learned model is asked before anything is
    done. Where a joint action pays by itself, only doing it tells, and the ones to try are close to the best.
    """
    if share == 0 or actions.shape[1] == 1:
        return actions
    coin_key, change_key = jax.random.split(key)
    *_, both = changed(actions, *random_directions(legal, change_key))
    return jnp.where(jax.random.bernoulli(coin_key, share, (actions.shape[0], 1)), both, actions)


def collect(
    env: AutoReset[Any], model: Model, play: Play, key: PRNGKeyArray, rules: Rules, settings: SearchSettings
) -> tuple[Play, Step, Finished]:
    """One step of every environment, chosen by search."""
    search_key, step_key, change_key = jax.random.split(key, 3)
    current = play.envs.current
    result, value = plan(model, play.history, current.legal, search_key, rules, settings)
    actions = explored(result.action, current.legal, change_key, settings.changed_share)
    step_keys = jax.random.split(step_key, current.reward.shape[0])
    envs, outcome = jax.vmap(env.step)(play.envs, actions, step_keys)
    step = Step(
        obs=current.obs,
        legal=current.legal,
        is_first=play.is_first,
        actions=actions,
        reward=outcome.reward,
        terminated=outcome.terminated,
        # Both at once is an end: what would have followed is worth nothing.
        truncated=outcome.truncated & ~outcome.terminated,
        policy=policy_targets(result, value),
    )
    returned = play.returned + outcome.reward
    following = Play(
        envs=envs,
        history=extend_history(play.history, envs.current.obs, outcome.is_last),
        is_first=outcome.is_last,
        returned=jnp.where(outcome.is_last, 0.0, returned),
    )
    return following, step, Finished(outcome.is_last, returned, outcome.won)
