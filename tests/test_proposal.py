import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonzero.surrogate.deviations import (
    apply_change,
    hash_changes,
    list_changes,
    pick_directions,
    unordered_pairs,
)
from nonzero.surrogate.predictor import (
    Directions,
    Link,
    Surrogate,
    init_surrogate,
    predict,
    score,
    single_gains,
)
from nonzero.surrogate.proposal import (
    Optimism,
    Proposal,
    climb,
    direction_variances,
    pair_variances,
    propose,
)
from nonzero.surrogate.tried import (
    Tried,
    hash_actions,
    hash_table,
    nothing_tried,
    tries_of_pairs,
    with_one_more,
)
from nonzero.types import PAIR, SINGLE

AGENTS, ACTIONS, ROUNDS = 3, 3, 16
LINK = Link(c=2.0, alpha=0.5)
NOISE = jnp.float32(0.1)
TABLE = hash_table(AGENTS, ACTIONS)
EVERYTHING = list(itertools.product(range(ACTIONS), repeat=AGENTS))
ALL_LISTED = Optimism(weight=0.5, directions=AGENTS * ACTIONS)

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=25, deadline=None)
propose_now = jax.jit(propose, static_argnames=("link", "optimism"))
hash_now = jax.jit(hash_actions)
one_more_now = jax.jit(with_one_more)
variances_now = jax.jit(direction_variances, static_argnames="optimism")


def random_surrogate(seed: int, rank: int = 2) -> Surrogate:
    rng = np.random.default_rng(seed)
    return Surrogate(
        bias=jnp.float32(rng.normal()),
        w=jnp.array(rng.normal(size=(AGENTS, ACTIONS)), jnp.float32),
        v=jnp.array(rng.normal(size=(AGENTS, ACTIONS, rank)), jnp.float32),
    )


def tried_of(actions: list[tuple[int, ...]]) -> Tried:
    tried = nothing_tried(AGENTS, ACTIONS, ROUNDS)
    for row, action in enumerate(actions):
        tried = one_more_now(tried, jnp.array(action, jnp.int32), jnp.int32(row), jnp.bool_(True))
    return tried


def tries_of(actions: list[tuple[int, ...]]) -> jax.Array:
    return jnp.array([[sum(a[i] == j for a in actions) for j in range(ACTIONS)] for i in range(AGENTS)])


def random_tried(seed: int) -> list[tuple[int, ...]]:
    """Some joint actions; the first is the incumbent."""
    rng = np.random.default_rng((seed, 1))
    count = rng.integers(1, ROUNDS)
    return [EVERYTHING[index] for index in rng.permutation(len(EVERYTHING))[:count]]


def random_legal(seed: int) -> np.ndarray:
    rng = np.random.default_rng((seed, 2))
    legal = rng.random((AGENTS, ACTIONS)) < 0.7
    legal[np.arange(AGENTS), rng.integers(ACTIONS, size=AGENTS)] = True
    return legal


def proposal_of(
    theta: Surrogate, tried: list[tuple[int, ...]], legal: np.ndarray, optimism: Optimism = ALL_LISTED
) -> Proposal:
    history = tried_of(tried)
    variances = variances_now(tries_of(tried), NOISE, optimism)
    incumbent, value = jnp.array(tried[0], jnp.int32), jnp.float32(0.25)
    return propose_now(
        theta, incumbent, value, variances, history, jnp.array(legal), link=LINK, optimism=optimism
    )


def optimistic_changes(
    theta: Surrogate, tried: list[tuple[int, ...]], legal: np.ndarray, optimism: Optimism = ALL_LISTED
) -> dict[tuple[int, ...], float]:
    """Every untried legal joint action one or two changes away, with 0.25 + gain + bonus, from scratch."""
    incumbent = tried[0]
    now = float(predict(theta, jnp.array(incumbent), LINK))
    found = {}
    for action in EVERYTHING:
        moved = [(i, j) for i, j in enumerate(action) if j != incumbent[i]]
        if len(moved) not in (1, 2) or action in tried or not all(legal[i, j] for i, j in moved):
            continue
        unknown = sum(
            1 / (1 / optimism.prior_w + sum(a[i] == j for a in tried) / float(NOISE)) for i, j in moved
        )
        if len(moved) == 2:
            together = sum(all(a[i] == j for i, j in moved) for a in tried)
            unknown += optimism.prior_v / (1 + together)
        gain = float(predict(theta, jnp.array(action), LINK)) - now
        found[action] = 0.25 + gain + optimism.weight * unknown**0.5
    return found


@settings(max_examples=12, deadline=None)
@given(seed=seeds)
def test_the_proposal_is_the_best_of_all_optimistic_changes(seed: int) -> None:
    theta, tried, legal = random_surrogate(seed), random_tried(seed), random_legal(seed)
    wanted = optimistic_changes(theta, tried, legal)
    proposal = proposal_of(theta, tried, legal)
    if not wanted:
        assert float(proposal.value) == -np.inf
        return
    action = tuple(proposal.actions.tolist())
    assert float(proposal.value) == pytest.approx(max(wanted.values()), abs=2e-3)
    assert wanted[action] == pytest.approx(max(wanted.values()), abs=2e-3)
    moves = sum(now != then for now, then in zip(action, tried[0], strict=True))
    assert int(proposal.origin) == {1: SINGLE, 2: PAIR}[moves]


