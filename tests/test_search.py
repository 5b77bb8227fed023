import importlib
import re
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nonzero.search import PRESETS, Expansion, Rules, Selection, preset, run, search
from nonzero.search.backup import Averaging
from nonzero.search.expand import dirichlet_noise, enumerated, log_gamma, sample
from nonzero.types import ModelOutputs, NonZeroError
from search_models import ALL_RULES, TableGame, compiled, random_game, recurrent

mctx: Any = importlib.import_module("mctx")  # its dataclasses are opaque to type checkers

MCTX_RULES = Rules(
    Expansion("enumerated", legal_floor=1e-12),
    Selection(
        normalise="siblings",
        least_span=1e-8,
        counts_own_visit=True,
        tries_root_in_order=False,
        tie_tolerance=0.0,
    ),
)


def mctx_tree(game: TableGame, states: np.ndarray, legal: np.ndarray, simulations: int) -> Any:
    start = jnp.asarray(states, jnp.int32)
    outputs = game.outputs(start)
    params = (game.outputs(jnp.arange(len(game.value))), jnp.asarray(game.stride))

    def step(params, key, action, latent):
        said, latent = recurrent(params, key, action[:, None], latent)
        logits = said.policy_logits[:, 0]
        answer = mctx.RecurrentFnOutput(
            reward=said.reward, discount=said.discount, prior_logits=logits, value=said.value
        )
        return answer, latent

    root = mctx.RootFnOutput(prior_logits=outputs.policy_logits[:, 0], value=outputs.value, embedding=start)
    return mctx.muzero_policy(
        params,
        jax.random.key(0),
        root,
        step,
        simulations,
        invalid_actions=jnp.asarray(~legal[:, 0]),
        dirichlet_fraction=0.0,
    ).search_tree


@pytest.mark.parametrize(("actions", "simulations"), [(5, 1), (5, 150), (9, 60)])
def test_one_agent_with_all_actions_equals_mctx(actions: int, simulations: int) -> None:
    game = random_game(actions, agents=1, actions=actions)
    states = np.arange(8)
    legal = np.random.default_rng(0).random((8, 1, actions)) < 0.7
    legal[:, :, 0] = True
    result = compiled(
        game,
        states,
        7,
        num_simulations=simulations,
        num_candidates=actions,
        rules=MCTX_RULES,
        legal=legal,
        dirichlet_fraction=0.0,
    )
    expected = mctx_tree(game, states, legal, simulations)
    assert result.tree is not None
    np.testing.assert_array_equal(result.tree.visits, expected.children_visits)
    np.testing.assert_array_equal(result.tree.children, expected.children_index)
    np.testing.assert_array_equal(result.tree.parent, expected.parents)
    np.testing.assert_allclose(result.tree.value, expected.node_values, atol=1e-5)
    np.testing.assert_allclose(result.tree.reward[:, 1:], expected_rewards(expected)[:, 1:], atol=1e-6)


def expected_rewards(tree: Any) -> np.ndarray:
    parents, slots = np.asarray(tree.parents), np.asarray(tree.action_from_parent)
    rows = np.arange(len(parents))[:, None]
    return np.asarray(tree.children_rewards)[rows, parents, slots]


def one_shot(payoff: np.ndarray) -> TableGame:
    """A game of one step: state 0 leads to a state for each joint action, where the episode ends."""
    num_actions, num_agents = payoff.shape[0], payoff.ndim
    states = 1 + payoff.size
    return TableGame(
        logits=np.zeros((states, num_agents, num_actions), np.float32),
        value=np.zeros(states, np.float32),
        reward=np.append(0, payoff.ravel()).astype(np.float32),
        discount=np.append(1, np.zeros(payoff.size)).astype(np.float32),
        stride=(num_actions ** np.arange(num_agents)[::-1]).astype(np.int32),
    )


@pytest.mark.parametrize("shape", [(3, 3), (4, 4, 4), (12,)])
def test_enumerate_finds_the_optimum_of_small_games(shape: tuple[int, ...]) -> None:
    for seed in range(3):
        payoff = np.random.default_rng(seed).permutation(np.prod(shape)).reshape(shape) / np.prod(shape)
        simulations = 6 * payoff.size
        result = compiled(
            one_shot(payoff),
            np.zeros(2, int),
            seed,
            num_simulations=simulations,
            num_candidates=1,
            rules=replace(PRESETS["enumerate"], selection=Selection(exploration=2.0)),
            dirichlet_fraction=0.0,
            temperature=0.0,
        )
        best = np.array(np.unravel_index(np.argmax(payoff), shape))
        np.testing.assert_array_equal(result.action, [best, best])
        np.testing.assert_allclose(result.q.max(axis=1), payoff.max(), atol=1e-6)


