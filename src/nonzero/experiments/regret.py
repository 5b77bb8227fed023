"""The theory, measured: how local regret grows, and how rounds to a local maximum grow with the game.

Regret counts as in the paper: a round costs one while the joint action played is no (ε₁, ε₂)-local maximum.
What is "played" has three readings, and all are kept: the incumbent, best joint action asked so far, which is
what the optimiser would answer; the rounds until one is asked for the first time; and, to the letter, each
joint action asked. The incumbent's regret is kept in payoff as well.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nonzero.experiments.regret_play import (
    LINK,
    Verdict,
    all_payoffs,
    judge,
    play,
    realisable_game,
    rules_for,
    ucb_rounds,
)
from nonzero.experiments.results import read_results, write_results
from nonzero.surrogate.bandit import Rules
from nonzero.surrogate.predictor import Surrogate, apply_link

FIRST_SEED = 100
EPSILON = 0.01
"""ε₁ = ε₂, in standard deviations of the payoff under uniform play."""
CHECKPOINTS = 24
ENUMERABLE = 4**10
"""The most joint actions that are listed to know the best payoff."""
GROWTH_FILE, SEPARATION_FILE = "growth.json", "separation.json"

Cell = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is measured; rank 0 is the paper's surrogate, the default rank the optimiser's."""

    seeds: int = 10
    rounds_per_size: int = 15
    """Rounds of regret for each unit of n·d: larger games take longer to show how regret grows."""
    growth_sizes: tuple[tuple[int, int], ...] = ((3, 3), (4, 5), (6, 8), (8, 10), (14, 10), (20, 10))
    separation_rounds: int = 1000
    separation_agents: tuple[int, ...] = (2, 4, 6, 8, 10, 20, 50)
    ucb_agents: tuple[int, ...] = (2, 3, 4, 5, 6, 7, 8, 9, 10)
    separation_actions: int = 4

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"an interval over seeds needs at least 2 of them, not {self.seeds}")

    def growth_cells(self) -> list[Cell]:
        """One measurement per size, rank of the game and rank of the optimiser that can represent it."""
        ranks = ((0, 0), (0, Rules.rank), (Rules.rank, Rules.rank))
        return [
            {"agents": agents, "actions": actions, "game_rank": game, "rank": rank}
            for agents, actions in self.growth_sizes
            for game, rank in ranks
        ]

    def separation_cells(self) -> list[Cell]:
        """One measurement per size, rank of the game and method."""
        sizes = [("nonuct", n) for n in self.separation_agents] + [("ucb1", n) for n in self.ucb_agents]
        return [
            {"agents": agents, "actions": self.separation_actions, "game_rank": rank, "method": method}
            for method, agents in sizes
            for rank in (0, Rules.rank)
        ]

    def settings(self) -> dict[str, Any]:
        """What a result depends on beside its cell."""
        return {
            "seeds": list(self.all_seeds()),
            "rounds_per_size": self.rounds_per_size,
            "separation_rounds": self.separation_rounds,
            "epsilon": EPSILON,
            "link": LINK._asdict(),
            "rules": asdict(Rules()),
        }

    def all_seeds(self) -> range:
        """Seeds of games and optimisers alike."""
        return range(FIRST_SEED, FIRST_SEED + self.seeds)


QUICK = Plan(
    rounds_per_size=3,
    growth_sizes=((3, 3),),
    separation_rounds=27,
    separation_agents=(2, 3),
    ucb_agents=(2, 3),
    separation_actions=3,
)


def measure_regret(out: Path, plan: Plan, report: Callable[[str, int], None]) -> None:
    """Measure what `out` does not hold yet; `report` hears what comes next and how much remains."""
    out.mkdir(parents=True, exist_ok=True)
    parts = (
        (out / GROWTH_FILE, plan.growth_cells(), measure_growth),
        (out / SEPARATION_FILE, plan.separation_cells(), measure_separation),
    )
    settings = plan.settings()
    kept = [known_rows(path, settings, cells) for path, cells, _ in parts]
    remaining = sum(len(cells) - len(rows) for rows, (_, cells, _) in zip(kept, parts, strict=True))
    for rows, (path, cells, work) in zip(kept, parts, strict=True):
        for cell in cells:
            if not any(cell.items() <= row.items() for row in rows):
                report(f"{cell['agents']}x{cell['actions']} {cell.get('method', 'regret')}", remaining)
                rows.append(cell | work(plan, **cell))
                rows.sort(key=lambda row: cells.index({name: row[name] for name in cells[0]}))
                write_results(path, rows, settings)
                remaining -= 1
    report("done", 0)


