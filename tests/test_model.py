from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nonzero
from nonzero.model.inference import (
    extend_history,
    initial_inference,
    recurrent_inference,
    start_history,
    window_histories,
)
from nonzero.model.layers import Attention, Block
from nonzero.model.networks import Model
from nonzero.model.settings import ModelSettings
from nonzero.search import preset, search
from nonzero.surrogate.predictor import Link, Surrogate, predict

SMALL = ModelSettings(
    history=2,
    width=16,
    representation_layers=(16,),
    dynamics_layers=(16,),
    head_layers=(8,),
    mixing_layers=(8,),
    projection_layers=(8, 8),
    bins=11,
    rank=2,
)

build = eqx.filter_jit(Model)
initial = jax.jit(initial_inference)
represent = jax.jit(Model.represent)
imagine = jax.jit(Model.imagine)


def small_model(*, has_mixing: bool = True, env: str = "matgame/linear-4x5") -> Model:
    spec = nonzero.make(env).spec
    return build(jax.random.key(0), spec, SMALL, discount=0.9, has_mixing=has_mixing)


def histories(model: Model, batch: int) -> jax.Array:
    return jax.random.normal(jax.random.key(1), (batch, SMALL.history, 4, 5))


def test_block_normalises_then_cuts() -> None:
    block = Block(jax.random.key(0), 3, 2)
    block = eqx.tree_at(lambda b: b.linear.weight, block, jnp.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    # Two features normalise to 1 and -1, and -1 is cut.
    np.testing.assert_allclose(block(jnp.array([5.0, 1.0, 9.0])), [1.0, 0.0], atol=1e-4)


@pytest.mark.parametrize("agents", [3, 6])
def test_both_forms_of_attention_agree(agents: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Attention(jax.random.key(0), 16, 4)
    x = jax.random.normal(jax.random.key(1), (2, agents, 16))
    natural = layer(x)
    monkeypatch.setattr("nonzero.model.layers.FEW_AGENTS", 6 if agents > 4 else 0)
    np.testing.assert_allclose(natural, layer(x), atol=1e-5)


def test_attention_treats_agents_alike() -> None:
    layer = Attention(jax.random.key(0), 16, 4)
    x = jax.random.normal(jax.random.key(1), (2, 6, 16))
    order = jnp.array([3, 1, 0, 5, 4, 2])
    np.testing.assert_allclose(layer(x)[:, order], layer(x[:, order]), atol=1e-5)


def test_a_fresh_model_prefers_nothing() -> None:
    model = small_model()
    outputs, latent = initial(model, histories(model, 3))
    assert latent.shape == (3, 4, 16)
    np.testing.assert_array_equal(outputs.policy_logits, 0.0)
    # Uniform over bins: the mean is the middle of the axis of h.
    middle = model.support.mean(jnp.zeros(11))
    np.testing.assert_allclose(outputs.value, middle, rtol=1e-5)
    np.testing.assert_allclose(outputs.discount, 0.9)


def test_rows_of_a_batch_are_independent_and_agents_are_told_apart() -> None:
    model = small_model()
    seen = histories(model, 4)
    latent = represent(model, seen)
    changed = represent(model, seen.at[2].add(1.0 + jnp.arange(5.0)))
    same = np.isclose(latent, changed).all(axis=(1, 2))
    assert same.tolist() == [True, True, False, True]
    alike = jnp.broadcast_to(seen[:, :, :1], seen.shape)
    latent = represent(model, alike)
    assert not np.allclose(latent[:, 0], latent[:, 1], atol=1e-3)


def test_an_agents_action_reaches_the_others_latents() -> None:
    model = small_model()
    latent = represent(model, histories(model, 2))
    actions = jnp.zeros((2, 4), jnp.int32)
    before, _ = imagine(model, latent, actions)
    after, _ = imagine(model, latent, actions.at[0, 1].set(3))
    moved = np.abs(before - after).max(axis=-1) > 1e-5
    assert moved.tolist() == [[True] * 4, [False] * 4]


def test_mixing_gives_a_surrogate_for_every_state() -> None:
    model = small_model()
    outputs, _ = initial(model, histories(model, 3))
    said = outputs.surrogate
    theta = Surrogate(said.bias, said.w, said.v)
    assert theta.v.shape == (3, 4, 5, 2)
    assert theta.rank == 2
    eta = jax.vmap(lambda t, a: predict(t, a, Link()))(theta, jnp.zeros((3, 4), jnp.int32))
    assert jnp.isfinite(eta).all()
    # Factors at zero would never move: the gradient of one is a product of others.
    assert jnp.abs(theta.v).min() > 0
    assert initial(small_model(has_mixing=False), histories(model, 3))[0].surrogate is None


def test_search_takes_the_model_as_it_is() -> None:
    model = small_model()
    root = initial(model, histories(model, 3))
    result = search(
        recurrent_inference,
        model,
        root,
        jax.random.key(0),
        num_simulations=8,
        num_candidates=3,
        rules=preset("mazero"),
    )
    assert result.is_finite.all()
    np.testing.assert_array_equal(result.visits.sum(-1), 8)


def test_wrong_attention_heads_are_refused() -> None:
    spec = nonzero.make("matgame/linear-2x3").spec
    with pytest.raises(ValueError, match="3 attention heads cannot share a width of 16"):
        Model(jax.random.key(0), spec, replace(SMALL, attention_heads=3), discount=0.9, has_mixing=False)


def test_window_histories_are_what_extending_built() -> None:
    is_first = np.array([True, False, False, True, True, False, False, False])
    obs = jnp.arange(8.0)[:, None, None] * jnp.ones((8, 2, 3))
    history, built = start_history(obs[:1], 3), []
    for t in range(8):
        history = extend_history(history, obs[t : t + 1], jnp.asarray(is_first[t : t + 1]))
        built.append(history[0])
    expected = [[0, 1, 2], [3, 3, 3], [4, 4, 4], [4, 4, 5], [4, 5, 6], [5, 6, 7]]
    stacked = window_histories(obs, jnp.asarray(is_first), 3)
    np.testing.assert_array_equal(stacked[:, :, 0, 0], expected)
    np.testing.assert_array_equal(stacked, jnp.stack(built[2:]))
