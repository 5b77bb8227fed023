import jax
import jax.numpy as jnp
import numpy as np

from nonzero.training.targets import n_step_returns, reach

NO = jnp.zeros(6, bool)
REWARD = jnp.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
VALUE = jnp.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])


def returns(terminated=NO, truncated=NO, steps=2, horizon=None) -> np.ndarray:
    found = n_step_returns(REWARD, VALUE, terminated, truncated, discount=0.5, steps=steps, horizon=horizon)
    return np.asarray(found)


def at(*places: int) -> jax.Array:
    return NO.at[jnp.array(places)].set(True)


def test_without_an_end_returns_bootstrap_after_n_steps() -> None:
    # 1 + 2/2 + 30/4, 2 + 3/2 + 40/4, ...
    np.testing.assert_allclose(returns(), [9.5, 13.5, 17.5, 21.5])


def test_nothing_follows_a_terminated_episode() -> None:
    # Step 2 is the last: 1 + 2/2 + 30/4 still bootstraps at it; from 1: 2 + 3/2; from 2: 3.
    np.testing.assert_allclose(returns(terminated=at(2)), [9.5, 3.5, 3.0, 21.5])


def test_a_truncated_episode_bootstraps_from_its_last_value() -> None:
    # From 1: 2 + 30/2; from 2, the last step itself, the value alone.
    np.testing.assert_allclose(returns(truncated=at(2)), [9.5, 17.0, 30.0, 21.5])


def test_old_data_count_fewer_rewards() -> None:
    # 1 + 20/2, 2 + 30/2, ...
    np.testing.assert_allclose(returns(horizon=1), [11.0, 17.0, 23.0, 29.0])
    np.testing.assert_allclose(returns(terminated=at(1), horizon=1), [11.0, 2.0, 23.0, 29.0])


def test_true_values_are_a_fixed_point_for_every_n() -> None:
    # An episode of 6 rewards, then nothing: with V the true return, every n-step return is V.
    terminated = at(5)
    value = np.zeros(6)
    for t in reversed(range(6)):
        value[t] = REWARD[t] + 0.5 * (value[t + 1] if t < 5 else 0.0)
    for steps in range(1, 6):
        found = n_step_returns(
            REWARD, jnp.asarray(value, jnp.float32), terminated, NO, discount=0.5, steps=steps
        )
        np.testing.assert_allclose(found, value[: 6 - steps], rtol=1e-6)


def test_reach() -> None:
    inside, known = reach(at(2, 4), NO)
    assert inside.tolist() == [True, True, True, False, False, False]
    assert known.tolist() == [True] * 6
    inside, known = reach(NO, at(2))
    assert inside.tolist() == known.tolist() == [True, True, True, False, False, False]
    # A truncation after the end of the first episode is another episode's matter.
    assert reach(at(1), at(3))[1].tolist() == [True] * 6
    assert reach(NO, NO)[0].tolist() == [True] * 6