def known_rows(path: Path, settings: Mapping[str, Any], cells: Sequence[Cell]) -> list[Cell]:
    """The rows that an earlier run with the same settings left, as far as they are wanted."""
    if not path.exists():
        return []
    document = read_results(path)
    if document["settings"] != json.loads(json.dumps(settings)):
        return []
    return [row for row in document["rows"] if any(cell.items() <= row.items() for cell in cells)]


def measure_growth(plan: Plan, agents: int, actions: int, game_rank: int, rank: int) -> Cell:
    """Cumulative regret of each seed at a few rounds, in each reading."""
    rounds = min(plan.rounds_per_size * agents * actions, actions**agents)
    _, verdicts = judged_plays(plan, agents, actions, game_rank, rank, rounds)
    checkpoints = np.unique(np.geomspace(1, rounds, CHECKPOINTS).astype(int))

    def curves(costs: Callable[[Verdict], Any]) -> list[list[float]]:
        totals = [np.cumsum(np.asarray(costs(verdict), np.float64)) for verdict in verdicts]
        return [[float(f"{x:.4g}") for x in total[checkpoints - 1]] for total in totals]

    return {
        "checkpoints": checkpoints,
        "incumbent": curves(lambda verdict: verdict.is_outside),
        "incumbent_gap": curves(lambda verdict: verdict.gap),
        "asked": curves(lambda verdict: verdict.is_asked_outside),
        "first_asked": [first_round(~np.asarray(verdict.is_asked_outside)) for verdict in verdicts],
    }


def measure_separation(plan: Plan, agents: int, actions: int, game_rank: int, method: str) -> Cell:
    """Rounds until the incumbent is a local maximum, and until it is the best of all; None where never."""
    if method == "ucb1":
        pairs = []
        for seed in plan.all_seeds():
            game = realisable_game(agents, actions, game_rank, seed)
            pairs.append(ucb_rounds(game, all_payoffs(game), EPSILON, seed))
        to_local, to_global = (list(column) for column in zip(*pairs, strict=True))
        return {"rounds": actions**agents, "to_local": to_local, "to_global": to_global}
    rounds = min(plan.separation_rounds, actions**agents)
    games, verdicts = judged_plays(plan, agents, actions, game_rank, Rules.rank, rounds)
    tops = [best_payoff(game, game_rank) for game in games]
    is_known = None not in tops
    return {
        "rounds": rounds,
        "to_local": [first_round(~np.asarray(verdict.is_outside)) for verdict in verdicts],
        "to_global": [
            first_round(np.asarray(verdict.best) >= top - EPSILON)
            for verdict, top in zip(verdicts, tops, strict=True)
            if top is not None
        ]
        if is_known
        else None,
    }


def best_payoff(game: Surrogate, rank: int) -> float | None:
    """The payoff of the best joint action, where it can be known: without interactions, or by listing all."""
    num_agents, num_actions = game.w.shape
    if rank == 0:
        return float(apply_link(game.w.max(axis=1).sum(), LINK))
    return float(all_payoffs(game).max()) if num_actions**num_agents <= ENUMERABLE else None


def judged_plays(
    plan: Plan, agents: int, actions: int, game_rank: int, rank: int, rounds: int
) -> tuple[list[Surrogate], list[Verdict]]:
    """NonUCT of a rank on the games of all seeds: the games, and the verdicts on its rounds."""
    games = [realisable_game(agents, actions, game_rank, seed, columns=rank) for seed in plan.all_seeds()]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *games)
    keys = jax.vmap(jax.random.key)(jnp.array(plan.all_seeds()))
    asked, payoffs = play(stacked, keys, rounds, rules_for(actions, rank))
    verdicts = [judge(*rows, EPSILON) for rows in zip(games, asked, payoffs, strict=True)]
    return games, verdicts


def first_round(happens: np.ndarray) -> int | None:
    """The first round, counted from 1, in which something happens."""
    return int(np.argmax(happens)) + 1 if happens.any() else None
