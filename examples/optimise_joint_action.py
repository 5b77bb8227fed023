"""Set the channels and powers of 12 radios that disturb each other, with a simulator and no training.

Run it: `python examples/optimise_joint_action.py` compares NonUCT with chance and with one radio at a time.
"""

import itertools

import numpy as np

from nonzero import NonUCT

NUM_RADIOS = 12
SETTINGS = list(itertools.product(range(3), (0.1, 0.3, 1.0)))  # (channel, watts)
NOISE = 1e-9
EVALUATIONS = 600


class Radios:
    """Pairs of a sender and a receiver, scattered over a square kilometre; all hear each other a little."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        senders = random.uniform(0, 1000, (NUM_RADIOS, 2))
        angles, reach = random.uniform(0, 2 * np.pi, NUM_RADIOS), random.uniform(60, 180, NUM_RADIOS)
        receivers = senders + reach[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        distance = np.linalg.norm(receivers[:, None] - senders[None], axis=2)
        self.gain = np.maximum(distance, 10.0) ** -3.0  # [receiver, sender]

    def fair_rate(self, action: tuple[int, ...]) -> float:
        """The geometric mean of all links' bits per second and hertz: nobody may be starved."""
        channel = np.array([SETTINGS[choice][0] for choice in action])
        watts = np.array([SETTINGS[choice][1] for choice in action])
        leak = np.array([1.0, 0.05, 0.002])[np.abs(channel[:, None] - channel[None])]
        received = self.gain * watts * leak
        signal = np.diag(received)
        rates = np.log2(1.0 + signal / (NOISE + received.sum(axis=1) - signal))
        return float(np.exp(np.mean(np.log(rates))))


def nonuct(radios: Radios, seed: int) -> float:
    """Ask, measure, tell."""
    optimizer = NonUCT(num_actions=[len(SETTINGS)] * NUM_RADIOS, seed=seed)
    for _ in range(EVALUATIONS):
        action = optimizer.ask()
        optimizer.tell(action, radios.fair_rate(action))
    return optimizer.best().value


def chance(radios: Radios, seed: int) -> float:
    """The best of random settings."""
    random = np.random.default_rng(seed)
    return max(radios.fair_rate(tuple(random.integers(9, size=NUM_RADIOS))) for _ in range(EVALUATIONS))


def one_at_a_time(radios: Radios, seed: int) -> float:
    """Each radio in turn takes its best setting; from another random start where nobody can improve."""
    random = np.random.default_rng(seed)
    best, left = 0.0, EVALUATIONS
    while left > 0:
        action, value, unchanged = list(random.integers(9, size=NUM_RADIOS)), 0.0, 0
        while unchanged < NUM_RADIOS and left > 0:
            for radio in range(NUM_RADIOS):
                unchanged += 1
                for choice in range(min(len(SETTINGS), left)):
                    changed = [*action[:radio], choice, *action[radio + 1 :]]
                    left -= 1
                    if (rate := radios.fair_rate(tuple(changed))) > value:
                        action, value, unchanged = changed, rate, 0
        best = max(best, value)
    return best


if __name__ == "__main__":
    print(f"bits/s/Hz in 5 layouts: best of {len(SETTINGS)}^{NUM_RADIOS} settings in {EVALUATIONS} tries")
    for method in (chance, one_at_a_time, nonuct):
        found = [method(Radios(layout), seed=layout) for layout in range(5)]
        print(f"{method.__name__:14} mean {np.mean(found):.3f}   " + "  ".join(f"{x:.3f}" for x in found))
