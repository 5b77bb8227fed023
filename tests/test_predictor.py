import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonzero.surrogate.predictor import (
    Counterfactuals,
    Directions,
    Link,
    Surrogate,
    apply_link,
    four_square_loss,
    gradient_update,
    init_surrogate,
    invert_link,
    link_slope,
    mixed_differences,
    moves_two_agents,
    pair_gains,
    pair_score_changes,
    predict,
    score,
    signs,
    single_gains,
    single_score_changes,
    value_loss,
)

AGENTS, ACTIONS = 3, 3
LINK = Link(c=2.0, alpha=0.5)
RANKS = [0, 1, 4]
EVERYTHING = np.array(list(itertools.product(range(ACTIONS), repeat=AGENTS)))
PAIRS = list(itertools.combinations(range(AGENTS), 2))

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=20, deadline=None)


def random_surrogate(seed: int, rank: int, num_agents: int = AGENTS, num_actions: int = ACTIONS) -> Surrogate:
    rng = np.random.default_rng(seed)
    return Surrogate(
        bias=jnp.float32(rng.normal()),
        w=jnp.array(rng.normal(size=(num_agents, num_actions)), jnp.float32),
        v=jnp.array(rng.normal(size=(num_agents, num_actions, rank)), jnp.float32),
    )


def random_action(seed: int) -> np.ndarray:
    return np.random.default_rng((seed, 1)).integers(ACTIONS, size=AGENTS)


def z_by_pairs(theta: Surrogate, actions: np.ndarray) -> float:
    """The definition: one term for each agent and one for each pair of agents."""
    w, v, sigma = (np.asarray(x, np.float64) for x in (theta.w, theta.v, signs(theta.rank)))
    own = sum(w[i, a] for i, a in enumerate(actions))
    return float(theta.bias) + own + sum(v[i, actions[i]] * v[k, actions[k]] @ sigma for i, k in PAIRS)


def eta_by_pairs(theta: Surrogate, actions: np.ndarray) -> float:
    return LINK.c * float(np.arcsinh(LINK.alpha * z_by_pairs(theta, actions)))


def changed(actions: np.ndarray, *directions: tuple[int, int]) -> np.ndarray:
    new = actions.copy()
    for agent, choice in directions:
        new[agent] = choice
    return new


def all_directions() -> Directions:
    agents, choices = np.divmod(np.arange(AGENTS * ACTIONS), ACTIONS)
    return Directions(jnp.array(agents), jnp.array(choices))


def close(value: jax.Array, wanted: object) -> None:
    np.testing.assert_allclose(np.asarray(value), np.asarray(wanted), rtol=2e-4, atol=2e-4)


score_all = jax.jit(jax.vmap(score, in_axes=(None, 0)))
predict_all = jax.jit(jax.vmap(partial(predict, link=LINK), in_axes=(None, 0)))


@pytest.mark.parametrize("rank", RANKS)
@few
@given(seed=seeds)
def test_score_and_prediction_equal_the_sum_over_all_pairs(rank: int, seed: int) -> None:
    theta = random_surrogate(seed, rank)
    close(score_all(theta, EVERYTHING), [z_by_pairs(theta, a) for a in EVERYTHING])
    close(predict_all(theta, EVERYTHING), [eta_by_pairs(theta, a) for a in EVERYTHING])


@pytest.mark.parametrize("rank", RANKS)
@few
@given(seed=seeds)
def test_single_changes_equal_the_differences_of_enumerated_values(rank: int, seed: int) -> None:
    theta, actions = random_surrogate(seed, rank), random_action(seed)

    def differences(value) -> list[list[float]]:
        now = value(theta, actions)
        return [[value(theta, changed(actions, (i, j))) - now for j in range(ACTIONS)] for i in range(AGENTS)]

    close(jax.jit(single_score_changes)(theta, actions), differences(z_by_pairs))
    close(jax.jit(single_gains, static_argnums=2)(theta, actions, LINK), differences(eta_by_pairs))