def test_enumerate_looks_two_steps_ahead() -> None:
    # One agent: action 0 pays 1 now and nothing after, action 1 pays nothing now and 3 at the next step.
    reward = np.array([0, 1, 0, 0, 3], np.float32)
    following = np.array([[1, 2], [3, 3], [4, 4], [3, 3], [3, 3]])

    def step(params, key, actions, latent):
        del key
        state = params[1][latent, actions[:, 0]]
        ended = state >= 3
        zeros = jnp.zeros(state.shape)
        logits = jnp.zeros((*state.shape, 1, 2))
        return ModelOutputs(logits, zeros, params[0][state], jnp.where(ended, 0.0, 1.0)), state

    zero = jnp.zeros(1)
    root = (ModelOutputs(jnp.zeros((1, 1, 2)), zero, zero, zero + 1), jnp.zeros(1, jnp.int32))
    params = (jnp.asarray(reward), jnp.asarray(following))
    result = search(
        step,
        params,
        root,
        jax.random.key(0),
        num_simulations=100,
        num_candidates=2,
        rules=PRESETS["enumerate"],
        dirichlet_fraction=0.0,
        temperature=0.0,
    )
    assert int(result.action[0, 0]) == 1
    np.testing.assert_allclose(result.q[0, 0], 1.0, atol=1e-6)


@pytest.mark.parametrize("name", ["mazero", "sampled-muzero"])
def test_batch_rows_are_independent(name: str) -> None:
    game = random_game(3, ends=True)
    options = {"num_simulations": 30, "num_candidates": 4, "rules": PRESETS[name]}
    legal = np.ones((4, 3, 4), bool)
    together = compiled(game, np.array([5, 6, 7, 8]), 1, legal=legal, **options)
    others = legal.copy()
    others[[0, 1, 3], :, :2] = False
    changed = compiled(game, np.array([50, 60, 7, 80]), 1, legal=others, **options)
    for mine, theirs in zip(jax.tree.leaves(together.tree), jax.tree.leaves(changed.tree), strict=True):
        np.testing.assert_array_equal(mine[2], theirs[2])
    assert not np.array_equal(together.visits[0], changed.visits[0])
    alone = compiled(game, np.array([5]), 1, legal=legal[:1], **options)
    np.testing.assert_array_equal(alone.visits[0], together.visits[0])


def test_compiles_once_per_shape() -> None:
    _search: Any = run._search
    game = random_game(9)
    options = {"num_simulations": 7, "num_candidates": 3, "rules": PRESETS["ma-alphazero"]}
    _search.clear_cache()
    for seed, (fraction, temperature) in enumerate([(0.25, 1.0), (0.0, 0.5), (0.5, 0.0)]):
        compiled(
            game,
            np.array([seed, seed + 1]),
            seed,
            dirichlet_fraction=fraction,
            temperature=temperature,
            **options,
        )
    assert _search._cache_size() == 1
    compiled(game, np.array([1]), 0, **options)
    assert _search._cache_size() == 2


def test_search_runs_inside_jit_and_flags_what_it_cannot_refuse() -> None:
    game = random_game(2)
    poisoned = replace(game, reward=np.where(np.arange(97) == 3, np.nan, game.reward).astype(np.float32))

    @jax.jit
    def flagged(tables, start):
        outputs = jax.tree.map(lambda table: table[start], tables)
        return search(
            recurrent,
            (tables, jnp.asarray(game.stride)),
            (outputs, start),
            jax.random.key(0),
            num_simulations=20,
            num_candidates=4,
            rules=PRESETS["mazero"],
        )

    start = jnp.arange(10, 40)
    for some_game, all_finite in ((game, True), (poisoned, False)):
        result = flagged(some_game.outputs(jnp.arange(97)), start)
        assert bool(jnp.all(result.is_finite)) is all_finite
    assert bool(jnp.any(result.is_finite))


