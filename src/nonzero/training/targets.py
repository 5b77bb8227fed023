"""What predictions are held against: returns, and which steps of a window still belong to the episode.

Functions take one stretch of play, T steps in a row; the caller vmaps. Step t is what was seen and done at t:
`reward[t]`, `terminated[t]` and `truncated[t]` follow from the action at t. A stretch may run on into the
next episode.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def n_step_returns(
    reward: Float[Array, " T"],
    value: Float[Array, " T"],
    terminated: Bool[Array, " T"],
    truncated: Bool[Array, " T"],
    *,
    discount: float,
    steps: int,
    horizon: Int[Array, ""] | int | None = None,
) -> Float[Array, " T-{steps}"]:
    """G_t = Σ_{j<m} γ^j r_{t+j} + γ^m v_{t+m} for the first T − `steps` positions.

    m is `horizon` (at most `steps`, which it is by default), less where the episode ends before: a terminated
    one is worth nothing after its last reward; a truncated one goes on unseen, so its last value is taken
    instead of its last reward, and at the last step itself the return says nothing new.
    """
    size = reward.shape[0] - steps
    horizon = steps if horizon is None else horizon
    total, weight, goes_on = jnp.zeros(size), 1.0, jnp.ones(size, bool)
    for j in range(steps + 1):
        here = slice(j, j + size)
        stops = goes_on & (truncated[here] | (j >= horizon))
        total = total + weight * jnp.where(stops, value[here], 0.0)
        goes_on = goes_on & ~stops
        total = total + weight * jnp.where(goes_on, reward[here], 0.0)
        goes_on = goes_on & ~terminated[here]
        weight = weight * discount
    return total


def reach(
    terminated: Bool[Array, " T"], truncated: Bool[Array, " T"]
) -> tuple[Bool[Array, " T"], Bool[Array, " T"]]:
    """Which steps belong to the episode of the first one, and which ones' worth is known.

    After termination nothing follows, and that is known: no reward, no value. After truncation nobody knows.
    """
    ended = terminated | truncated
    is_inside = jnp.cumsum(ended) - ended == 0
    cut = truncated & is_inside
    return is_inside, jnp.cumsum(cut) - cut == 0
