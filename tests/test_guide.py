"""The guide at the root: what it expects of a policy, and what it makes of models with and without chance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nonzero.search import preset, search
from nonzero.search.check import check_step
from nonzero.search.guide import Guide, lean, start
from nonzero.types import ModelOutputs

BATCH, AGENTS, ACTIONS = 2, 3, 4
PAYOFF = np.random.default_rng(0).normal(size=(ACTIONS,) * AGENTS).astype(np.float32)


def outputs(reward: jax.Array) -> ModelOutputs:
    zero = jnp.zeros(reward.shape)
    return ModelOutputs(jnp.zeros((*reward.shape, AGENTS, ACTIONS)), zero, reward, zero + 1.0)


def payoff(params: None, key: jax.Array, actions: jax.Array, latent: jax.Array) -> tuple:
    del key  # no chance
    return outputs(jnp.asarray(PAYOFF)[tuple(actions.T)]), latent


def noisy_payoff(params: None, key: jax.Array, actions: jax.Array, latent: jax.Array) -> tuple:
    said, latent = payoff(params, key, actions, latent)
    noise = 0.1 * jax.random.normal(key, said.reward.shape)
    return outputs(said.reward + noise), latent


ROOT = (outputs(jnp.zeros(BATCH)), jnp.zeros(BATCH))


@pytest.mark.parametrize(("step", "has_chance"), [(payoff, False), (noisy_payoff, True)])
def test_a_model_has_chance_if_its_answers_use_the_key(step, has_chance: bool) -> None:
    assert check_step(step, None, jax.random.key(0), *ROOT) is has_chance


def test_without_chance_no_joint_action_is_asked_for_twice_and_the_best_one_asked_is_taken() -> None:
    asked = []

    def step(params: None, key: jax.Array, actions: jax.Array, latent: jax.Array) -> tuple:
        jax.debug.callback(lambda joint: asked.append(np.asarray(joint)), actions)
        return payoff(params, key, actions, latent)

    count = 20
    result = search(
        step,
        None,
        ROOT,
        jax.random.key(3),
        num_simulations=count,
        num_candidates=5,
        rules=preset("flat"),
        temperature=0.0,
    )
    jax.block_until_ready(result)
    for row in range(BATCH):
        joint = [tuple(x[row].tolist()) for x in asked]
        assert len(joint) == len(set(joint)) == count
        best = max(PAYOFF[x] for x in joint)
        assert PAYOFF[tuple(result.action[row].tolist())] == pytest.approx(best)


def test_with_chance_good_joint_actions_are_asked_for_again() -> None:
    options = {"num_simulations": 40, "num_candidates": 5, "rules": preset("flat")}
    often = search(noisy_payoff, None, ROOT, jax.random.key(3), **options).visits.max()
    once = search(payoff, None, ROOT, jax.random.key(3), **options).visits.max()
    assert often > 10
    assert once < 10


def test_the_guide_leans_on_the_policy_by_nats_and_not_beyond_its_limit() -> None:
    guide = Guide(policy_weight=0.5, most_nats=3.0)
    policy = jnp.log(jnp.array([[[0.7, 0.2, 0.1, 0.0], [0.25, 0.25, 0.25, 0.25]]]))
    legal = jnp.array([[[True, True, True, True], [False, True, True, True]]])
    deviation = np.sqrt(guide.beliefs.variances(2)[0])
    expected = np.zeros((2, 4))
    expected[0] = [0.0, np.log(0.2 / 0.7), np.log(0.1 / 0.7), -3.0]
    np.testing.assert_allclose(lean(guide, policy, legal)[0, 0], 0.5 * deviation * expected[0], rtol=1e-5)
    np.testing.assert_array_equal(lean(guide, policy, legal)[0, 1, 1:], 0.0)
    root = ModelOutputs(policy, jnp.zeros(1), jnp.zeros(1), jnp.ones(1))
    np.testing.assert_array_equal(start(guide, root, legal, 5).prior.w, lean(guide, policy, legal))