@pytest.mark.parametrize("name", ALL_RULES)
def test_nan_inside_the_tree_is_refused(name: str) -> None:
    game = random_game(2, agents=2, actions=3)
    for field in ("logits", "value", "reward", "discount"):
        table = getattr(game, field).copy()
        table[1:] = np.nan
        with pytest.raises(ValueError, match="NaN or infinity inside the search tree of batch row 0"):
            compiled(
                replace(game, **{field: table}),
                np.array([0]),
                0,
                num_simulations=3,
                num_candidates=3,
                rules=ALL_RULES[name],
            )


def test_bad_roots_are_refused() -> None:
    game = random_game(1)
    outputs, start = game.outputs(jnp.arange(2)), jnp.arange(2)
    params = (game.outputs(jnp.arange(97)), jnp.asarray(game.stride))

    def attempt(outputs=outputs, start=start, model=recurrent, **changes):
        options = {"num_simulations": 3, "num_candidates": 3, "rules": PRESETS["mazero"]}
        search(model, params, (outputs, start), jax.random.key(0), **(options | changes))

    def refuses(words: str) -> Any:
        return pytest.raises(ValueError, match=re.escape(words))

    stuck = np.ones((2, 3, 4), bool)
    stuck[1, 2] = False
    with refuses("agent 2 of batch row 1 has no legal action"):
        attempt(legal=stuck)
    with refuses("legal must have the shape [2, 3, 4] of policy_logits, not [3, 4]"):
        attempt(legal=stuck[0])
    with refuses("num_simulations must be at least 1, not 0"):
        attempt(num_simulations=0)
    with refuses("num_candidates must be at least 1, not 0"):
        attempt(num_candidates=0)
    with refuses("temperature must not be negative"):
        attempt(temperature=-1.0)
    with refuses("the latent's arrays must start with the batch axis 2, not [3]"):
        attempt(start=jnp.arange(3))
    with refuses("the root's value of batch row 1 are NaN or infinite"):
        attempt(
            ModelOutputs(outputs.policy_logits, jnp.array([0, jnp.nan]), outputs.reward, outputs.discount)
        )
    with refuses("the root's policy_logits of batch row 0 are NaN or infinite"):
        attempt(
            ModelOutputs(outputs.policy_logits * jnp.nan, outputs.value, outputs.reward, outputs.discount)
        )
    with refuses("recurrent_fn must return a pair (ModelOutputs, latent)"):
        attempt(model=lambda params, key, actions, latent: outputs)
    with refuses("recurrent_fn must keep the latent's structure, shapes and types: "):
        attempt(model=lambda params, key, actions, latent: (outputs, latent * 1.0))
    with refuses("recurrent_fn's policy_logits have the shape [1, 3, 4], expected [2, 3, 4]"):
        attempt(model=lambda params, key, actions, latent: (game.outputs(latent[:1]), latent))
    with refuses("4^7 joint actions are too many to enumerate"):
        wide = random_game(1, agents=7)
        compiled(wide, np.array([0]), 0, num_simulations=1, num_candidates=1, rules=PRESETS["enumerate"])


def test_preset_names() -> None:
    assert preset("mazero") is PRESETS["mazero"]
    with pytest.raises(NonZeroError, match="did you mean 'mazero'"):
        preset("mazer")


def test_temperature_zero_takes_the_most_visited() -> None:
    game = random_game(4)
    options = {"num_simulations": 25, "num_candidates": 5, "rules": PRESETS["sampled-muzero"]}
    result = compiled(game, np.arange(40), 0, temperature=0.0, **options)
    best = np.argmax(result.visits, axis=1)
    tied = (result.visits == result.visits.max(axis=1, keepdims=True)).sum(axis=1) > 1
    chosen = np.asarray(result.candidates.actions)[np.arange(40), best]
    np.testing.assert_array_equal(np.asarray(result.action)[~tied], chosen[~tied])
    hot = compiled(game, np.arange(40), 0, temperature=5.0, **options)
    assert np.any(np.asarray(hot.action)[~tied] != chosen[~tied])


