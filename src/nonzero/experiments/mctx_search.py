"""mctx's MuZero search over sampled joint actions: what people plan with today, to be measured against."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from nonzero.evaluation.episodes import Decision, root_of
from nonzero.search.expand import Expansion, merged, root_policy, sample
from nonzero.search.simulator import Simulator
from nonzero.types import ModelOutputs, NonZeroError, TimeStep


def mctx_search(
    recurrent_fn: Callable[..., tuple[ModelOutputs, Any]],
    params: Any,
    root: tuple[ModelOutputs, Any],
    key: PRNGKeyArray,
    *,
    num_simulations: int,
    num_candidates: int,
    legal: Bool[Array, "B I A"] | None = None,
    dirichlet_fraction: float = 0.25,
    temperature: float = 1.0,
) -> tuple[Int[Array, "B I"], Any]:
    """Joint actions [B, I] and mctx's answer, from the arguments of `nonzero.search.search`.

    An action of mctx is one of the joint actions sampled at a node, which the embedding carries.
    """
    try:
        mctx: Any = importlib.import_module("mctx")
    except ImportError as error:
        raise NonZeroError("measuring mctx needs it: pip install 'nonzero-mcts[bench]'") from error
    batch, num_agents, _ = root[0].policy_logits.shape

    def sampled(key: PRNGKeyArray, policy: Array, possible: Array) -> tuple[Array, Array, Array]:
        draws = jax.random.uniform(key, (batch, num_candidates, num_agents))
        candidates = merged(sample(policy, possible, draws), num_candidates)
        return candidates.actions, jnp.log(jnp.maximum(candidates.prior, 1e-30)), candidates.filled

    def step(params: Any, key: PRNGKeyArray, slot: Array, node: tuple) -> tuple[Any, tuple]:
        latent, actions = node
        chosen = actions[jnp.arange(batch), slot]
        step_key, sample_key = jax.random.split(key)
        outputs, following = recurrent_fn(params, step_key, chosen, latent)
        policy = jax.nn.softmax(outputs.policy_logits)
        actions, logits, _ = sampled(sample_key, policy, policy > 0)
        answer = mctx.RecurrentFnOutput(
            reward=outputs.reward, discount=outputs.discount, prior_logits=logits, value=outputs.value
        )
        return answer, (following, actions)

    outputs, latent = root
    legal = jnp.ones(outputs.policy_logits.shape, bool) if legal is None else legal
    sample_key, search_key = jax.random.split(key)
    policy = root_policy(Expansion(), outputs.policy_logits, legal, jnp.zeros(legal.shape))
    actions, logits, filled = sampled(sample_key, policy, legal)
    start = mctx.RootFnOutput(prior_logits=logits, value=outputs.value, embedding=(latent, actions))
    answer = mctx.muzero_policy(
        params,
        search_key,
        start,
        step,
        num_simulations,
        invalid_actions=~filled,
        dirichlet_fraction=dirichlet_fraction,
        temperature=temperature,
    )
    return actions[jnp.arange(batch), answer.action], answer


@dataclass(frozen=True)
class MctxPlanner:
    """A player that plans with mctx, the environment being its model."""

    simulator: Simulator
    num_simulations: int
    num_candidates: int

    def __call__(self, state: Any, current: TimeStep, key: PRNGKeyArray) -> Decision:
        """Search from each state and take the most visited joint action."""
        root_key, search_key = jax.random.split(key)
        root = root_of(self.simulator, state, current, root_key)
        actions = actions_from(self, root, current.legal, search_key)
        return Decision(actions, simulations=self.num_simulations, model_evaluations=self.num_simulations)


@partial(jax.jit, static_argnums=0)
def actions_from(
    planner: MctxPlanner, root: tuple, legal: Bool[Array, "B I A"], key: PRNGKeyArray
) -> Int[Array, "B I"]:
    """The planner's search."""
    actions, _ = mctx_search(
        planner.simulator.step,
        None,
        root,
        key,
        num_simulations=planner.num_simulations,
        num_candidates=planner.num_candidates,
        legal=legal,
        dirichlet_fraction=0.0,
        temperature=0.0,
    )
    return actions
