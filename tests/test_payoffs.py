import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonzero.envs.payoffs import FAMILIES, MAZERO_TABLES, PayoffGame, mazero_game, payoff_game
from nonzero.envs.payoffs_noise import NOISE_BOUND, joint_action_words


@eqx.filter_jit
def payoffs(game: PayoffGame, actions: jax.Array) -> jax.Array:
    return jax.vmap(game.payoff)(actions)


def all_joint_actions(num_agents: int, num_actions: int) -> jax.Array:
    return jnp.array(list(itertools.product(range(num_actions), repeat=num_agents)))


def sizes(family: str) -> list[tuple[int, int]]:
    kind = FAMILIES[family]
    wanted = [(kind.min_agents, kind.min_actions), (3, 4), (4, 3), (5, 4), (6, 3)]
    return list(dict.fromkeys(wanted))


@pytest.mark.parametrize("family", FAMILIES)
def test_bounds_hold_and_the_best_payoff_is_positive(family: str) -> None:
    for (num_agents, num_actions), seed in itertools.product(sizes(family), (0, 1)):
        game = payoff_game(family, num_agents, num_actions, seed)
        values = payoffs(game, all_joint_actions(num_agents, num_actions))
        low, high = game.bounds()
        assert values.dtype == jnp.float32
        assert low <= values.min()
        assert values.max() <= high
        assert values.max() > 0


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "nonlinear"])
def test_known_optimum_is_the_best_of_all_joint_actions(family: str) -> None:
    for (num_agents, num_actions), seed in itertools.product(sizes(family), (0, 1, 2)):
        game = payoff_game(family, num_agents, num_actions, seed)
        best = game.optimum()
        assert best is not None
        values = payoffs(game, all_joint_actions(num_agents, num_actions))
        assert best.value == pytest.approx(float(values.max()), rel=1e-5)
        assert float(game.payoff(jnp.array(best.actions))) == pytest.approx(best.value, rel=1e-5)


def test_optimum_without_closed_form_is_unknown_to_the_game() -> None:
    assert payoff_game("nonlinear", 3, 4).optimum() is None
    assert payoff_game("low-rank", 20, 10).optimum() is None


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "linear"])
def test_seed_decides_the_game(family: str) -> None:
    actions = all_joint_actions(4, 4)
    first, again, other = (payoffs(payoff_game(family, 4, 4, seed), actions) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("family", FAMILIES)
def test_arrays_do_not_grow_with_the_joint_actions(family: str) -> None:
    game = payoff_game(family, 20, 20)
    held = sum(leaf.size for leaf in jax.tree.leaves(game))
    assert held <= 20 * 20**3 + 20
    assert jnp.isfinite(game.payoff(jnp.zeros(20, jnp.int32)))


def test_games_of_one_kind_share_a_compilation() -> None:
    traces = []

    @eqx.filter_jit
    def value(game: PayoffGame, actions: jax.Array) -> jax.Array:
        traces.append(1)
        return game.payoff(actions)

    for seed in range(3):
        value(payoff_game("paired-traps", 5, 4, seed), jnp.zeros(5, jnp.int32))
    assert len(traces) == 1


@given(st.integers(1, 12), st.integers(2, 30), st.data())
@settings(max_examples=50, deadline=None)
def test_linear_is_the_sum_of_the_actions_counted_from_one(
    num_agents: int, num_actions: int, data: st.DataObject
) -> None:
    actions = data.draw(st.lists(st.integers(0, num_actions - 1), min_size=num_agents, max_size=num_agents))
    payoff = payoff_game("linear", num_agents, num_actions).payoff(jnp.array(actions))
    assert float(payoff) == sum(actions) + num_agents


def noise(num_agents: int, num_actions: int, seed: int, actions: jax.Array) -> np.ndarray:
    values = payoffs(payoff_game("nonlinear", num_agents, num_actions, seed), actions)
    return np.asarray(values - jnp.sum(actions + 1, axis=1), np.float64)


@pytest.mark.parametrize(("num_agents", "num_actions"), [(8, 10), (20, 20)])
def test_fixed_noise_has_the_right_moments_over_joint_actions(num_agents: int, num_actions: int) -> None:
    count = 2**17
    actions = jax.random.randint(jax.random.key(1), (count, num_agents), 0, num_actions)
    sample = noise(num_agents, num_actions, 0, actions)
    # Variance 4 of the gaussian plus 6²/12 = 3 of the uniform. The fourth moment of the sum is
    # 3·4² + 6·4·3 + 3⁴/5 = 136.2, so the sample variance deviates by √((136.2 − 49) / count) = 0.026.
    # All tolerances are five deviations; the inputs are fixed, so the test cannot flicker.
    assert abs(sample.mean()) < 5 * np.sqrt(7 / count)
    assert abs(sample.var() - 7) < 5 * np.sqrt((136.2 - 49) / count)
    assert np.abs(sample).max() < NOISE_BOUND
    # The shape, against draws from numpy's own generators: outer quantiles deviate by about 0.03.
    rng = np.random.default_rng(0)
    reference = rng.normal(0, 2, count) + rng.uniform(-3, 3, count)
    quantiles = np.linspace(0.01, 0.99, 99)
    assert np.abs(np.quantile(sample, quantiles) - np.quantile(reference, quantiles)).max() < 0.12


def test_fixed_noise_of_neighbouring_joint_actions_is_unrelated() -> None:
    count = 2**16
    actions = jax.random.randint(jax.random.key(2), (count, 8), 0, 9)
    here = noise(8, 10, 0, actions)
    for agent in (0, 7):
        there = noise(8, 10, 0, actions.at[:, agent].add(1))
        assert abs(np.corrcoef(here, there)[0, 1]) < 5 / np.sqrt(count)
    assert abs(np.corrcoef(here, noise(8, 10, 1, actions))[0, 1]) < 5 / np.sqrt(count)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 9), min_size=8, max_size=8), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_fixed_noise_depends_on_seed_and_joint_action_alone(
    seed: int, actions: list[int], batch: int
) -> None:
    alone = payoff_game("nonlinear", 8, 10, seed).payoff(jnp.array(actions))
    others = jnp.zeros((batch, 8), jnp.int32)
    rows = payoffs(payoff_game("nonlinear", 8, 10, seed), jnp.concatenate([others, jnp.array([actions])]))
    np.testing.assert_allclose(rows[-1], alone, rtol=1e-5)


