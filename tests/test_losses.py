import jax
import jax.numpy as jnp
import numpy as np

from nonzero.surrogate.predictor import Link, Surrogate
from nonzero.training.losses import (
    advantage_weights,
    consistency_loss,
    cross_entropy,
    joint_log_probability,
    normalise_valid,
    policy_loss,
    surrogate_loss,
)

LOGITS = jnp.log(jnp.array([[0.5, 0.5], [0.25, 0.75]]))


def test_cross_entropy_by_hand() -> None:
    logits = jnp.log(jnp.array([0.5, 0.25, 0.25])) + 7.0
    np.testing.assert_allclose(
        cross_entropy(logits, jnp.array([0.5, 0.5, 0.0])), 1.5 * np.log(2.0), rtol=1e-6
    )


def test_joint_log_probability_by_hand() -> None:
    found = joint_log_probability(LOGITS, jnp.array([[0, 0], [1, 1]]))
    np.testing.assert_allclose(found, np.log([0.125, 0.375]), rtol=1e-6)


def test_advantages_normalise_over_valid_entries_alone() -> None:
    x = jnp.array([[1.0, 3.0], [99.0, 5.0]])
    is_valid = jnp.array([[True, True], [False, True]])
    # Mean 3, variance (4 + 0 + 4) / 3.
    unit = np.sqrt(8.0 / 3.0)
    np.testing.assert_allclose(normalise_valid(x, is_valid), [[-2 / unit, 0], [0, 2 / unit]], atol=1e-6)
    np.testing.assert_array_equal(normalise_valid(x, jnp.zeros((2, 2), bool)), 0.0)


def test_weights_are_exponential_and_clipped_above() -> None:
    found = advantage_weights(jnp.array([-3.0, 0.0, 3.0, 30.0]), temperature=3.0, largest=3.0)
    np.testing.assert_allclose(found, [np.exp(-1), 1.0, np.exp(1), 3.0], rtol=1e-6)


def test_policy_loss_by_hand() -> None:
    actions = jnp.array([[0, 0], [1, 1], [0, 1]])
    found = policy_loss(LOGITS, actions, jnp.array([0.75, 0.25, 0.0]), jnp.array([2.0, 1.0, 3.0]))
    np.testing.assert_allclose(found, -(1.5 * np.log(0.125) + 0.25 * np.log(0.375)), rtol=1e-6)


def test_policy_loss_has_no_pull_where_weights_are_even_and_samples_are_the_policys_own() -> None:
    # All four joint actions, weighed by their probability: the gradient of the log-likelihood is zero.
    actions = jnp.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    probability = jnp.exp(joint_log_probability(LOGITS, actions))
    gradient = jax.grad(policy_loss)(LOGITS, actions, probability, jnp.ones(4))
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)
    better = jnp.ones(4).at[3].set(2.0)
    gradient = jax.grad(policy_loss)(LOGITS, actions, probability, better)
    assert (gradient[:, 1] < -0.01).all()


def test_consistency_is_minus_the_cosine() -> None:
    prediction, target = jnp.array([[3.0, 0.0], [0.0, 2.0]]), jnp.array([[0.5, 0.0], [4.0, 0.0]])
    np.testing.assert_allclose(consistency_loss(prediction, target), -0.5, rtol=1e-5)


def test_surrogate_loss_by_hand() -> None:
    theta = Surrogate(jnp.float32(1.0), jnp.array([[0.0, 2.0], [0.0, 0.0]]), jnp.zeros((2, 2, 0)))
    link = Link(c=1.0, alpha=1.0)
    found = surrogate_loss(theta, jnp.array([1, 0]), jnp.float32(0.5), link=link, ridge=0.5)
    np.testing.assert_allclose(found, (np.arcsinh(3.0) - 0.5) ** 2 + 0.5 * 4.0, rtol=1e-6)