@pytest.mark.parametrize("rank", RANKS)
@few
@given(seed=seeds)
def test_pairs_equal_the_differences_of_enumerated_values(rank: int, seed: int) -> None:
    theta, actions, directions = random_surrogate(seed, rank), random_action(seed), all_directions()
    allowed = np.asarray(moves_two_agents(directions))
    listed = list(itertools.product(range(AGENTS), range(ACTIONS)))
    assert allowed.tolist() == [[u[0] != v[0] for v in listed] for u in listed]
    z_of = {tuple(a): z_by_pairs(theta, a) for a in EVERYTHING}
    value_of = {a: LINK.c * float(np.arcsinh(LINK.alpha * z)) for a, z in z_of.items()}
    z, gain, mixed = np.zeros((3, len(listed), len(listed)))
    for (m, u), (k, v) in itertools.product(enumerate(listed), enumerate(listed)):
        now, one, other, both = (tuple(changed(actions, *moves)) for moves in ((), (u,), (v,), (u, v)))
        z[m, k] = z_of[both] - z_of[now]
        gain[m, k] = value_of[both] - value_of[now]
        mixed[m, k] = value_of[both] - value_of[one] - value_of[other] + value_of[now]
    close(jax.jit(pair_score_changes)(theta, actions, directions)[allowed], z[allowed])
    compiled = [jax.jit(f, static_argnums=3) for f in (pair_gains, mixed_differences)]
    for function, wanted in zip(compiled, (gain, mixed), strict=True):
        close(function(theta, actions, directions, LINK)[allowed], wanted[allowed])


@few
@given(z=st.floats(-50, 50))
def test_link_is_undone_by_its_inverse_and_its_slope_is_its_derivative(z: float) -> None:
    x = jnp.float32(z)
    close(invert_link(apply_link(x, LINK), LINK), x)
    close(link_slope(x, LINK), jax.grad(lambda y: apply_link(y, LINK))(x))


def sample_of(seed: int) -> Counterfactuals:
    rng = np.random.default_rng((seed, 2))
    agents = rng.permutation(AGENTS)[:2]
    value, *others = jnp.array(rng.normal(size=4), jnp.float32)
    return Counterfactuals(
        actions=jnp.array(random_action(seed)),
        directions=Directions(jnp.array(agents), jnp.array(rng.integers(ACTIONS, size=2))),
        value=value,
        single_values=jnp.stack(others[:2]),
        pair_value=others[2],
    )


loss_of = jax.jit(four_square_loss, static_argnums=2)
slope_of = jax.jit(jax.grad(four_square_loss), static_argnums=2)


@pytest.mark.parametrize("rank", [0, 4])
@few
@given(seed=seeds)
def test_four_square_loss_equals_four_enumerated_errors(rank: int, seed: int) -> None:
    theta, sample = random_surrogate(seed, rank), sample_of(seed)
    actions = np.asarray(sample.actions)
    u, v = zip(*(np.asarray(part).tolist() for part in sample.directions), strict=True)
    corners = [changed(actions, *moves) for moves in ((), (u,), (v,), (u, v))]
    at, at_u, at_v, at_both = (eta_by_pairs(theta, corner) for corner in corners)
    y, (y_u, y_v), y_both = sample.value, sample.single_values, sample.pair_value
    squares = [
        (at - y) ** 2,
        (at_u - y_u) ** 2,
        ((at_u - at) - (y_u - y)) ** 2,
        ((at_both - at_u - at_v + at) - (y_both - y_u - y_v + y)) ** 2,
    ]
    assert float(loss_of(theta, sample, LINK)) == pytest.approx(float(np.mean(squares)), rel=1e-3, abs=1e-4)


@few
@given(seed=seeds)
def test_loss_is_zero_where_the_targets_are_the_predictions(seed: int) -> None:
    theta, sample = random_surrogate(seed, 4), sample_of(seed)
    actions = np.asarray(sample.actions)
    u, v = zip(*(np.asarray(part).tolist() for part in sample.directions), strict=True)
    corners = [changed(actions, *moves) for moves in ((), (u,), (v,), (u, v))]
    at, at_u, at_v, at_both = (jnp.float32(eta_by_pairs(theta, corner)) for corner in corners)
    own = sample._replace(value=at, single_values=jnp.stack([at_u, at_v]), pair_value=at_both)
    assert float(loss_of(theta, own, LINK)) == pytest.approx(0.0, abs=1e-6)


def flat(theta: Surrogate) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(theta)])


@pytest.mark.parametrize("rank", [0, 4])
@few
@given(seed=seeds)
def test_gradient_agrees_with_finite_differences(rank: int, seed: int) -> None:
    theta, sample, step = random_surrogate(seed, rank), sample_of(seed), 1e-2
    towards = random_surrogate(seed + 1, rank)
    there, back = (
        jax.tree.map(lambda x, d, s=sign: x + s * step * d, theta, towards) for sign in (1.0, -1.0)
    )
    slope = (loss_of(there, sample, LINK) - loss_of(back, sample, LINK)) / (2 * step)
    wanted = flat(slope_of(theta, sample, LINK)) @ flat(towards)
    size = np.linalg.norm(flat(slope_of(theta, sample, LINK))) * np.linalg.norm(flat(towards))
    assert float(slope) == pytest.approx(float(wanted), abs=0.02 * float(1.0 + size))