def test_legal_and_noisy_roots() -> None:
    game = random_game(6)
    legal = np.zeros((2, 3, 4), bool)
    legal[0, :, 1] = True
    legal[1] = True
    options = {"num_simulations": 20, "num_candidates": 6, "rules": PRESETS["mazero"], "legal": legal}
    calm = compiled(game, np.array([1, 1]), 0, dirichlet_fraction=0.0, **options)
    np.testing.assert_array_equal(calm.action[0], [1, 1, 1])
    np.testing.assert_array_equal(calm.candidates.filled[0].sum(), 1)
    np.testing.assert_allclose(calm.candidates.prior.sum(axis=1), 1.0, atol=1e-6)
    noisy = compiled(game, np.array([1, 1]), 0, dirichlet_fraction=1.0, **options)
    assert not np.array_equal(calm.candidates.actions[1], noisy.candidates.actions[1])


def test_candidates_follow_the_policy() -> None:
    policy = jnp.array([[[0.5, 0.3, 0.2, 0.0], [0.0, 0.1, 0.0, 0.9]]])
    draws = jax.random.uniform(jax.random.key(0), (1, 20000, 2))
    actions = np.asarray(sample(policy, policy > 0, draws)[0])
    for agent in range(2):
        shares = np.bincount(actions[:, agent], minlength=4) / 20000
        # Four standard errors of a share estimated from 20000 draws are below 0.015.
        np.testing.assert_allclose(shares, policy[0, agent], atol=0.015)
        assert not np.any(shares[np.asarray(policy[0, agent]) == 0])


def test_sampling_stays_possible_at_the_edges() -> None:
    policy = jax.nn.softmax(jax.random.normal(jax.random.key(1), (50, 1, 36)) * 3)
    possible = jax.random.bernoulli(jax.random.key(2), 0.2, policy.shape).at[:, :, 7].set(True)
    policy = jnp.where(possible, policy, 0)
    for number in (0.0, 1 - 2**-23, 1.0):
        actions = sample(policy, possible, jnp.full((50, 3, 1), number))
        assert np.take_along_axis(np.asarray(possible)[:, 0], np.asarray(actions)[:, :, 0], 1).all()


def test_enumerated_candidates_are_all_joint_actions() -> None:
    policy = jax.nn.softmax(jax.random.normal(jax.random.key(0), (2, 3, 4)))
    possible = jnp.ones((2, 3, 4), bool).at[1, 0, 2].set(False)
    candidates = enumerated(policy, possible)
    assert len({tuple(row) for row in np.asarray(candidates.actions[0]).tolist()}) == 64
    assert int(candidates.filled[0].sum()) == 64
    assert int(candidates.filled[1].sum()) == 48
    np.testing.assert_allclose(candidates.prior[0].sum(), 1.0, atol=1e-6)


def test_number_of_kept_returns() -> None:
    for rho, expected in ((0.0, [1, 2, 3, 4, 5]), (0.75, [1, 1, 1, 1, 2]), (0.8, [1, 1, 1, 1, 1])):
        kept = Averaging(rho, 0.8).num_kept(jnp.arange(1, 6))
        np.testing.assert_array_equal(kept, expected)


@pytest.mark.parametrize("alpha", [0.05, 0.3, 2.0])
def test_gamma_numbers_have_the_distributions_moments(alpha: float) -> None:
    numbers = np.exp(np.asarray(log_gamma(jax.random.key(3), jnp.float32(alpha), (200_000,)), np.float64))
    # Mean and variance of Gamma(α) are α; the third moment is α (α + 1) (α + 2).
    for power, expected in ((1, alpha), (2, alpha * (alpha + 1)), (3, alpha * (alpha + 1) * (alpha + 2))):
        moments = numbers**power
        error = moments.std() / np.sqrt(len(moments))
        assert abs(moments.mean() - expected) < 5 * error


def test_dirichlet_noise_sums_to_its_fraction_over_legal_actions() -> None:
    legal = jnp.array([[[1, 1, 0], [0, 1, 0]]], bool)
    for alpha in (1e-3, 0.3, 100.0):
        noise = dirichlet_noise(jax.random.key(0), legal, jnp.float32(0.25), jnp.float32(alpha))
        np.testing.assert_allclose(noise.sum(axis=-1), 0.25, rtol=1e-5)
        assert np.all(np.asarray(noise)[~np.asarray(legal)] == 0)
        np.testing.assert_allclose(noise[0, 1, 1], 0.25, rtol=1e-5)
    np.testing.assert_allclose(noise[0, 0, :2], 0.125, atol=0.04)
