import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonzero.surrogate.fit import History, Ridge, solve_positive, sweep
from nonzero.surrogate.predictor import Link, Surrogate, init_surrogate, predict

AGENTS, ACTIONS, ROUNDS = 3, 4, 48
EVERYTHING = jnp.array(list(itertools.product(range(ACTIONS), repeat=AGENTS)))
STRAIGHT = Link(c=1000.0, alpha=0.001)
"""A link that is the identity but for rounding, so that a linear fit has an exact answer."""
BENT = Link(c=2.0, alpha=0.5)
RIDGE = Ridge(noise=1e-3, w=1.0, v=1.0)


@jax.jit
def sweep_often(
    theta: Surrogate, history: History, link: Link, ridge: Ridge, times: jax.Array
) -> tuple[Surrogate, jax.Array]:
    return jax.lax.fori_loop(
        0, times, lambda _, carry: sweep(carry[0], history, link, ridge), (theta, jnp.zeros(()))
    )


def sweeps(
    theta: Surrogate, history: History, link: Link, ridge: Ridge = RIDGE, times: int = 200
) -> tuple[Surrogate, float]:
    theta, error = sweep_often(theta, history, link, ridge, jnp.int32(times))
    return theta, float(error)


predict_all = jax.jit(jax.vmap(predict, in_axes=(None, 0, None)))


def predictions(theta: Surrogate, actions: jax.Array, link: Link) -> np.ndarray:
    return np.asarray(predict_all(theta, actions, link))


def game(seed: int, rank: int, scale: float = 1.0) -> Surrogate:
    rng = np.random.default_rng(seed)
    return Surrogate(
        bias=jnp.float32(0.3),
        w=jnp.array(0.5 * rng.normal(size=(AGENTS, ACTIONS)), jnp.float32),
        v=jnp.array(scale * rng.normal(size=(AGENTS, ACTIONS, rank)), jnp.float32),
    )


def played(seed: int) -> jax.Array:
    return jnp.array(np.random.default_rng((seed, 1)).integers(ACTIONS, size=(ROUNDS, AGENTS)), jnp.int32)


def blank(rank: int) -> Surrogate:
    return init_surrogate(jax.random.key(0), AGENTS, ACTIONS, rank, scale=0.3)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_solver_agrees_with_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(6, 5, 5))
    matrices = factor @ factor.transpose(0, 2, 1) + 0.5 * np.eye(5)
    rows = rng.normal(size=(6, 5))
    found = jax.jit(solve_positive)(jnp.array(matrices, jnp.float32), jnp.array(rows, jnp.float32))
    np.testing.assert_allclose(found, np.linalg.solve(matrices, rows[..., None])[..., 0], atol=2e-3)


@pytest.mark.parametrize("seed", range(3))
def test_sweeps_reach_the_ridge_solution_of_an_additive_game(seed: int) -> None:
    actions = played(seed)
    rng = np.random.default_rng((seed, 2))
    values = predictions(game(seed, 0), actions, STRAIGHT) + 0.3 * rng.normal(size=ROUNDS)
    weights = rng.integers(1, 4, size=ROUNDS)
    history = History(actions, jnp.array(values, jnp.float32), jnp.array(weights, jnp.float32))
    ridge = Ridge(noise=0.5, w=0.7, v=1.0)
    theta, _ = sweeps(blank(0), history, STRAIGHT, ridge, times=2000)
    one_hot = np.eye(ACTIONS)[np.asarray(actions)].reshape(ROUNDS, -1)
    design = np.concatenate([np.ones((ROUNDS, 1)), one_hot], axis=1)
    # Ridge as least squares: one more row for each entry of w, none for the bias.
    prior = np.sqrt(ridge.noise / ridge.w) * np.eye(design.shape[1])[1:]
    root = np.sqrt(weights)[:, None]
    wanted = np.linalg.lstsq(
        np.concatenate([root * design, prior]),
        np.concatenate([root[:, 0] * values, np.zeros(len(prior))]),
        rcond=None,
    )[0]
    np.testing.assert_allclose(theta.w, wanted[1:].reshape(AGENTS, ACTIONS), atol=3e-3)
    assert float(theta.bias) == pytest.approx(wanted[0], abs=3e-3)


