"""What users hand to the optimiser, checked: every mistake is one clear ValueError."""

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Action = tuple[int, ...]

LARGEST_VALUE = 1e300
"""Sums of larger values would overflow."""


def checked_whole(value: Any, message: str) -> int:
    """A whole number, be it Python's or numpy's; True and False are none."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{message}, not {value!r}") from None


def checked_sizes(num_actions: Any) -> Action:
    """The number of actions of each agent."""
    if not isinstance(num_actions, (Sequence, np.ndarray)) or isinstance(num_actions, str):
        raise ValueError(
            f"num_actions lists each agent's number of actions, as [4, 4, 4], not {num_actions!r}"
        )
    if len(num_actions) == 0:
        raise ValueError("num_actions is empty: give the number of actions of each agent")
    sizes = []
    for agent, size in enumerate(num_actions):
        message = f"num_actions[{agent}] is a whole number of 1 or more"
        sizes.append(checked_whole(size, message))
        if sizes[-1] < 1:
            raise ValueError(f"{message}, not {size}")
    return tuple(sizes)


def checked_range(value: Any, name: str, low: int, high: int) -> int:
    """A whole number within both bounds."""
    message = f"{name} is a whole number from {low} to {high}"
    number = checked_whole(value, message)
    if not low <= number <= high:
        raise ValueError(f"{message}, not {number}")
    return number


def checked_action(action: Any, sizes: Action) -> Action:
    """A joint action of agents with these numbers of actions."""
    try:
        choices = np.asarray(action)
    except ValueError:
        raise ValueError(f"a joint action has one choice for each agent, not {action!r}") from None
    if choices.shape != (len(sizes),):
        raise ValueError(f"a joint action has {len(sizes)} choices, got shape {choices.shape}")
    if choices.dtype.kind not in "iu":
        raise ValueError(f"a joint action holds whole numbers, not {choices.dtype}")
    for agent, (choice, size) in enumerate(zip(choices, sizes, strict=True)):
        if not 0 <= choice < size:
            raise ValueError(f"agent {agent} has actions 0 to {size - 1}, not {choice}")
    return tuple(int(choice) for choice in choices)


def checked_value(value: Any) -> float:
    """A value that can be compared."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"a value is a number, not {value!r}") from None
    except OverflowError:
        number = math.inf
    if not abs(number) <= LARGEST_VALUE:
        raise ValueError(f"a value must be finite and at most {LARGEST_VALUE:g} in size, not {number}")
    return number


def check_settings(state: Any, settings: Mapping[str, Any], parts: set[str]) -> None:
    """Refuse what is no state of an optimiser, or one of an optimiser with other settings."""
    if not isinstance(state, Mapping):
        raise ValueError(f"not a state of NonUCT but {type(state).__name__}")
    missing = parts - set(state)
    if missing:
        raise ValueError(f"not a state of NonUCT: {', '.join(sorted(missing))} missing")
    if not isinstance(state["settings"], Mapping):
        raise ValueError("not a state of NonUCT: its settings are no mapping")
    for name, mine in settings.items():
        theirs = state["settings"].get(name)
        if theirs != mine:
            raise ValueError(f"the state is of an optimiser with {name} {theirs}, this one has {mine}")