@few
@given(seed=seeds, directions=st.sampled_from([0, 4, 9]))
def test_a_proposal_is_never_tried_nor_illegal_nor_far(seed: int, directions: int) -> None:
    tried, legal = random_tried(seed), random_legal(seed)
    optimism = Optimism(directions=directions)
    proposal = proposal_of(random_surrogate(seed), tried, legal, optimism)
    if not np.isfinite(proposal.value):
        singles = [
            a for a in optimistic_changes(random_surrogate(seed), tried, legal) if differs(a, tried) == 1
        ]
        assert not singles
        return
    action = tuple(proposal.actions.tolist())
    assert action not in tried
    assert all(legal[i, j] or j == tried[0][i] for i, j in enumerate(action))
    assert differs(action, tried) == (2 if int(proposal.origin) == PAIR else 1)
    assert directions > 0 or int(proposal.origin) == SINGLE


def differs(action: tuple[int, ...], tried: list[tuple[int, ...]]) -> int:
    return sum(now != then for now, then in zip(action, tried[0], strict=True))


def test_a_trap_that_no_single_change_leaves_is_left_by_a_pair() -> None:
    v = np.zeros((AGENTS, ACTIONS, 2), np.float32)
    v[:2, 1, 0], v[:2, 2, 0] = 1.0, -2.0
    theta = Surrogate(jnp.zeros(()), jnp.zeros((AGENTS, ACTIONS)), jnp.array(v))
    trap = (1, 1, 0)
    assert float(single_gains(theta, jnp.array(trap), LINK).max()) == 0.0
    legal = np.ones((AGENTS, ACTIONS), bool)
    bold = proposal_of(theta, [trap], legal, Optimism(weight=0.0, directions=9))
    assert bold.actions.tolist() == [2, 2, 0]
    assert int(bold.origin) == PAIR
    timid = proposal_of(theta, [trap], legal, Optimism(weight=0.0, directions=0))
    assert int(timid.origin) == SINGLE
    assert float(timid.value) < float(bold.value)


def test_nothing_is_left_when_everything_was_tried() -> None:
    legal = np.zeros((AGENTS, ACTIONS), bool)
    legal[0, :2] = legal[1, :2] = legal[2, :2] = True
    tried = list(itertools.product(range(2), repeat=AGENTS))
    assert float(proposal_of(random_surrogate(0), tried, legal).value) == -np.inf
    one_left = [action for action in tried if action != (1, 0, 1)]
    assert proposal_of(random_surrogate(0), one_left, legal).actions.tolist() == [1, 0, 1]


@few
@given(seed=seeds)
def test_the_bonus_shrinks_with_the_tries_of_a_direction_and_of_a_pair(seed: int) -> None:
    before = random_tried(seed)[: ROUNDS - 1]
    new = EVERYTHING[seed % len(EVERYTHING)]
    directions = Directions(*(jnp.array(x) for x in np.divmod(np.arange(AGENTS * ACTIONS), ACTIONS)))
    both = (before, [*before, new])
    variances = [np.asarray(variances_now(tries_of(tried), NOISE, ALL_LISTED)) for tried in both]
    played = np.arange(ACTIONS) == np.array(new)[:, None]
    assert (variances[1][played] < variances[0][played]).all()
    assert (variances[1][~played] == variances[0][~played]).all()
    rows, columns = unordered_pairs(AGENTS * ACTIONS)
    tries = [tries_of_pairs(tried_of(tried), directions, (rows, columns)) for tried in both]
    pairs = [np.asarray(pair_variances(pair_tries, ALL_LISTED)) for pair_tries in tries]
    together = played.ravel()[rows] & played.ravel()[columns]
    assert (pairs[1][together] < pairs[0][together]).all()
    assert (pairs[1][~together] == pairs[0][~together]).all()


def test_every_change_is_tried_in_the_end_although_nothing_speaks_for_it() -> None:
    worst = Surrogate(jnp.zeros(()), jnp.array([[0.0, -9.0, -9.0]] * AGENTS), jnp.zeros((AGENTS, ACTIONS, 2)))
    tried, legal = [(0, 0, 0)], np.ones((AGENTS, ACTIONS), bool)
    for _ in range(6):
        proposal = proposal_of(worst, tried, legal)
        tried.append(tuple(proposal.actions.tolist()))
    assert {action for action in tried if differs(action, tried) == 1} == {
        tuple(j if k == i else 0 for k in range(AGENTS)) for i in range(AGENTS) for j in (1, 2)
    }


