"""Intervals: that they hold the mean as often as they say, and refuse nonsense."""

import numpy as np
import pytest

from nonzero.evaluation.statistics import bootstrap_interval, interquartile_mean, paired_difference


def test_interval_holds_the_mean_about_as_often_as_it_says():
    random = np.random.default_rng(0)
    samples = random.normal(3.0, 2.0, size=(200, 25))
    held = [low <= 3.0 <= high for _, low, high in map(bootstrap_interval, samples)]
    # The percentile bootstrap of 25 values holds a little less than it says: 0.95 ± four standard errors.
    assert 0.87 <= np.mean(held) <= 0.99


def test_interval_of_equal_values_is_that_value():
    assert bootstrap_interval([2.0, 2.0, 2.0]) == (2.0, 2.0, 2.0)
    assert bootstrap_interval([5.0]) == (5.0, 5.0, 5.0)


def test_interval_is_the_same_each_time():
    assert bootstrap_interval([1.0, 4.0, 2.0]) == bootstrap_interval([1.0, 4.0, 2.0])


def test_pairing_takes_out_what_the_games_differ_by():
    games = np.array([10.0, 100.0, 1000.0, 5.0])
    difference = paired_difference(games + 1.0, games)
    assert difference == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]]])
def test_wrong_shapes_are_refused(values: list):
    with pytest.raises(ValueError, match="at least one value"):
        bootstrap_interval(values)


def test_unpaired_values_are_refused():
    with pytest.raises(ValueError, match="one shape"):
        paired_difference([1.0, 2.0], [1.0])


def test_interquartile_mean_by_hand() -> None:
    assert interquartile_mean([0, 1, 2, 100]) == 1.5
    # Of six values one and a half are cut off at each end.
    assert interquartile_mean([9, 1, 2, 3, 4, 100]) == pytest.approx((0.5 * 2 + 3 + 4 + 0.5 * 9) / 3)
    assert interquartile_mean([7.0]) == 7.0