@pytest.mark.parametrize("link", [STRAIGHT, BENT])
def test_a_determined_additive_game_is_known_everywhere(link: Link) -> None:
    truth, actions = game(7, 0), played(7)
    history = History(actions, jnp.array(predictions(truth, actions, link)), jnp.ones(ROUNDS))
    theta, error = sweeps(blank(0), history, link, Ridge(noise=1e-6, w=1.0, v=1.0))
    assert error < 1e-5
    np.testing.assert_allclose(
        predictions(theta, EVERYTHING, link), predictions(truth, EVERYTHING, link), atol=2e-2
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_realisable_low_rank_game_is_recovered_where_it_was_not_seen(seed: int) -> None:
    truth = game(seed, 2)
    order = np.random.default_rng(seed).permutation(len(EVERYTHING))
    seen, unseen = EVERYTHING[order[:ROUNDS]], EVERYTHING[order[ROUNDS:]]
    history = History(seen, jnp.array(predictions(truth, seen, BENT)), jnp.ones(ROUNDS))
    wanted = predictions(truth, unseen, BENT)
    theta, error = sweeps(blank(2), history, BENT)
    assert error < 0.02
    left = np.mean((predictions(theta, unseen, BENT) - wanted) ** 2)
    additive, _ = sweeps(blank(0), history, BENT)
    without = np.mean((predictions(additive, unseen, BENT) - wanted) ** 2)
    assert left < 0.1 * np.var(wanted)
    assert left < 0.2 * without


@pytest.mark.parametrize("rank", [0, 2])
def test_a_sweep_never_raises_what_it_makes_small(rank: int) -> None:
    truth, actions = game(3, 2), played(3)
    history = History(actions, jnp.array(predictions(truth, actions, STRAIGHT)), jnp.ones(ROUNDS))
    ridge = Ridge(noise=0.1, w=1.0, v=0.5)

    def objective(theta: Surrogate) -> float:
        misses = np.sum((predictions(theta, actions, STRAIGHT) - np.asarray(history.values)) ** 2)
        return float(misses + 0.1 * (jnp.sum(theta.w**2) / 1.0 + jnp.sum(theta.v**2) / 0.5))

    theta, steps = blank(rank), []
    for _ in range(15):
        theta, _ = sweeps(theta, history, STRAIGHT, ridge, times=1)
        steps.append(objective(theta))
    assert all(later <= earlier + 1e-3 for earlier, later in itertools.pairwise(steps))
    assert steps[-1] < 0.9 * objective(blank(rank))


@pytest.mark.parametrize("rank", [0, 2])
def test_rows_without_weight_do_not_matter(rank: int) -> None:
    actions = played(4)
    values = jnp.array(predictions(game(4, 2), actions, BENT))
    weights = jnp.where(jnp.arange(ROUNDS) < 30, 1.0, 0.0)
    other_actions = jnp.where(weights[:, None] > 0, actions, (actions + 1) % ACTIONS)
    other_values = jnp.where(weights > 0, values, 5.0 - values)
    theta, error = sweeps(blank(rank), History(actions, values, weights), BENT, times=5)
    again, same_error = sweeps(blank(rank), History(other_actions, other_values, weights), BENT, times=5)
    for one, two in zip(jax.tree.leaves(theta), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)
    assert error == pytest.approx(same_error, rel=1e-4)


def test_nothing_told_leaves_nothing_learned() -> None:
    history = History(played(5), jnp.zeros(ROUNDS), jnp.zeros(ROUNDS))
    theta, error = sweeps(blank(2), history, BENT, times=1)
    for leaf in jax.tree.leaves(theta):
        np.testing.assert_array_equal(leaf, np.zeros_like(leaf))
    assert error == 0.0


def test_a_value_told_thrice_weighs_as_three_rows() -> None:
    actions = played(6)
    values = jnp.array(predictions(game(6, 2), actions, BENT))
    once = History(actions, values, jnp.ones(ROUNDS).at[0].set(3.0).at[1:3].set(0.0))
    thrice = History(actions.at[1:3].set(actions[0]), values.at[1:3].set(values[0]), jnp.ones(ROUNDS))
    for one, two in zip(
        jax.tree.leaves(sweeps(blank(2), once, BENT, times=5)),
        jax.tree.leaves(sweeps(blank(2), thrice, BENT, times=5)),
        strict=True,
    ):
        np.testing.assert_allclose(one, two, atol=1e-4)
    assert not np.allclose(sweeps(blank(2), once, BENT, times=5)[0].w, 0.0)


def test_error_left_is_the_mean_square_in_returns_for_small_errors() -> None:
    actions = played(8)
    rng = np.random.default_rng(8)
    values = predictions(game(8, 0), actions, BENT) + 0.05 * rng.normal(size=ROUNDS)
    history = History(actions, jnp.array(values, jnp.float32), jnp.ones(ROUNDS))
    theta, error = sweeps(blank(0), history, BENT)
    direct = np.mean((predictions(theta, actions, BENT) - values) ** 2)
    assert error == pytest.approx(float(direct), rel=0.1)
    assert 0.3 * 0.05**2 < error < 1.5 * 0.05**2


def test_a_batch_of_surrogates_is_fitted_as_each_is_alone() -> None:
    actions = played(9)
    history = History(actions, jnp.array(predictions(game(9, 2), actions, BENT)), jnp.ones(ROUNDS))
    thetas = jax.vmap(lambda key: init_surrogate(key, AGENTS, ACTIONS, 2))(
        jax.random.split(jax.random.key(1), 2)
    )
    together, errors = jax.jit(jax.vmap(lambda theta: sweep(theta, history, BENT, RIDGE)))(thetas)
    assert errors.shape == (2,)
    for member in range(2):
        alone, error = sweeps(jax.tree.map(lambda x, m=member: x[m], thetas), history, BENT, times=1)
        assert float(errors[member]) == pytest.approx(float(error), rel=1e-3)
        np.testing.assert_allclose(together.v[member], alone.v, rtol=1e-3, atol=2e-3)
