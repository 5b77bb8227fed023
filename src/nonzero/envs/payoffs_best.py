"""Best joint actions of payoff games whose structure allows more than looking at all of them."""

import numpy as np

MOST_HALVES = 10**4
CHUNK = 500


def best_on_ring(tables: np.ndarray) -> np.ndarray:
    """The `a` `[n]` that maximises Σ_p tables[p, a_p, a_{p+1}, a_{p+2}] on a ring, tables `[n, d, d, d]`."""
    places, actions = tables.shape[:2]
    second = np.arange(actions)
    best_value, best_path = -np.inf, np.empty(0, np.int64)
    for first in range(actions):
        # value[s, x, y]: the best sum of the places up to p, given a_1 = s, a_{p+1} = x and a_{p+2} = y.
        value = np.full((actions, actions, actions), -np.inf)
        value[second, second] = tables[0, first]
        choices = []
        for place in range(1, places - 2):
            extended = value[:, :, :, None] + tables[place][None]
            choices.append(extended.argmax(axis=1))
            value = extended.max(axis=1)
        value = value + tables[-2, :, :, first][None] + tables[-1, :, first, :].T[:, None, :]
        start, x, y = np.unravel_index(value.argmax(), value.shape)
        if value[start, x, y] > best_value:
            best_value, path = value[start, x, y], [int(y), int(x)]
            for choice in reversed(choices):
                path.append(int(choice[start, path[-1], path[-2]]))
            best_path = np.array([first, *reversed(path)])
    return best_path


def best_of_halves(w: np.ndarray, v: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """The `a` `[I]` that maximises Σ_i w[i, a_i] + Σ_{i<j} Σ_f σ_f v[i, a_i, f] v[j, a_j, f].

    The first agents meet the others through R sums alone, so all pairs of halves are one matrix product.
    """
    middle = len(w) // 2
    left, left_value, left_sum = halves(w[:middle], v[:middle], signs)
    right, right_value, right_sum = halves(w[middle:], v[middle:], signs)
    best_value, best = -np.inf, np.zeros(len(w), int)
    for start in range(0, len(left), CHUNK):
        rows = slice(start, start + CHUNK)
        total = (left_sum[rows] * signs) @ right_sum.T + left_value[rows, None] + right_value
        x, y = np.unravel_index(total.argmax(), total.shape)
        if total[x, y] > best_value:
            best_value, best = total[x, y], np.concatenate([left[start + x], right[y]])
    return best


def halves(w: np.ndarray, v: np.ndarray, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All joint actions `[H, I]` of some agents, what each pays on its own `[H]`, its sum of v `[H, R]`."""
    num_agents, num_actions = w.shape
    agents = np.arange(num_agents)
    actions = np.arange(num_actions**num_agents)[:, None] // num_actions**agents % num_actions
    rows = v[agents, actions]
    total = rows.sum(axis=1)
    pairs = (total**2 - (rows**2).sum(axis=1)) @ signs
    return actions, w[agents, actions].sum(axis=1) + 0.5 * pairs, total
