"""The exact posterior: against linear algebra in double precision, and what it takes chance to be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nonzero.surrogate.choice import choose
from nonzero.surrogate.posterior import (
    Beliefs,
    Scale,
    Told,
    coefficients,
    nothing_told,
    scale,
    surprises,
    tell,
)
from nonzero.surrogate.predictor import Surrogate

AGENTS, ACTIONS = 3, 4
NO_PRIOR = Surrogate(jnp.zeros(()), jnp.zeros((AGENTS, ACTIONS)), jnp.zeros((AGENTS, ACTIONS, 0)))


def told_of(history: list[tuple[tuple[int, ...], float]], beliefs: Beliefs, level: int = 1) -> Told:
    told = nothing_told(len(history) + 2, AGENTS)
    step = jax.jit(tell, static_argnums=6)
    for row, (actions, value) in enumerate(history):
        joint = jnp.array(actions, jnp.int32)
        told = step(told, jnp.int32(row), joint, jnp.int32(level), jnp.float32(value), NO_PRIOR, beliefs)
    return told


def test_a_return_far_beyond_the_unit_is_still_a_number() -> None:
    told = told_of([((0, 1, 2), 0.0), ((1, 1, 1), 1.0)], Beliefs())
    tiny = Scale(jnp.float32(0.0), jnp.float32(1e-6))
    assert np.isfinite(coefficients(told, surprises(told, tiny, Beliefs()))).all()


def random_history(length: int, repeats: bool = False) -> list[tuple[tuple[int, ...], float]]:
    random = np.random.default_rng(0)
    actions = random.integers(0, 2 if repeats else ACTIONS, (length, AGENTS))
    return [(tuple(joint.tolist()), float(random.normal())) for joint in actions]


@pytest.mark.parametrize("noise", [0.5, 0.02])
@pytest.mark.parametrize("repeats", [False, True])
def test_root_is_that_of_the_inverse_covariance_even_of_many_repeated_returns(
    noise: float, repeats: bool
) -> None:
    beliefs = Beliefs(noise=noise)
    history = random_history(200, repeats)
    told = told_of(history, beliefs)
    actions = np.array([joint for joint, _ in history])
    agree = (actions[:, None] == actions[None]).sum(axis=-1).astype(float)
    single, pair = beliefs.variances(AGENTS)
    covariance = agree * (single + 0.5 * pair * (agree - 1)) + beliefs.level + noise * np.eye(len(history))
    root = np.asarray(told.root, np.float64)[: len(history), : len(history)]
    np.testing.assert_allclose(root.T @ root @ covariance, np.eye(len(history)), atol=2e-3 / noise)
    values = np.array([value for _, value in history])
    alpha = coefficients(told, surprises(told, scale(told), beliefs))
    unit = (values - values.mean()) / values.std()
    z = np.sinh(unit / beliefs.link.c) / beliefs.link.alpha
    predicted = (covariance - noise * np.eye(len(history))) @ np.asarray(alpha, np.float64)[: len(history)]
    exact = (covariance - noise * np.eye(len(history))) @ np.linalg.solve(covariance, z)
    np.testing.assert_allclose(predicted, exact, atol=2e-2)


@pytest.mark.parametrize("repeats", [True, False])
def test_without_repeats_only_what_was_never_told_is_a_change_to_try(repeats: bool) -> None:
    """All changes of the one candidate were told, and the best of them gains under every draw."""
    candidate, better = (0, 0, 0), (3, 0, 0)
    changes = [
        tuple(int(x) for x in joint)
        for joint in np.ndindex(ACTIONS, ACTIONS, ACTIONS)
        if 0 < np.sum(np.array(joint) != 0) <= 2
    ]
    told = told_of(
        [(candidate, 0.0), *((joint, 9.0 if joint == better else 1.0) for joint in changes)], Beliefs()
    )
    choice = choose(
        told,
        NO_PRIOR,
        jnp.array([candidate], jnp.int32),
        jnp.array([True]),
        jnp.ones((AGENTS, ACTIONS), bool),
        jax.random.key(0),
        scale=scale(told),
        daring=jnp.float32(0.1),
        pairs=True,
        repeats=repeats,
        beliefs=Beliefs(),
    )
    assert (choice.gain > 0) == repeats
    assert not repeats or choice.actions[0] == 3