@pytest.mark.parametrize(
    ("num_agents", "num_actions", "words"), [(8, 10, 1), (20, 20, 3), (32, 2, 1), (33, 2, 2)]
)
def test_joint_actions_pack_into_few_words(num_agents: int, num_actions: int, words: int) -> None:
    packed = joint_action_words(jnp.full(num_agents, num_actions - 1), num_actions)
    assert len(packed) == words


@given(st.integers(1, 24), st.integers(2, 40), st.data())
@settings(max_examples=40, deadline=None)
def test_different_joint_actions_pack_differently(
    num_agents: int, num_actions: int, data: st.DataObject
) -> None:
    action = st.integers(0, num_actions - 1)
    joint = st.lists(action, min_size=num_agents, max_size=num_agents)
    first, second = data.draw(st.lists(joint, min_size=2, max_size=2, unique_by=tuple))
    packed = [[int(word) for word in joint_action_words(jnp.array(x), num_actions)] for x in (first, second)]
    assert packed[0] != packed[1]


def test_per_step_noise_is_fresh_and_centred_on_the_linear_payoff() -> None:
    game = payoff_game("nonlinear", 4, 5, noise="per-step")
    actions = jnp.array([0, 1, 2, 3])
    keys = jax.random.split(jax.random.key(0), 2**16)
    drawn = np.asarray(jax.jit(lambda keys: jax.vmap(lambda key: game.reward(actions, key))(keys))(keys))
    assert float(game.payoff(actions)) == 10
    assert abs(drawn.mean() - 10) < 5 * np.sqrt(7 / len(keys))
    assert abs(drawn.var() - 7) < 5 * np.sqrt((136.2 - 49) / len(keys))
    low, high = game.bounds()
    assert low <= drawn.min() <= drawn.max() <= high
    best = game.optimum()
    assert best is not None
    assert best.value == 20


def test_fixed_games_reward_their_payoff() -> None:
    game = payoff_game("nonlinear", 4, 5)
    actions = jnp.array([0, 1, 2, 3])
    assert game.reward(actions, jax.random.key(3)) == game.payoff(actions)


