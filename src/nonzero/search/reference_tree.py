"""What the plain search is made of: what a model says of one state, and a state in the tree."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Outcome = tuple["Said", Any]
Step = Callable[[Any, np.ndarray], Outcome]


@dataclass(frozen=True)
class Said:
    """What a model says of one state and of the step that led there."""

    policy_logits: np.ndarray
    """[I, A]"""
    value: float
    reward: float = 0.0
    discount: float = 1.0
    surrogate: Any = None


@dataclass
class Node:
    """A state in the tree, its candidates [K, I] and what the search knows of each."""

    said: Said
    latent: Any
    actions: np.ndarray
    prior: np.ndarray
    filled: np.ndarray
    origin: np.ndarray
    possible: np.ndarray
    parent: "Node | None" = None
    slot: int = -1
    depth: int = 0
    ended: bool = False
    value: float = 0.0
    returns: list[tuple[int, float]] = field(default_factory=list)
    """(levels below, return) of every simulation that passed through."""
    theta: Any = None
    eta: np.ndarray | None = None

    def __post_init__(self) -> None:
        num_slots = len(self.filled)
        self.visits = np.zeros(num_slots, int)
        self.q = np.zeros(num_slots)
        self.children: list[Node | None] = [None] * num_slots
