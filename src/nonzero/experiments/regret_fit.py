"""Growth exponents and their bootstrap intervals over seeds."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000


class Estimate(NamedTuple):
    """A number with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        # Adding zero turns what is rounded to minus zero into zero.
        value, low, high = (round(number, 2) + 0.0 for number in self)
        return f"{value:.2f} ({low:.2f} to {high:.2f})"


def growth_exponent(rounds: np.ndarray, curves: np.ndarray, decades: float = 1.0) -> Estimate:
    """The exponent p of regret ∝ t^p over the last decades of `rounds` [C], from curves [seed, C] averaged.

    The theorem bounds the expected regret, so the mean over seeds is fitted and not each seed's own curve.
    """
    late = rounds >= rounds[-1] / 10.0**decades
    log_rounds = np.log(rounds[late])

    def exponent(picked: np.ndarray) -> float:
        # A regret of nothing has no logarithm; less than one round in a hundred seeds is taken for nothing.
        mean = np.maximum(curves[picked][:, late].mean(axis=0), 1e-2)
        return slope(log_rounds, np.log(mean))

    return bootstrap(exponent, len(curves))


def size_slope(sizes: np.ndarray, rounds: np.ndarray) -> tuple[Estimate, float]:
    """The slope of log median rounds [size, seed] over `sizes`, and the share R² of variance it explains."""

    def fit(picked: np.ndarray) -> float:
        return slope(sizes, np.log(np.median(rounds[:, picked], axis=1)))

    logs = np.log(np.median(rounds, axis=1))
    line = logs.mean() + slope(sizes, logs) * (sizes - sizes.mean())
    explained = 1.0 - np.sum((logs - line) ** 2) / np.sum((logs - logs.mean()) ** 2)
    return bootstrap(fit, rounds.shape[1]), float(explained)


def slope(x: np.ndarray, y: np.ndarray) -> float:
    """The slope of the least-squares line of y over x."""
    centred = x - x.mean()
    return float(centred @ y / (centred @ centred))


def bootstrap(statistic: Callable[[np.ndarray], float], count: int) -> Estimate:
    """A statistic of picked seeds, with the interval over seeds picked at random with replacement."""
    rng = np.random.default_rng(0)
    resampled = [statistic(rng.integers(count, size=count)) for _ in range(RESAMPLES)]
    low, high = np.percentile(resampled, [2.5, 97.5])
    return Estimate(statistic(np.arange(count)), float(low), float(high))