@pytest.mark.parametrize("seed", range(5))
def test_traps_need_two_changes(seed: int) -> None:
    """At the decoy no single change helps, and one pair of changes does, for each pair of agents."""
    num_agents, num_actions = 5, 4
    game = payoff_game("paired-traps", num_agents, num_actions, seed)
    optimum = game.optimum()
    assert optimum is not None
    decoy = jnp.argmax(game.own, axis=1)  # pyright: ignore[reportAttributeAccessIssue]
    at_decoy = float(game.payoff(decoy))
    target = jnp.array(optimum.actions)
    for agent in range(num_agents):
        for action in range(num_actions):
            assert float(game.payoff(decoy.at[agent].set(action))) <= at_decoy
        moved = float(game.payoff(decoy.at[agent].set(target[agent])))
        assert moved <= at_decoy - 2 or target[agent] == decoy[agent]
    gains = [
        float(game.payoff(decoy.at[jnp.array([i, j])].set(target[jnp.array([i, j])]))) - at_decoy
        for i, j in itertools.combinations(range(num_agents), 2)
    ]
    assert sum(gain > 0 for gain in gains) == num_agents // 2


def test_climbing_of_two_agents_is_the_climbing_game() -> None:
    """Up to hidden names: the payoffs are the matrix and its transpose, averaged."""
    values = payoffs(payoff_game("climbing", 2, 3, 4), all_joint_actions(2, 3))
    matrix = np.array([[11, -30, 0], [-30, 7, 6], [0, 0, 5]])
    np.testing.assert_allclose(np.sort(values), np.sort(((matrix + matrix.T) / 2).ravel()), rtol=1e-5)


def test_penalty_of_two_agents_is_the_penalty_game() -> None:
    values = payoffs(payoff_game("penalty", 2, 3, 4), all_joint_actions(2, 3))
    np.testing.assert_allclose(np.sort(values), np.sort([10, 0, -30, 0, 2, 0, -30, 0, 10]), rtol=1e-5)


def test_penalty_counts_pairs_as_a_sum_over_pairs_does() -> None:
    game = payoff_game("penalty", 4, 5, 2)
    labels = np.asarray(game.labels)  # pyright: ignore[reportAttributeAccessIssue]
    table = np.zeros((5, 5))
    table[:3, :3] = [[10, 0, -30], [0, 2, 0], [-30, 0, 10]]
    actions = np.random.default_rng(0).integers(5, size=(50, 4))
    shown = labels[np.arange(4), actions]
    expected = [
        np.mean([table[row[i], row[j]] for i, j in itertools.combinations(range(4), 2)]) for row in shown
    ]
    np.testing.assert_allclose(payoffs(game, jnp.array(actions)), expected, rtol=1e-5)


@pytest.mark.parametrize("number", MAZERO_TABLES)
def test_mazero_games_are_their_tables(number: int) -> None:
    game = mazero_game(number)
    values = payoffs(game, all_joint_actions(2, 3))
    np.testing.assert_array_equal(np.asarray(values).reshape(3, 3), MAZERO_TABLES[number])
    best = game.optimum()
    assert best is not None
    assert 10 * best.value == (80, 80, 100, 100)[number - 1]


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        (("paired-trap", 4, 4), {}, "did you mean 'paired-traps'"),
        (("xyz", 4, 4), {}, "known ones: linear"),
        (("climbing", 4, 2), {}, "needs at least 2 agents and 3 actions, not 4x2"),
        (("nk", 2, 4), {}, "needs at least 3 agents"),
        (("linear", 0, 4), {}, "needs at least 1 agents"),
        (("additive", 3, 4, -1), {}, "seed is a number from 0"),
        (("nonlinear", 3, 4), {"noise": "fresh"}, "'fixed' or 'per-step', not 'fresh'"),
        (("additive", 3, 4), {"noise": "per-step"}, "is for nonlinear games"),
    ],
)
def test_mistakes_are_named(arguments: tuple, options: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        payoff_game(*arguments, **options)


def test_mazero_number_is_checked() -> None:
    with pytest.raises(ValueError, match="numbered 1 to 4, not 5"):
        mazero_game(5)
