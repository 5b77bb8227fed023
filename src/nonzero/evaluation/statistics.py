"""Summaries of a few seeds, with bootstrap intervals."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

RESAMPLES = 10_000


class Interval(NamedTuple):
    """A mean and the ends of its confidence interval."""

    mean: float
    low: float
    high: float


def bootstrap_interval(values: ArrayLike, *, confidence: float = 0.95, seed: int = 0) -> Interval:
    """The mean of `values` with its percentile bootstrap interval; a single value is its own interval."""
    sample = np.asarray(values, np.float64)
    if sample.ndim != 1 or sample.size == 0:
        raise ValueError(f"an interval needs a list of at least one value, got shape {sample.shape}")
    rows = np.random.default_rng(seed).integers(sample.size, size=(RESAMPLES, sample.size))
    means = sample[rows].mean(axis=1)
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(means, [tail, 100.0 - tail])
    return Interval(float(sample.mean()), float(low), float(high))


def paired_difference(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """The mean of `first - second`, seed by seed, with its bootstrap interval."""
    left, right = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if left.shape != right.shape:
        raise ValueError(f"paired values have one shape, got {left.shape} and {right.shape}")
    return bootstrap_interval(left - right, confidence=confidence)


def interquartile_mean(values: ArrayLike) -> float:
    """The mean of the middle half; of values that the quartiles cut, the inner part counts."""
    sample = np.sort(np.asarray(values, np.float64))
    if sample.ndim != 1 or sample.size == 0:
        raise ValueError(
            f"an interquartile mean needs a list of at least one value, got shape {sample.shape}"
        )
    place = np.arange(sample.size)
    quarter = sample.size / 4.0
    weight = np.clip(np.minimum(place + 1 - quarter, sample.size - quarter - place), 0.0, 1.0)
    return float(np.average(sample, weights=weight))
