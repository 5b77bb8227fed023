"""NonUCT for any black box over a product of finite sets: ask what to evaluate, tell what came out.

    optimizer = NonUCT(num_actions=[4, 4, 4], seed=0)
    for _ in range(100):
        action = optimizer.ask()
        optimizer.tell(action, measure(action))
    print(optimizer.best())

No gradient, no model, no training: it is for whoever has a simulator, or a machine, and n choices to make
together.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from nonzero.surrogate.bandit import Bandit, Rules, ask, believed_values, grown, new_bandit
from nonzero.surrogate.proposal import Optimism

FIRST_CAPACITY = 256
"""Room is made for four times as many joint actions whenever it runs out; each size compiles once."""
MAX_REJECTIONS = 10_000
"""Illegal joint actions in a row before the search for a legal one is given up."""
ORIGINS = ("prior", "single", "pair")

Action = tuple[int, ...]


class Best(NamedTuple):
    """The best joint action known and its value."""

    action: Action
    value: float


class NonUCT:
    """Maximise a function of a joint action, one choice for each of n agents, in few evaluations."""

    def __init__(
        self,
        num_actions: Sequence[int],
        *,
        rank: int = 4,
        seed: int = 0,
        is_noisy: bool = False,
        is_legal: Callable[[Action], bool] | None = None,
        pairs: bool = True,
    ):
        """Get ready to choose among `num_actions[i]` actions for each agent i.

        `rank` is that of the surrogate's pairwise part; 0 is the paper's surrogate, which cannot see that a
        pair of changes helps where neither does. Set `is_noisy` when evaluating the same joint action twice
        gives two values: then promising ones are asked for again. `is_legal` says which joint actions may
        be asked for. Without `pairs` only one agent's action is changed at a time. The same seed and values
        give the same joint actions.
        """
        sizes = [checked_size(agent, size) for agent, size in enumerate(num_actions)]
        if not sizes:
            raise ValueError("num_actions is empty: give the number of actions of each agent")
        if not isinstance(rank, int) or not 0 <= rank <= 64:
            raise ValueError(f"rank is a whole number from 0 to 64, not {rank}")
        self.num_actions = tuple(sizes)
        self.seed = int(seed)
        self._is_legal = is_legal
        self._mask = np.arange(max(sizes)) < np.array(sizes)[:, None]
        self._rules = Rules(
            rank=rank,
            members=1 if rank == 0 else Rules.members,
            initial=2 * max(sizes),
            is_noisy=is_noisy,
            optimism=Optimism() if pairs else replace(Optimism(), directions=0),
        )
        self._bandit = new_bandit(jax.random.key(self.seed), *self._mask.shape, FIRST_CAPACITY, self._rules)
        self._sums = np.zeros(FIRST_CAPACITY)
        self._counts = np.zeros(FIRST_CAPACITY, np.int64)
        self._rows: dict[Action, int] = {}
        self._pending: dict[Action, int] = {}
        self._origins: dict[Action, str] = {}

    def ask(self, batch: int | None = None) -> Any:
        """The next joint action to evaluate, or a list of `batch` different ones to evaluate side by
        side."""
        if batch is None:
            return self._ask_one()
        if not isinstance(batch, (int, np.integer)) or batch < 1:
            raise ValueError(f"batch is a positive number of joint actions, not {batch}")
        return [self._ask_one() for _ in range(batch)]

    def tell(self, action: Sequence[int], value: float) -> None:
        """Report the value of a joint action that was asked for; a wrong report changes nothing."""
        known = self._checked_action(action)
        number = checked_value(value)
        if known not in self._pending:
            again = "was told already" if known in self._rows else "was never asked for"
            raise ValueError(f"joint action {known} {again}: tell what ask() returned, once each")
        row = self._rows[known]
        self._sums[row] += number
        self._counts[row] += 1
        self._pending[known] -= 1
        if not self._pending[known]:
            del self._pending[known]

    def best(self) -> Best:
        """The best joint action told, with its value: of noisy values, the one believed best and its
        mean."""
        told = self._counts > 0
        if not told.any():
            raise ValueError("nothing was told yet: best() needs at least one value")
        means = self._means()
        standing = means
        if self._rules.is_noisy:
            centre, spread = self._scale()
            believed = centre + spread * np.asarray(believed_values(self._bandit, self._rules), np.float64)
            standing = (self._counts * means + believed) / (self._counts + 1)
        row = int(np.argmax(np.where(told, standing, -np.inf)))
        return Best(self._action_of(row), float(means[row]))

    def origin(self, action: Sequence[int]) -> str:
        """Where a joint action that was asked for came from: prior (a sample), single or pair (a
        change)."""
        known = self._checked_action(action)
        if known not in self._origins:
            raise ValueError(f"joint action {known} was never asked for")
        return self._origins[known]

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on to the bit, as numpy arrays and plain values."""
        leaves = jax.tree.leaves(without_key(self._bandit))
        return {
            "settings": self._settings(),
            "key": np.asarray(jax.random.key_data(self._bandit.key)),
            "arrays": [np.asarray(leaf).copy() for leaf in leaves],
            "sums": self._sums.copy(),
            "counts": self._counts.copy(),
            "rows": dict(self._rows),
            "pending": dict(self._pending),
            "origins": dict(self._origins),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another optimiser with the same settings was when it made `state`."""
        missing = {"settings", "key", "arrays", "sums", "counts", "rows", "pending", "origins"} - set(state)
        if missing:
            raise ValueError(f"not a state of NonUCT: {', '.join(sorted(missing))} missing")
        for name, mine in self._settings().items():
            if state["settings"].get(name) != mine:
                theirs = state["settings"].get(name)
                raise ValueError(f"the state is of an optimiser with {name} {theirs}, this one has {mine}")
        capacity = len(state["sums"])
        blank = without_key(grown(self._fresh_bandit(), capacity))
        shapes = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(blank)]
        if shapes != [(array.shape, array.dtype) for array in state["arrays"]]:
            raise ValueError("not a state of NonUCT: its arrays have other shapes")
        bandit = jax.tree.unflatten(
            jax.tree.structure(blank), [jnp.array(array) for array in state["arrays"]]
        )
        self._bandit = with_key(bandit, jax.random.wrap_key_data(jnp.array(state["key"])))
        self._sums, self._counts = np.array(state["sums"]), np.array(state["counts"])
        self._rows, self._pending = dict(state["rows"]), dict(state["pending"])
        self._origins = dict(state["origins"])

    def _fresh_bandit(self) -> Bandit:
        return new_bandit(jax.random.key(self.seed), *self._mask.shape, FIRST_CAPACITY, self._rules)

    def _settings(self) -> dict[str, Any]:
        return {
            "num_actions": self.num_actions,
            "rank": self._rules.rank,
            "seed": self.seed,
            "is_noisy": self._rules.is_noisy,
            "pairs": self._rules.optimism.directions > 0,
        }

    def _ask_one(self) -> Action:
        for _ in range(MAX_REJECTIONS):
            action, row, origin = self._next()
            if row < 0 or self._is_legal is None or self._is_legal(action):
                break
        else:
            raise ValueError(f"is_legal refused {MAX_REJECTIONS} joint actions in a row")
        self._rows[action] = row
        self._pending[action] = self._pending.get(action, 0) + 1
        self._origins[action] = origin
        return action

    def _next(self) -> tuple[Action, int, str]:
        """One more joint action; an illegal one stays in its row, never told, so it does not come again."""
        if int(self._bandit.count) == len(self._sums):
            capacity = 4 * len(self._sums)
            self._bandit = grown(self._bandit, capacity)
            self._sums, self._counts = (np.pad(x, (0, capacity - len(x))) for x in (self._sums, self._counts))
        centre, spread = self._scale()
        values = np.where(self._counts > 0, (self._means() - centre) / spread, 0.0).astype(np.float32)
        weights = self._counts.astype(np.float32)
        self._bandit, answer = ask(self._bandit, values, weights, self._mask, self._rules)
        actions, row, origin, found = jax.device_get(
            (answer.actions, answer.row, answer.origin, answer.found)
        )
        if not found:
            raise ValueError("every joint action has been asked for: best() has the answer")
        return tuple(int(choice) for choice in actions), int(row), ORIGINS[int(origin)]

    def _means(self) -> np.ndarray:
        return self._sums / np.maximum(self._counts, 1)

    def _scale(self) -> tuple[float, float]:
        """The mean and the spread of the values told, which normalise them."""
        told = self._means()[self._counts > 0]
        if told.size == 0:
            return 0.0, 1.0
        largest = float(np.abs(told).max()) or 1.0
        spread = largest * float(np.std(told / largest))
        return float(np.mean(told)), spread if spread > 1e-12 * largest else 1.0

    def _action_of(self, row: int) -> Action:
        return tuple(int(choice) for choice in np.asarray(self._bandit.actions[row]))

    def _checked_action(self, action: Sequence[int]) -> Action:
        choices = np.asarray(action)
        if choices.shape != (len(self.num_actions),):
            raise ValueError(f"a joint action has {len(self.num_actions)} choices, got shape {choices.shape}")
        if choices.dtype.kind not in "iu":
            raise ValueError(f"a joint action holds whole numbers, not {choices.dtype}")
        for agent, (choice, size) in enumerate(zip(choices, self.num_actions, strict=True)):
            if not 0 <= choice < size:
                raise ValueError(f"agent {agent} has actions 0 to {size - 1}, not {choice}")
        return tuple(int(choice) for choice in choices)


def checked_size(agent: int, size: int) -> int:
    """A number of actions that makes sense."""
    if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1:
        raise ValueError(f"num_actions[{agent}] is {size}: every agent needs at least one action")
    return int(size)


def checked_value(value: float) -> float:
    """A value that can be compared."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"a value is a number, not {value!r}") from None
    if not math.isfinite(number):
        raise ValueError(f"a value must be finite, not {number}")
    return number


def without_key(bandit: Bandit) -> Bandit:
    """The bandit's arrays alone: random keys are no plain arrays."""
    return with_key(bandit, None)


def with_key(bandit: Bandit, key: Any) -> Bandit:
    """The bandit with another random key."""
    return Bandit(**{**vars(bandit), "key": key})
