import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from nonzero.search import PRESETS
from nonzero.search.backup import KEPT, Averaging, Record, add_return, new_record
from nonzero.search.reference import average
from nonzero.types import PRIOR, SINGLE, SearchResult
from search_models import ALL_RULES, TableGame, compiled, random_game

BATCH, SIMULATIONS, CANDIDATES = 4, 24, 5
masks = st.lists(st.booleans(), min_size=BATCH * 3 * 3, max_size=BATCH * 3 * 3)


def searched(
    name: str, seed: int, mask: list[bool], ends: bool = True
) -> tuple[TableGame, np.ndarray, SearchResult]:
    """A search of a random game with a legal mask that leaves every agent something to do."""
    game = random_game(seed, agents=3 if name != "enumerate" else 2, actions=3, ends=ends)
    agents = game.logits.shape[1]
    legal = np.array(mask).reshape(BATCH, 3, 3)[:, :agents].copy()
    legal[..., 0] |= ~legal.any(axis=-1)
    states = np.random.default_rng(seed).integers(0, 97, BATCH)
    options = {"num_simulations": SIMULATIONS, "num_candidates": CANDIDATES, "rules": ALL_RULES[name]}
    return game, legal, compiled(game, states, seed, legal=legal, **options)


@pytest.mark.parametrize("name", ALL_RULES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), mask=masks)
def test_invariants(name: str, seed: int, mask: list[bool]) -> None:
    game, legal, result = searched(name, seed, mask)
    tree = result.tree
    assert tree is not None
    visits, children = np.asarray(tree.visits), np.asarray(tree.children)
    parent, slot, depth = (np.asarray(x) for x in (tree.parent, tree.slot, tree.depth))
    rows = np.arange(BATCH)[:, None]
    # A guided root gives candidates up, with their visits, and asks the model anew about others.
    is_guided = ALL_RULES[name].guide is not None
    assert np.all(result.visits.sum(axis=1) <= SIMULATIONS)
    assert is_guided or np.all(result.visits.sum(axis=1) == SIMULATIONS)
    np.testing.assert_allclose(result.weights.sum(axis=1), 1.0, atol=1e-6)
    # A node is visited once when it is created and then once for every visit of its edges.
    counted = (parent[:, 1:] > 0) | (not is_guided)
    into = visits[rows, parent[:, 1:], slot[:, 1:]]
    np.testing.assert_array_equal(into[counted], (1 + visits[:, 1:].sum(axis=-1))[counted])
    mine = children[rows, parent[:, 1:], slot[:, 1:]]
    np.testing.assert_array_equal(mine[counted], np.tile(np.arange(1, SIMULATIONS + 1), (BATCH, 1))[counted])
    np.testing.assert_array_equal(depth[:, 1:], depth[rows, parent[:, 1:]] + 1)
    np.testing.assert_array_equal((children >= 0)[:, 1:], (visits > 0)[:, 1:])
    assert np.all((visits > 0)[:, 0] >= (children >= 0)[:, 0])
    filled = np.asarray(tree.candidates.filled)
    assert np.all(filled | (visits == 0))
    assert np.all(np.asarray(tree.candidates.prior)[~filled] == 0)
    assert_slots_are_unique_and_legal(result, legal)
    chosen = np.take_along_axis(legal, np.asarray(result.action)[..., None], axis=2)
    assert chosen.all()
    assert_values_are_bounded(game, result)


def assert_slots_are_unique_and_legal(result: SearchResult, legal: np.ndarray) -> None:
    tree = result.tree
    assert tree is not None
    actions, filled = np.asarray(tree.candidates.actions), np.asarray(tree.candidates.filled)
    for row in range(BATCH):
        for node in range(SIMULATIONS + 1):
            mine = actions[row, node][filled[row, node]]
            assert len({tuple(joint) for joint in mine.tolist()}) == len(mine) > 0
        root = actions[row, 0][filled[row, 0]]
        assert np.take_along_axis(legal[row], root.T, axis=1).all()


