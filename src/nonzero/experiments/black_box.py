"""Maximisers of a black box over joint actions: ours, what one would pick instead, and chance.

A maximiser is made for a size and a seed and then asked and told, one joint action at a time.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from nonzero.surrogate import NonUCT
from nonzero.types import NonZeroError

Action = tuple[int, ...]


class Maximiser(Protocol):
    """Something that can be asked what to evaluate and told what came out."""

    def ask(self) -> Action:
        """The next joint action to evaluate."""
        ...

    def tell(self, action: Action, value: float) -> None:
        """Its value."""
        ...


class Uniform:
    """Every joint action equally likely, each time."""

    def __init__(self, num_agents: int, num_actions: int, seed: int):
        self.random = np.random.default_rng(seed)
        self.shape = (num_agents, num_actions)

    def ask(self) -> Action:
        """A random joint action."""
        num_agents, num_actions = self.shape
        return tuple(int(choice) for choice in self.random.integers(num_actions, size=num_agents))

    def tell(self, action: Action, value: float) -> None:
        """Nothing is learned."""


class RandomPairs(Uniform):
    """Random changes of two agents' actions of one of the best three joint actions, none tried before.

    What NonUCT would be without a surrogate: the same incumbents, as many samples at the start. Where no
    untried change comes up in many draws, a random joint action is played, tried or not.
    """

    INCUMBENTS = 3
    MOST_DRAWS = 1000

    def __init__(self, num_agents: int, num_actions: int, seed: int):
        super().__init__(num_agents, num_actions, seed)
        self.tried: set[Action] = set()
        self.best: list[tuple[float, Action]] = []

    def ask(self) -> Action:
        """A change of an incumbent."""
        num_agents, num_actions = self.shape
        for _ in range(self.MOST_DRAWS):
            action = super().ask()
            if len(self.tried) >= 2 * num_actions:
                changed = list(self.best[self.random.integers(len(self.best))][1])
                for agent in self.random.choice(num_agents, size=2, replace=False):
                    changed[agent] = action[agent]
                action = tuple(changed)
            if action not in self.tried:
                self.tried.add(action)
                return action
        return super().ask()

    def tell(self, action: Action, value: float) -> None:
        """Keep the best."""
        self.best = sorted([*self.best, (value, action)], reverse=True)[: self.INCUMBENTS]


class TreeParzen:
    """Optuna's default sampler, TPE, each agent a categorical parameter."""

    def __init__(self, num_agents: int, num_actions: int, seed: int):
        optuna = imported("optuna")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.shape = (num_agents, num_actions)
        sampler = optuna.samplers.TPESampler(seed=seed)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)

    def ask(self) -> Action:
        """What TPE suggests."""
        self.trial = self.study.ask()
        num_agents, num_actions = self.shape
        return tuple(self.trial.suggest_categorical(f"a{i}", range(num_actions)) for i in range(num_agents))

    def tell(self, action: Action, value: float) -> None:
        """Finish the trial."""
        self.study.tell(self.trial, value)


class Nevergrad:
    """One of nevergrad's evolutionary algorithms, each agent an unordered choice."""

    def __init__(self, num_agents: int, num_actions: int, seed: int, *, algorithm: str, budget: int):
        nevergrad = imported("nevergrad")
        space = nevergrad.p.TransitionChoice(range(num_actions), repetitions=num_agents)
        space.random_state.seed(seed)
        self.optimizer = nevergrad.optimizers.registry[algorithm](parametrization=space, budget=budget)

    def ask(self) -> Action:
        """What the algorithm suggests."""
        self.candidate = self.optimizer.ask()
        return tuple(int(choice) for choice in self.candidate.value)

    def tell(self, action: Action, value: float) -> None:
        """Its loss is minus the value."""
        self.optimizer.tell(self.candidate, -value)


def imported(package: str) -> Any:
    """A package of the `bench` extra, without the warnings it prints when imported."""
    import importlib

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(package)
    except ImportError as error:
        raise NonZeroError(f"this needs the package {package}: pip install 'nonzero-mcts[bench]'") from error


def nonuct(num_agents: int, num_actions: int, seed: int, **options) -> NonUCT:
    """Our optimiser."""
    return NonUCT([num_actions] * num_agents, seed=seed, **options)


SLOW_BUDGET = 600
"""Evaluations of the methods that think for milliseconds each time."""

METHODS: dict[str, Callable[[int, int, int], Maximiser]] = {
    "nonuct": nonuct,
    "nonuct-r0": partial(nonuct, rank=0),
    "random-pairs": RandomPairs,
    "uniform": Uniform,
    "tpe": TreeParzen,
    "fast-ga": partial(Nevergrad, algorithm="DoubleFastGADiscreteOnePlusOne", budget=SLOW_BUDGET),
    "de": partial(Nevergrad, algorithm="DE", budget=SLOW_BUDGET),
}
SLOW_METHODS = ("tpe", "fast-ga", "de")
