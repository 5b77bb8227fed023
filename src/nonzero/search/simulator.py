"""An environment as the search's model: planning without training.

A simulation's step is a step of the environment under fresh random keys, so the search knows the rules and
not the future. A base policy, if there is one, is the prior (mixed with uniform play) and, played to the end
of the episode, the value of a leaf; without one the prior is uniform and a leaf is worth nothing.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nonzero.types import BasePolicy, Environment, ModelOutputs, TimeStep


@dataclass(frozen=True)
class Simulator:
    """How an environment answers a search; hashable, being a static argument of compiled functions."""

    env: Environment[Any]
    base_policy: BasePolicy | None = None
    uniform_share: float = 0.25
    """The share of the prior that is uniform over legal actions."""
    rollout_steps: int | None = None
    """How long the base policy is played for a leaf's value; None for to the end of any episode."""
    discount: float = 1.0

    def root(self, state: Any, current: TimeStep, key: PRNGKeyArray) -> tuple[ModelOutputs, Any]:
        """What is known of a batch of states to plan from, as `search` takes it."""
        batch = current.reward.shape[0]
        prior_key, value_key = jax.random.split(key)
        logits = jax.vmap(self.prior)(state, current, jax.random.split(prior_key, batch))
        value = jax.vmap(self.rollout)(state, current, jax.random.split(value_key, batch))
        return ModelOutputs(logits, value, jnp.zeros(batch), jnp.ones(batch)), (state, current)

    def step(
        self, params: None, key: PRNGKeyArray, actions: Int[Array, "B I"], latent: Any
    ) -> tuple[ModelOutputs, Any]:
        """One simulated step of a batch, as `search` calls it."""
        del params
        state, _ = latent
        batch = actions.shape[0]
        step_key, prior_key, value_key = (jax.random.split(k, batch) for k in jax.random.split(key, 3))
        state, current = jax.vmap(self.env.step)(state, actions, step_key)
        logits = jax.vmap(self.prior)(state, current, prior_key)
        value = jax.vmap(self.rollout)(state, current, value_key)
        discount = jnp.where(current.is_last, 0.0, self.discount)
        return ModelOutputs(logits, value, current.reward, discount), (state, current)

    def prior(self, state: Any, current: TimeStep, key: PRNGKeyArray) -> Float[Array, "I A"]:
        """Logits of the base policy's actions mixed with uniform play; legal actions only."""
        legal = current.legal
        uniform = legal / jnp.maximum(jnp.sum(legal, axis=-1, keepdims=True), 1)
        if self.base_policy is None:
            return jnp.log(uniform)
        chosen = jax.nn.one_hot(self.base_policy(state, key), legal.shape[-1])
        return jnp.log((1.0 - self.uniform_share) * chosen * legal + self.uniform_share * uniform)

    def rollout(self, state: Any, current: TimeStep, key: PRNGKeyArray) -> Float[Array, ""]:
        """The discounted return of the base policy from here on; nothing without one, and past the end."""
        policy = self.base_policy
        if policy is None:
            return jnp.zeros(())
        most = self.env.spec.max_steps if self.rollout_steps is None else self.rollout_steps

        def goes_on(carry: tuple) -> Array:
            return ~carry[1] & (carry[2] < most)

        def play(carry: tuple) -> tuple:
            state, _, count, total, key = carry
            key, action_key, step_key = jax.random.split(key, 3)
            state, now = self.env.step(state, policy(state, action_key), step_key)
            return state, now.is_last, count + 1, total + self.discount**count * now.reward, key

        start = (state, current.is_last, jnp.int32(0), jnp.zeros(()), key)
        return jax.lax.while_loop(goes_on, play, start)[3]
