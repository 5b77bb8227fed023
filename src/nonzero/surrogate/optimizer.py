"""NonUCT for any black box over a product of finite sets: ask what to evaluate, tell what came out.

    optimizer = NonUCT(num_actions=[4, 4, 4], seed=0)
    for _ in range(100):
        action = optimizer.ask()
        optimizer.tell(action, measure(action))
    print(optimizer.best())

No gradient, no model, no training: it is for whoever has a simulator, or a machine, and n choices to make
together.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np

from nonzero.surrogate.bandit import Bandit, Rules, ask_many, believed_values, grown, new_bandit, remember
from nonzero.surrogate.checks import (
    Action,
    check_settings,
    checked_action,
    checked_range,
    checked_sizes,
    checked_value,
)
from nonzero.surrogate.ledger import blank_ledger
from nonzero.surrogate.proposal import Optimism
from nonzero.types import PRIOR

FIRST_CAPACITY = 256
"""Room for joint actions doubles whenever it runs out; each size compiles once."""
BATCH = 8
"""Joint actions that one compiled call chooses where many are wanted."""
MAX_REFUSALS = 50
"""Proposals that `is_legal` may refuse in a row; then random joint actions are looked at."""
MAX_LOOKED_AT = 20_000
"""How many of these; a space that is no larger is looked at as a whole."""
ORIGINS = ("prior", "single", "pair")


class Best(NamedTuple):
    """The best joint action known and its value."""

    action: Action
    value: float


class NonUCT:
    """Maximise a function of a joint action, one choice for each of n agents, in few evaluations."""

    def __init__(
        self,
        num_actions: Sequence[int] | np.ndarray,
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
        self.num_actions = checked_sizes(num_actions)
        self.seed = checked_range(seed, "seed", 0, 2**32 - 1)
        rank = checked_range(rank, "rank", 0, 64)
        most = max(self.num_actions)
        self._is_legal = is_legal
        self._legal = jnp.array(np.arange(most) < np.array(self.num_actions)[:, None])
        self._rules = Rules(
            rank=rank,
            members=1 if rank == 0 else Rules.members,
            initial=2 * most,
            is_noisy=is_noisy,
            optimism=Optimism() if pairs else replace(Optimism(), directions=0),
        )
        self._bandit = self._fresh_bandit(FIRST_CAPACITY)
        self._ledger = blank_ledger(FIRST_CAPACITY)
        self._rows: dict[Action, int] = {}

    @overload
    def ask(self) -> Action: ...

    @overload
    def ask(self, batch: int) -> list[Action]: ...

    def ask(self, batch: int | None = None) -> Action | list[Action]:
        """The next joint action to evaluate, or a list of `batch` different ones to evaluate side by side."""
        if batch is None:
            return self._ask_many(1)[0]
        return self._ask_many(checked_range(batch, "batch", 1, 1_000_000))

    def tell(self, action: Sequence[int] | np.ndarray, value: float) -> None:
        """Report the value of a joint action that was asked for; a wrong report changes nothing."""
        known = checked_action(action, self.num_actions)
        number = checked_value(value)
        row = self._rows.get(known)
        if row is None or not self._ledger.waiting[row]:
            again = "was never asked for" if row is None else "was told already"
            raise ValueError(f"joint action {known} {again}: tell what ask() returned, once each")
        self._ledger.sums[row] += number
        self._ledger.counts[row] += 1
        self._ledger.waiting[row] = False

    def best(self) -> Best:
        """The best joint action told, with its value: of noisy values, the one believed best and its
        mean."""
        counts = self._ledger.counts
        if not counts.any():
            raise ValueError("nothing was told yet: best() needs at least one value")
        standing = means = self._ledger.means()
        if self._rules.is_noisy:
            centre, spread = self._ledger.scale()
            believed = centre + spread * np.asarray(believed_values(self._bandit, self._rules), np.float64)
            standing = (counts * means + believed) / (counts + 1)
        row = int(np.argmax(np.where(counts > 0, standing, -np.inf)))
        return Best(tuple(np.asarray(self._bandit.actions)[row].tolist()), float(means[row]))

    def origin(self, action: Sequence[int] | np.ndarray) -> str:
        """Where a joint action that was asked for came from: prior (a sample), single or pair (a change)."""
        known = checked_action(action, self.num_actions)
        if known not in self._rows:
            raise ValueError(f"joint action {known} was never asked for")
        return ORIGINS[self._ledger.origins[self._rows[known]]]

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on to the bit, as numpy arrays and plain values."""
        return {
            "settings": self._settings(),
            "bandit": [np.array(leaf) for leaf in jax.tree.leaves(self._bandit)],
            "ledger": [array.copy() for array in self._ledger],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another optimiser with the same settings was when it made `state`."""
        check_settings(state, self._settings(), {"settings", "bandit", "ledger"})
        try:
            arrays = [np.array(part) for part in (*state["bandit"], *state["ledger"])]
            capacity = len(arrays[-1])
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(f"not a state of NonUCT: {error}") from None
        fresh = self._fresh_bandit(FIRST_CAPACITY)
        blank = (grown(fresh, max(capacity, FIRST_CAPACITY)), blank_ledger(capacity))
        leaves, structure = jax.tree.flatten(blank)
        if [(x.shape, x.dtype) for x in leaves] != [(x.shape, x.dtype) for x in arrays]:
            raise ValueError("not a state of NonUCT: its arrays have other shapes")
        bandit, self._ledger = jax.tree.unflatten(structure, arrays)
        self._bandit = jax.tree.map(jnp.array, bandit)
        self._rows = self._handed_out()

    def _fresh_bandit(self, capacity: int) -> Bandit:
        num_agents, num_actions = self._legal.shape
        return new_bandit(jax.random.key(self.seed), num_agents, num_actions, capacity, self._rules)

    def _settings(self) -> dict[str, Any]:
        return {
            "num_actions": self.num_actions,
            "rank": self._rules.rank,
            "seed": self.seed,
            "is_noisy": self._rules.is_noisy,
            "pairs": self._rules.optimism.directions > 0,
        }

    def _ask_many(self, batch: int) -> list[Action]:
        before = self._bandit, self._ledger.before_asking()
        answers: list[Action] = []
        try:
            while len(answers) < batch:
                answers += self._ask_some(batch - len(answers)) or self._ask_any(len(answers), batch)
        except BaseException:
            self._bandit, self._ledger = before
            self._rows = self._handed_out()
            raise
        return answers

    def _ask_some(self, wanted: int) -> list[Action]:
        """At least one more joint action that the compiled rule chose, or none if it finds no other.

        One that `is_legal` refuses stays in its row, never told, so that it does not come again.
        """
        for _ in range(MAX_REFUSALS):
            found = self._next(BATCH if wanted >= BATCH else 1)
            legal = [
                self._hand_out(action, row, origin)
                for action, row, origin in found
                if self._is_legal is None or self._is_legal(action)
            ]
            if legal or not found:
                return legal
        return []

    def _ask_any(self, found: int, batch: int) -> list[Action]:
        """One more joint action that never came up, whatever it promises."""
        action = self._find_untried()
        if action is None:
            raise ValueError(self._why_none_is_left(found, batch))
        self._make_room(1)
        row = int(self._bandit.count)
        self._bandit = remember(self._bandit, jnp.array(action, jnp.int32), jnp.bool_(True))
        return [self._hand_out(action, row, PRIOR)]

    def _hand_out(self, action: Action, row: int, origin: int) -> Action:
        if action not in self._rows:
            self._ledger.origins[row] = origin
            self._rows[action] = row
        self._ledger.waiting[row] = True
        return action

    def _next(self, count: int) -> list[tuple[Action, int, int]]:
        """The compiled rule's choices: up to `count` joint actions, their rows and their origins."""
        self._make_room(count)
        ledger = self._ledger
        weights = ledger.counts.astype(np.float32)
        state = (self._bandit, ledger.normalised(), weights, ledger.waiting, self._legal)
        self._bandit, answers = ask_many(*state, self._rules, count)
        return [
            (tuple(actions), row, origin)
            for *actions, row, origin, is_found in np.asarray(answers).tolist()
            if is_found
        ]

    def _find_untried(self) -> Action | None:
        """Any legal joint action that never came up, from the whole space or from random ones of it."""
        random = np.random.default_rng((self.seed, int(self._bandit.asked)))
        if math.prod(self.num_actions) <= MAX_LOOKED_AT:
            choices = random.permutation(np.array(list(itertools.product(*map(range, self.num_actions)))))
        else:
            choices = random.integers(self.num_actions, size=(MAX_LOOKED_AT, len(self.num_actions)))
        came_up = set(self._came_up())
        untried = (action for action in map(tuple, choices.tolist()) if action not in came_up)
        return next((a for a in untried if self._is_legal is None or self._is_legal(a)), None)

    def _why_none_is_left(self, found: int, batch: int) -> str:
        if found:
            return f"only {found} joint actions are left to ask for, not {batch}: ask for fewer"
        if not self._rows:
            return "is_legal refused every joint action that was looked at"
        if self._rules.is_noisy:
            return "every joint action found is waiting for its value: tell some of them first"
        return "every joint action has been asked for: best() has the answer"

    def _make_room(self, rows: int) -> None:
        capacity = len(self._ledger.sums)
        if int(self._bandit.count) + rows > capacity:
            self._bandit = grown(self._bandit, 2 * capacity)
            self._ledger = self._ledger.grown(2 * capacity)

    def _came_up(self) -> list[Action]:
        """The joint actions in the bandit's rows, handed out or refused."""
        rows = np.asarray(self._bandit.actions)[: int(self._bandit.count)]
        return list(map(tuple, rows.tolist()))

    def _handed_out(self) -> dict[Action, int]:
        is_out = self._ledger.waiting | (self._ledger.counts > 0)
        return {action: row for row, action in enumerate(self._came_up()) if is_out[row]}