def assert_values_are_bounded(game: TableGame, result: SearchResult) -> None:
    """No value exceeds the largest reward at every step and the largest leaf value after them."""
    tree = result.tree
    assert tree is not None
    reward, value = np.abs(game.reward).max(), np.abs(game.value).max()
    most = value + reward * (1 + int(tree.depth.max()))
    assert np.abs(tree.value).max() <= most + 1e-4
    ended = np.asarray(tree.ended)
    assert np.all(np.asarray(tree.raw_value)[ended] == 0)
    assert np.all(np.asarray(tree.value)[ended] == 0)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), order=st.permutations(range(2)))
def test_permuting_agents_permutes_the_result(seed: int, order: list[int]) -> None:
    game = random_game(seed, agents=2, actions=3)
    permuted = TableGame(game.logits[:, order], game.value, game.reward, game.discount, game.stride[order])
    # Every joint action is a candidate here, so that no draw depends on the agents' order.
    options = {
        "num_simulations": 40,
        "num_candidates": 1,
        "rules": PRESETS["enumerate"],
        "dirichlet_fraction": 0.0,
    }
    states = np.array([seed % 97])
    before, after = compiled(game, states, seed, **options), compiled(permuted, states, seed, **options)
    place = {tuple(joint): k for k, joint in enumerate(np.asarray(before.candidates.actions[0]).tolist())}
    theirs = np.asarray(after.candidates.actions[0])
    back = np.empty_like(theirs)
    back[:, order] = theirs
    slots = [place[tuple(joint)] for joint in back.tolist()]
    np.testing.assert_array_equal(np.asarray(before.visits[0])[slots], after.visits[0])
    np.testing.assert_allclose(np.asarray(before.q[0])[slots], after.q[0], atol=1e-5)


def test_proposals_take_empty_slots() -> None:
    _, _, result = searched("proposing", 3, [True] * 36)
    assert result.tree is not None
    origin, filled = np.asarray(result.tree.candidates.origin), np.asarray(result.tree.candidates.filled)
    assert np.any(origin[:, 0] == SINGLE)
    assert np.any(origin[:, 1:][filled[:, 1:]] == SINGLE)
    # Three of five slots are the prior's; after many visits the root is full.
    assert np.all(filled[:, 0].sum(axis=1) == CANDIDATES)
    assert np.all((origin[:, :, :3] == PRIOR) | ~filled[:, :, :3] | (origin[:, :, :3] == SINGLE))
    assert np.any(np.asarray(result.visits)[origin[:, 0] == SINGLE] > 0)


returns = st.lists(st.tuples(st.integers(0, 4), st.integers(-8, 8)), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    returns=returns, rho=st.sampled_from([0.0, 0.25, 0.5, 0.75, 0.9]), lam=st.sampled_from([0.5, 0.8, 1.0])
)
def test_os_lambda_equals_its_definition(returns: list[tuple[int, int]], rho: float, lam: float) -> None:
    """One node that gets returns one by one, ties included, against sorting all of them."""
    rule, size = Averaging(rho, lam), 31
    own = 0.5
    expected = [(0, own)]
    record: Record = new_record(rule, jnp.array([own]), 0, size)
    depths = np.full(size, -1)
    depths[0] = 0
    for leaf, (depth, value) in enumerate(returns, start=1):
        depths[leaf] = depth
        expected.append((depth, float(value)))
        record, mean = ADD(rule, record, jnp.asarray(depths == depth)[None], leaf, depth, value)
        np.testing.assert_allclose(mean[0], average(rule, expected), atol=1e-4)
    if rho > 0:
        kept = np.asarray(record.marks[0]) == KEPT
        for depth in set(depths[depths >= 0].tolist()):
            count = int((depths == depth).sum())
            quota = int(rule.num_kept(jnp.array([count]))[0])
            assert kept[depths == depth].sum() == quota


def _add(
    rule: Averaging,
    record: Record,
    same_depth: jax.Array,
    leaf: jax.Array,
    levels: jax.Array,
    value: jax.Array,
) -> tuple[Record, jax.Array]:
    node = jnp.zeros(1, jnp.int32)
    return add_return(rule, record, same_depth, node, leaf, levels[None], jnp.float32(value)[None])


ADD = jax.jit(_add, static_argnums=0)
