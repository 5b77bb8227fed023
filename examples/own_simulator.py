"""Plan with your own simulator, which need not know JAX: six firefighters save a street of seven houses.

Run it: `python examples/own_simulator.py` compares chance, a rule of thumb, and planning with that rule.
"""

import random
from collections.abc import Callable

import numpy as np

from nonzero.search import preset
from nonzero.search.draws import FreshDraws
from nonzero.search.reference import Said, plan

HOUSES, FIGHTERS, STEPS, WORST = 7, 6, 10, 4
EPISODES, SIMULATIONS = 10, 100


class Street:
    """Any simulator will do; in this one firefighter i goes to house i (action 0) or i + 1 (action 1)."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.fires = [chance.randint(0, WORST - 1) for _ in range(HOUSES)]
        self.steps_left = STEPS

    def copy(self, chance: random.Random) -> "Street":
        """The same moment with another future: whoever plans must not know this one's."""
        other = object.__new__(Street)
        other.chance, other.fires, other.steps_left = chance, list(self.fires), self.steps_left
        return other

    def step(self, actions: list[int]) -> float:
        """Fight for a minute; the reward counts what still burns. Two at a house put any fire out."""
        present = [0] * HOUSES
        for fighter, action in enumerate(actions):
            present[fighter + action] += 1
        before, self.steps_left = list(self.fires), self.steps_left - 1
        for house, here in enumerate(present):
            is_near_fire = any(before[max(house - 1, 0) : house] + before[house + 1 : house + 2])
            if here >= 2:
                self.fires[house] = 0
            elif here == 1 and self.chance.random() < (0.4 if is_near_fire else 0.8):
                self.fires[house] = max(before[house] - 1, 0)
            elif here == 0 and (before[house] or is_near_fire):
                spreads = self.chance.random() < (0.7 if is_near_fire else 0.4)
                self.fires[house] = min(before[house] + spreads, WORST)
        return -float(sum(self.fires))


def rule_of_thumb(street: Street) -> list[int]:
    """Everyone goes where it burns more, the one house or the other."""
    return [int(street.fires[fighter + 1] > street.fires[fighter]) for fighter in range(FIGHTERS)]


def by_chance(street: Street) -> list[int]:
    """Anyone goes anywhere."""
    return [street.chance.randint(0, 1) for _ in range(FIGHTERS)]


class Planner:
    """What the search asks: prior and value come from the rule of thumb, steps from the simulator."""

    def __init__(self, seed: int) -> None:
        self.draws, self.chance = FreshDraws(seed), random.Random(f"imagined {seed}")

    def said(self, street: Street, reward: float = 0.0) -> Said:
        """Half of the prior is the rule, half is open; the value is what the rule gets from here on."""
        prior = np.full((FIGHTERS, 2), 0.25)
        prior[np.arange(FIGHTERS), rule_of_thumb(street)] += 0.5
        imagined, value = street.copy(self.chance), 0.0
        while imagined.steps_left > 0:  # a search may look past the end, where nothing counts
            value += imagined.step(rule_of_thumb(imagined))
        return Said(np.log(prior), value, reward, discount=float(street.steps_left > 0))

    def step(self, street: Street, joint_action: np.ndarray) -> tuple[Said, Street]:
        """One simulated step."""
        following = street.copy(self.chance)
        reward = following.step(joint_action.tolist())
        return self.said(following, reward), following

    def __call__(self, street: Street) -> list[int]:
        """Search, then act."""
        found = plan(
            self.step,
            (self.said(street), street),
            num_simulations=SIMULATIONS,
            num_candidates=10,
            rules=preset("nonzero"),
            draws=self.draws,
            dirichlet_fraction=0.0,
            temperature=0.0,
        )
        return found.action.tolist()


def burnt(decide: Callable[[Street], list[int]], seed: int) -> float:
    """How much burns in an episode, in all."""
    street, total = Street(random.Random(seed)), 0.0
    while street.steps_left > 0:
        total -= street.step(decide(street))
    return total


if __name__ == "__main__":
    print(f"fire in {EPISODES} streets over {STEPS} minutes, less is better")
    for name, players in (
        ("chance", [by_chance] * EPISODES),
        ("rule_of_thumb", [rule_of_thumb] * EPISODES),
        ("planned", [Planner(seed) for seed in range(EPISODES)]),
    ):
        fires = [burnt(decide, seed) for seed, decide in enumerate(players)]
        print(f"{name:14} mean {np.mean(fires):6.1f}   " + "  ".join(f"{x:3.0f}" for x in fires))