@few
@given(seed=seeds)
def test_hashes_of_changes_are_the_hashes_of_the_changed_actions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    base = jnp.array(rng.integers(ACTIONS, size=AGENTS), jnp.int32)
    agents, choices = np.divmod(rng.permutation(AGENTS * ACTIONS)[:6], ACTIONS)
    changes = list_changes(AGENTS, ACTIONS, Directions(jnp.array(agents), jnp.array(choices)))
    hashes = hash_changes(TABLE, base, changes)
    assert hashes.shape == (AGENTS * ACTIONS + 15,)
    assert changes.is_pair.tolist() == [False] * 9 + [True] * 15
    changed = jax.vmap(apply_change, in_axes=(None, 0, 0))(base, changes.first, changes.second)
    direct = jax.vmap(hash_actions, in_axes=(None, 0))(TABLE, changed)
    one_mover = np.asarray(changes.is_pair & (changes.first.agents == changes.second.agents))
    np.testing.assert_array_equal(np.asarray(hashes)[~one_mover], np.asarray(direct)[~one_mover])
    singles = {tuple(row) for row in changed[:9].tolist()}
    assert len(singles) == 1 + AGENTS * (ACTIONS - 1)


def test_directions_to_combine_are_the_best_singles_and_the_furthest_factors() -> None:
    theta = random_surrogate(5)
    actions = jnp.array([0, 0, 0])
    gains = jnp.array([[-jnp.inf, 5.0, 4.0], [-jnp.inf, 0.0, 0.1], [-jnp.inf, 0.2, -jnp.inf]])
    moved = np.sum((np.asarray(theta.v) - np.asarray(theta.v)[:, :1]) ** 2, axis=-1)
    agents, choices = pick_directions(theta, actions, gains, 4)
    picked = list(zip(agents.tolist(), choices.tolist(), strict=True))
    assert set(picked[:2]) == {(0, 1), (0, 2)}
    others = sorted([(1, 1), (1, 2), (2, 1)], key=lambda direction: -moved[direction])
    assert picked[2:] == others[:2]


def test_unordered_pairs_are_all_pairs_once() -> None:
    rows, columns = unordered_pairs(5)
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == list(
        itertools.combinations(range(5), 2)
    )


climb_now = jax.jit(climb)
score_now = jax.jit(score)


@few
@given(seed=seeds)
def test_climbing_never_goes_down_and_keeps_to_legal_actions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta, legal = random_surrogate(seed), random_legal(seed)
    actions = jnp.array([rng.choice(np.flatnonzero(row)) for row in legal], jnp.int32)
    order = jnp.array(rng.integers(AGENTS, size=1))
    for _ in range(6):
        higher = climb_now(theta, actions, order, jnp.array(legal))
        assert float(score_now(theta, higher)) >= float(score_now(theta, actions)) - 1e-5
        assert legal[np.arange(AGENTS), np.asarray(higher)].all()
        agent = int(order[0])
        best = max(
            float(score_now(theta, actions.at[agent].set(j))) for j in range(ACTIONS) if legal[agent, j]
        )
        assert float(score_now(theta, higher)) == pytest.approx(best, abs=1e-4)
        actions, order = higher, (order + 1) % AGENTS


@few
@given(seed=seeds)
def test_a_long_climb_ends_where_no_single_change_helps(seed: int) -> None:
    theta, legal = random_surrogate(seed), jnp.ones((AGENTS, ACTIONS), bool)
    order = jnp.arange(8 * AGENTS) % AGENTS
    top = climb_now(theta, jnp.zeros(AGENTS, jnp.int32), order, legal)
    assert float(single_gains(theta, top, LINK).max()) <= 1e-4


def largest_intermediate(jaxpr) -> int:
    """Elements of the largest array that any equation makes, nested ones included."""
    largest = 0
    for equation in jaxpr.eqns:
        largest = max([largest, *(getattr(out.aval, "size", 0) for out in equation.outvars)])
        for part in jax.tree.leaves(equation.params, is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(part, "jaxpr", part)
            largest = max(largest, largest_intermediate(inner) if hasattr(inner, "eqns") else 0)
    return largest


def test_no_array_grows_with_the_square_of_the_directions() -> None:
    agents, actions, rounds, rank = 20, 35, 64, 4
    optimism = Optimism()
    tried = nothing_tried(agents, actions, rounds)
    theta = init_surrogate(jax.random.key(0), agents, actions, rank)

    def propose_anew(theta: Surrogate, incumbent: jax.Array) -> Proposal:
        variances = direction_variances(jnp.zeros((agents, actions), jnp.int32), NOISE, optimism)
        legal = jnp.ones((agents, actions), bool)
        return propose(theta, incumbent, jnp.float32(0), variances, tried, legal, LINK, optimism)

    largest = largest_intermediate(jax.make_jaxpr(propose_anew)(theta, jnp.zeros(agents, jnp.int32)).jaxpr)
    assert agents * actions * rank <= largest < (agents * actions) ** 2 / 20
