"""The mixing network: what it learns from, and that the search reads θ in the units it was learned in."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nonzero.model.inference import initial_inference
from nonzero.model.networks import ENTRY
from nonzero.search import preset
from nonzero.search.guide import Guide, eta, hear, start
from nonzero.surrogate.posterior import Forecast
from nonzero.surrogate.predictor import Link, Surrogate, predict
from nonzero.training.checkpoint import named_arrays
from nonzero.training.rollout import PolicyTargets, plan, with_forecast
from nonzero.training.train import TrainState, new_state, track
from nonzero.training.unroll import Batch
from nonzero.types import PRIOR, Candidates, ModelOutputs
from training_setup import TINY, go, tiny_learner

ACTIONS = jnp.array([[[0, 0], [2, 1], [1, 2]]])
THETA = Surrogate(
    jnp.array([0.5]),
    jnp.array([[[0.0, 1.0, 2.0], [0.0, -1.0, 3.0]]]),
    jax.random.normal(jax.random.key(0), (1, 2, 3, 2)),
)
GUIDE = Guide()


def said(unit: float = 4.0) -> ModelOutputs:
    """A root with a θ."""
    forecast = Forecast(THETA, jnp.array([unit]), jnp.array([0.5]))
    one = jnp.ones(1)
    return ModelOutputs(jnp.zeros((1, 2, 3)), 7.0 * one, 0.0 * one, one, forecast)


def candidates() -> Candidates:
    filled = jnp.ones((1, 3), bool)
    return Candidates(ACTIONS, filled / 3, filled, jnp.full((1, 3), PRIOR))


def foretold(unit: float = 4.0) -> np.ndarray:
    """unit · η(θ, a) of the candidates."""
    theta = jax.tree.map(lambda x: x[0], THETA)
    return np.array([[unit * float(predict(theta, a, Link())) for a in ACTIONS[0]]])


def test_before_anything_is_told_the_guide_says_what_the_model_says() -> None:
    root = said()
    guided = start(GUIDE, root, jnp.ones((1, 2, 3), bool), 4)
    np.testing.assert_allclose(eta(GUIDE, guided, candidates()), foretold(), rtol=1e-5)


def test_returns_that_are_as_foretold_change_nothing_and_others_do() -> None:
    root = said()
    guided = start(GUIDE, root, jnp.ones((1, 2, 3), bool), 4)
    depth = jnp.ones(1, jnp.int32)
    # θ says differences; all returns lie 7 higher.
    returns = jnp.asarray(7.0 + foretold())
    for slot in range(2):
        guided = hear(GUIDE, guided, slot, ACTIONS[:, slot], depth, returns[:, slot])
    np.testing.assert_allclose(eta(GUIDE, guided, candidates()), returns, rtol=1e-5)
    better = hear(GUIDE, guided, 2, ACTIONS[:, 2], depth, returns[:, 2] + 4.0)
    moved = np.asarray(eta(GUIDE, better, candidates()) - returns)[0]
    assert moved[2] > max(moved[0], moved[1])
    assert moved[2] < 4.0


def test_a_guide_without_the_model_does_not_look_at_its_theta() -> None:
    guide = preset("without-mixing-net").guide
    assert guide is not None
    guided = start(guide, said(), jnp.ones((1, 2, 3), bool), 4)
    np.testing.assert_array_equal(eta(guide, guided, candidates()), 0.0)


@pytest.mark.parametrize(
    ("name", "learns"),
    [("nonzero", True), ("without-curvature", True), ("without-mixing-net", False), ("mazero", False)],
)
def test_a_mixing_network_is_learned_where_the_search_starts_from_it(name: str, learns: bool) -> None:
    assert preset(name).learns_surrogate is learns
    assert (begin(name).model.mixing is not None) is learns


@pytest.mark.parametrize(("name", "rank"), [("nonzero", 2), ("without-curvature", 0), ("paper", 0)])
def test_a_search_that_sees_no_pairs_learns_none(name: str, rank: int) -> None:
    mixing = begin(name).model.mixing
    assert mixing is not None
    assert mixing.rank == rank
    assert mixing(jnp.zeros((1, 2, 8))).v.shape == (1, 2, 3, rank)


def begin(algo: str = "nonzero") -> TrainState:
    return new_state(tiny_learner(algo), jax.random.key(0))


def test_the_search_hears_of_the_mixing_network() -> None:
    model = begin().model
    assert model.mixing is not None
    bias = model.mixing.rows.out.bias
    # The first of each action's numbers is its entry of w.
    keen = eqx.tree_at(lambda m: m.mixing.rows.out.bias, model, bias.at[0].add(30.0))
    history = jnp.zeros((2, 2, 2, 3))
    theta = with_forecast(initial_inference(keen, history)[0]).surrogate.surrogate
    np.testing.assert_allclose(theta.w, 30.0 * ENTRY * jax.nn.one_hot(jnp.zeros((2, 2), int), 3), atol=1e-6)
    rules = tiny_learner("nonzero").rules
    legal = jnp.ones((2, 2, 3), bool)
    result, _ = plan(keen, history, legal, jax.random.key(1), rules, TINY.search)
    zeros = np.sum(np.asarray(result.candidates.actions) == 0, axis=-1)
    assert result.eta is not None
    # η grows with every agent that plays it.
    assert (zeros.max(axis=-1) > 0).all()
    assert (np.argmax(result.eta, axis=-1) == np.argmax(zeros, axis=-1)).all()


def test_unit_and_error_are_means_over_updates() -> None:
    model = begin().model
    zeros = jnp.zeros((1, 4, 2))
    nothing = PolicyTargets(jnp.zeros((1, 4, 2, 2), int), zeros, zeros, jnp.zeros((1, 4)))
    batch = Batch(
        histories=jnp.zeros((1, 4, 2, 2, 3)),
        legal=jnp.ones((1, 4, 2, 3), bool),
        actions=jnp.zeros((1, 3, 2), int),
        rewards=jnp.zeros((1, 3)),
        values=jnp.zeros((1, 4)),
        gains=jnp.array([[1.0, 5.0, 99.0]]),
        is_inside=jnp.array([[True, True, False, False]]),
        is_known=jnp.array([[True, True, True, True]]),
        policy=nothing,
        policy_weight=jnp.zeros(1),
    )
    first = track(model, batch, jnp.float32(0.25), jnp.int32(1)).mixing
    assert first is not None
    # Of 1 and 5 the deviation is 2; the third lies past the end.
    np.testing.assert_allclose([first.centre, first.unit], [3.0, 2.0], rtol=1e-6)
    fourth = track(model, batch, jnp.float32(0.25), jnp.int32(4)).mixing
    assert fourth is not None
    np.testing.assert_allclose([fourth.centre, fourth.unit**2], [0.75, 0.75 + 1.0], rtol=1e-6)
    # The error starts at 1, and nothing makes it larger.
    np.testing.assert_allclose(fourth.error**2, 0.95 + 0.0125, rtol=1e-6)
    wild = track(model, batch, jnp.float32(60.0), jnp.int32(1)).mixing
    assert wild is not None
    assert float(wild.error) == 1.0


def test_the_mixing_network_learns_and_how_calls_are_cut_does_not_matter_to_the_bit() -> None:
    played = go(begin(), 1, 0, 10, "nonzero")
    before = jax.tree.map(jnp.copy, played.model)
    copied = jax.tree.map(jnp.copy, played)
    whole = go(copied, 1, 1, 4, "nonzero")
    parts = go(go(played, 1, 1, 1, "nonzero"), 1, 1, 3, "nonzero")
    left, right, old = named_arrays(whole), named_arrays(parts), named_arrays(before)
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)
    for name in ("mixing.rows.out.weight", "mixing.centre", "mixing.unit", "mixing.error"):
        assert not np.array_equal(left[f"model.{name}"], old[name])