@pytest.mark.parametrize("rank", [0, 4])
def test_gradient_of_a_value_is_what_calculus_says(rank: int) -> None:
    theta, actions = random_surrogate(3, rank), random_action(3)
    slope = jax.grad(value_loss)(theta, jnp.array(actions), jnp.float32(0.7), LINK)
    eta, z = (f(theta, actions) for f in (eta_by_pairs, z_by_pairs))
    per_z = 2 * (eta - 0.7) * LINK.c * LINK.alpha / np.sqrt(1 + (LINK.alpha * z) ** 2)
    assert float(slope.bias) == pytest.approx(per_z, rel=1e-3)
    played = np.arange(ACTIONS) == actions[:, None]
    close(slope.w, per_z * played)
    factors = np.asarray(theta.v)[np.arange(AGENTS), actions]
    others = np.asarray(signs(rank)) * (factors.sum(0) - factors)
    close(slope.v, per_z * played[..., None] * others[:, None])


@pytest.mark.parametrize("rank", [0, 4])
@few
@given(seed=seeds)
def test_a_gradient_update_lowers_the_loss(rank: int, seed: int) -> None:
    theta, sample = random_surrogate(seed, rank), sample_of(seed)
    before = float(loss_of(theta, sample, LINK))
    slope = slope_of(theta, sample, LINK)
    after = loss_of(gradient_update(theta, slope, 1e-2, max_norm=0.3), sample, LINK)
    assert float(after) < before or np.linalg.norm(flat(slope)) < 1e-2


def test_many_updates_learn_the_sample_and_steps_are_no_longer_than_allowed() -> None:
    theta, sample = init_surrogate(jax.random.key(0), AGENTS, ACTIONS, 4), sample_of(5)
    start = float(loss_of(theta, sample, LINK))
    one = gradient_update(theta, jax.tree.map(lambda x: x + 100.0, theta), 0.1, max_norm=2.0)
    assert np.linalg.norm(flat(one) - flat(theta)) == pytest.approx(0.2, rel=1e-3)
    for _ in range(200):
        theta = gradient_update(theta, slope_of(theta, sample, LINK), 0.1)
    assert float(loss_of(theta, sample, LINK)) < 1e-3 * start
    still = gradient_update(theta, jax.tree.map(jnp.zeros_like, theta), 0.1)
    np.testing.assert_array_equal(flat(still), flat(theta))


@pytest.mark.parametrize("rank", [0, 4])
def test_a_batch_of_surrogates_gives_what_each_gives_alone(rank: int) -> None:
    thetas = [random_surrogate(seed, rank) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *thetas)
    actions = jnp.array([random_action(seed) for seed in range(3)])
    together = jax.jit(jax.vmap(partial(single_gains, link=LINK)))(stacked, actions)
    for theta, action, row in zip(thetas, actions, together, strict=True):
        close(row, single_gains(theta, action, LINK))


def is_local_maximum(values: np.ndarray, index: tuple[int, ...]) -> bool:
    lines = (values[(*index[:axis], slice(None), *index[axis + 1 :])] for axis in range(values.ndim))
    return all(values[index] >= line.max() for line in lines)


def local_maxima(theta: Surrogate) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    values = np.asarray(predict_all(theta, EVERYTHING), np.float64).reshape((ACTIONS,) * AGENTS)
    return values, [index for index in np.ndindex(values.shape) if is_local_maximum(values, index)]


@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_without_factors_every_local_maximum_is_the_global_one(seed: int) -> None:
    values, found = local_maxima(random_surrogate(seed, 0))
    assert found
    assert all(values[index] == pytest.approx(values.max(), abs=1e-4) for index in found)


def test_with_factors_a_local_maximum_may_need_a_pair_of_changes() -> None:
    v = np.zeros((AGENTS, ACTIONS, 1), np.float32)
    v[:2, 1], v[:2, 2] = 1.0, -2.0
    theta = Surrogate(jnp.zeros(()), jnp.zeros((AGENTS, ACTIONS)), jnp.array(v))
    trap = np.array([1, 1, 0])
    assert is_local_maximum(local_maxima(theta)[0], tuple(trap))
    assert float(single_gains(theta, jnp.array(trap), LINK).max()) == 0.0
    both = Directions(jnp.array([0, 1]), jnp.array([2, 2]))
    assert float(pair_gains(theta, jnp.array(trap), both, LINK)[0, 1]) > 0.5
    assert float(mixed_differences(theta, jnp.array(trap), both, LINK)[0, 1]) > 0.5


def test_signs_alternate_so_that_factors_reward_both_agreement_and_disagreement() -> None:
    assert signs(5).tolist() == [1, -1, 1, -1, 1]
