import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nonzero.model.supports import Support, invert_transform, support_of, transform


def test_transform_at_numbers_computed_by_hand() -> None:
    np.testing.assert_allclose(
        transform(jnp.array([0.0, 3.0, 8.0, -8.0])), [0.0, 1.003, 2.008, -2.008], rtol=1e-6
    )


@settings(deadline=None)  # the first example compiles
@given(st.floats(-1e5, 1e5))
def test_inverse_undoes_the_transform(x: float) -> None:
    # float32 keeps about 7 digits of h, which is about the square root: half as many of x, and no fewer.
    np.testing.assert_allclose(invert_transform(transform(jnp.float32(x))), x, rtol=2e-5, atol=2e-6)


def test_small_numbers_keep_their_digits() -> None:
    x = jnp.array([1e-4, -2.5e-3])
    # In float32 the inverse as textbooks write it errs by up to 6e-5 here.
    np.testing.assert_allclose(invert_transform(transform(x)), x, rtol=5e-3)


def test_projection_by_hand() -> None:
    # h(3) = 1.003 and h(-3) = -1.003: three bins, one h-unit of 1.003 apart.
    support = Support(-3.0, 3.0, 3)
    projected = support.project(jnp.array([0.0, 3.0, invert_transform(jnp.float32(0.25 * 1.003))]))
    np.testing.assert_allclose(projected, [[0, 1, 0], [0, 0, 1], [0, 0.75, 0.25]], atol=1e-6)


def test_projection_and_mean_are_inverse_inside_and_clip_outside() -> None:
    support = Support(-20.0, 300.0, 41)
    x = jnp.array([-20.0, -1.3, 0.0, 7.7, 299.0, 1000.0, -21.0])
    projected = support.project(x)
    np.testing.assert_allclose(projected.sum(-1), 1.0, rtol=1e-5)
    assert jnp.all((projected > 0).sum(-1) <= 2)
    back = support.mean(jnp.log(projected))
    np.testing.assert_allclose(back, [-20.0, -1.3, 0.0, 7.7, 299.0, 300.0, -20.0], rtol=1e-4, atol=1e-4)
    assert support.clips(x).tolist() == [False] * 5 + [True] * 2


def test_support_follows_from_bounds_and_holds_zero() -> None:
    assert support_of((12.0, 60.0), 11) == Support(0.0, 60.0, 11)
    assert support_of((-5.0, -1.0), 11) == Support(-5.0, 0.0, 11)


@pytest.mark.parametrize(("low", "high", "bins"), [(1.0, 1.0, 5), (0.0, jnp.inf, 5), (0.0, 1.0, 1)])
def test_impossible_supports_are_refused(low: float, high: float, bins: int) -> None:
    with pytest.raises(ValueError, match="a support needs"):
        Support(low, high, bins)


def test_cross_entropy_to_a_projection_is_least_at_its_mean() -> None:
    support = Support(0.0, 60.0, 21)
    target = support.project(jnp.float32(37.0))
    logits = jax.lax.fori_loop(0, 2000, lambda _, x: x - (jax.nn.softmax(x) - target), jnp.zeros(21))
    np.testing.assert_allclose(support.mean(logits), 37.0, rtol=5e-3)
