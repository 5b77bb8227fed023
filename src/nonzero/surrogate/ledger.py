"""The optimiser's books on the host: which rows of the bandit wait for a value, and the values told."""

import math
from typing import NamedTuple

import numpy as np


class Ledger(NamedTuple):
    """What was handed out and told, by row of the bandit; T is the capacity."""

    sums: np.ndarray
    """[T] of the values told."""
    counts: np.ndarray
    """[T] of values told."""
    waiting: np.ndarray
    """[T] whether a value is still to come."""
    origins: np.ndarray
    """[T] PRIOR, SINGLE or PAIR."""

    def before_asking(self) -> "Ledger":
        """The same books, unchanged by what will be handed out."""
        return self._replace(waiting=self.waiting.copy(), origins=self.origins.copy())

    def grown(self, capacity: int) -> "Ledger":
        """The same books with room for `capacity` rows."""
        return Ledger(*(np.pad(array, (0, capacity - len(array))) for array in self))

    def means(self) -> np.ndarray:
        """[T] of the values told; 0 where there are none."""
        return self.sums / np.maximum(self.counts, 1)

    def scale(self) -> tuple[float, float]:
        """The mean and the spread of the values told, which normalise them."""
        is_told, means = self.counts > 0, self.means()
        count = np.count_nonzero(is_told)
        if count == 0:
            return 0.0, 1.0
        largest = float(np.abs(means).max()) or 1.0
        centre = float(means.sum()) / count
        shares = (means - centre) / largest * is_told
        spread = largest * math.sqrt(float(shares @ shares) / count)
        # Equal values differ by rounding alone, which must not be blown up.
        return centre, spread if spread > 1e-12 * largest else largest

    def normalised(self) -> np.ndarray:
        """[T] means at zero mean and unit spread; 0 where nothing was told."""
        centre, spread = self.scale()
        return ((self.means() - centre) / spread * (self.counts > 0)).astype(np.float32)


def blank_ledger(capacity: int) -> Ledger:
    """Books with nothing in them."""
    return Ledger(
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, bool),
        np.zeros(capacity, np.int8),
    )
