"""Planning without training: how well each search plays with the environment itself as its model.

One result file per environment and method, a row per cell: so many simulations over so many candidates. What
a file holds is not measured again; episodes that a row lacks are added to it. Tables are made from the files
alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt32

from nonzero.envs.matgame import STEPS, MatGames, many_games
from nonzero.envs.optimum import optimum
from nonzero.envs.payoffs import payoff_game
from nonzero.envs.registry import base_policy, make
from nonzero.evaluation.episodes import Episodes, Follower, Planner, Player, play
from nonzero.experiments.bench_surrogate import FIRST_SEED, parse_size
from nonzero.experiments.mctx_search import MctxPlanner
from nonzero.experiments.planning_files import BASE, MCTX, Cell, Model, missing_seeds, save
from nonzero.search import preset
from nonzero.search.simulator import Simulator
from nonzero.types import Environment, TimeStep

Names = tuple[str, ...]
GAMES = tuple(
    f"matgame/{family}-{size}"
    for family in ("additive", "paired-traps", "climbing", "low-rank")
    for size in ("4x5", "8x10", "20x10")
)
BATTLES = ("smax/3m", "smax/5m_vs_6m", "smax/2s3z")
METHODS = ("nonzero", "flat", "flat-r0", "mazero", "mazero-np", "ma-alphazero", "sampled-muzero", MCTX, BASE)
POLICIES = {"smax": "heuristic"}
"""The base policy that a family is planned with: the prior, and rolled out the leaf values.

Payoff games are planned without one: what follows does not depend on what is played now, so that rollouts
only add noise.
"""
ALONE = "uniform"
"""What `base` plays where there is no base policy to plan with."""


@dataclass(frozen=True)
class Study:
    """Which cells to measure, and how."""

    environments: Names = (*GAMES, *BATTLES)
    methods: Names = METHODS
    simulations: tuple[int, ...] = ()
    """By default 50, 100 and 200 in payoff games, 50 and 200 in battles."""
    candidates: tuple[int, ...] = ()
    """By default 3 and 7 in payoff games, 7 in battles."""
    episodes: int = 0
    """By default 100 in payoff games, one for each game; 64 in battles."""
    first_seed: int = FIRST_SEED
    rows: int = 0
    """Episodes side by side: by default all payoff games, 64 battles."""
    uniform_share: float = 0.25

    def cells(self) -> Iterator[Cell]:
        """Every cell, the cheap ones first."""
        for environment in self.environments:
            is_game = environment.startswith("matgame/")
            for simulations in self.simulations or ((50, 100, 200) if is_game else (50, 200)):
                for candidates in self.candidates or ((3, 7) if is_game else (7,)):
                    for method in self.methods:
                        if method != BASE:
                            yield Cell(environment, method, simulations, candidates)
            if BASE in self.methods:
                yield Cell(environment, BASE, 0, 0)

    def seeds(self, environment: str) -> range:
        """The seeds of a cell's episodes."""
        count = self.episodes or (100 if environment.startswith("matgame/") else 64)
        return range(self.first_seed, self.first_seed + count)

    def model(self, environment: str) -> Model:
        """How this environment serves as a model."""
        return Model(POLICIES.get(environment.partition("/")[0]), self.uniform_share)

    def rows_of(self, environment: str) -> int:
        """How many episodes are played side by side."""
        return self.rows or (100 if environment.startswith("matgame/") else 64)


def chosen_study(**choice: Any) -> Study:
    """The study of the given choice; what is empty or zero means the default."""
    study = Study(**{name: value for name, value in choice.items() if value not in ((), None)})
    for method in study.methods:
        if method not in (BASE, MCTX):
            preset(method)
    for environment in study.environments:
        make(environment)
    for name in ("simulations", "candidates"):
        if any(number < 1 for number in getattr(study, name)):
            raise ValueError(f"{name} must be at least 1, not {min(getattr(study, name))}")
    if min(study.episodes, study.first_seed, study.rows) < 0:
        raise ValueError("episodes, first_seed and rows must not be negative")
    return study


@dataclass(frozen=True)
class GameStart:
    """The episode of seed s plays the payoff game of seed s."""

    games: MatGames
    first_seed: int

    def __call__(self, seed: UInt32[Array, ""]) -> tuple[Any, TimeStep]:
        """Start the seed's game."""
        return self.games.start(seed.astype(jnp.int32) - self.first_seed)


Stage = tuple[Environment[Any], GameStart | None]


def stage(environment: str, seeds: Sequence[int]) -> Stage:
    """The environment that episodes of these seeds are played in, and how they begin, where not by `reset`.

    Every seed of a payoff family with hidden structure is a game of its own.
    """
    family, size = family_and_size(environment)
    if family is None:
        return make(environment), None
    games = many_games(family, *parse_size(size), seeds=range(min(seeds), max(seeds) + 1))
    return games, GameStart(games, min(seeds))


def family_and_size(environment: str) -> tuple[str | None, str]:
    """The payoff family and size in a name, such as those of `matgame/climbing-8x10`; None for others."""
    prefix, _, rest = environment.partition("/")
    family, _, size = rest.rpartition("-")
    is_game = prefix == "matgame" and family != "mazero"
    return (family, size) if is_game else (None, "")


def player(cell: Cell, env: Environment[Any], model: Model) -> Player:
    """Who plays a cell."""
    if cell.method == BASE:
        return Follower(base_policy(env, model.base_policy or ALONE))
    policy = None if model.base_policy is None else base_policy(env, model.base_policy)
    simulator = Simulator(env, policy, uniform_share=model.uniform_share, rollout_steps=model.rollout_steps)
    if cell.method == MCTX:
        return MctxPlanner(simulator, cell.simulations, cell.candidates)
    return Planner(simulator, preset(cell.method), cell.simulations, cell.candidates)


def measure_study(study: Study, folder: Path) -> None:
    """Measure what is missing, cell by cell, with a progress bar."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    folder.mkdir(parents=True, exist_ok=True)
    missing = [
        (cell, seeds)
        for cell in study.cells()
        if (
            seeds := missing_seeds(folder, cell, study.model(cell.environment), study.seeds(cell.environment))
        )
    ]
    text = TextColumn("{task.description}")
    with Progress(text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as progress:
        cells = progress.add_task("cells", total=len(missing))
        for cell, seeds in missing:
            name = f"{cell.environment} {cell.method} {cell.simulations}x{cell.candidates}"
            bar = progress.add_task(name, total=len(seeds))
            row = measure_cell(study, cell, seeds, partial(show, progress, bar))
            save(folder, cell, study.model(cell.environment), row)
            # A process may map only so much memory for compiled functions, and XLA crashes beyond.
            jax.clear_caches()
            progress.remove_task(bar)
            progress.advance(cells)


def show(progress: Any, bar: Any, over: int, decisions: int) -> None:
    """Move a progress bar to the number of episodes that are over."""
    del decisions
    progress.update(bar, completed=over)


def measure_cell(
    study: Study, cell: Cell, seeds: Sequence[int], report: Callable[[int, int], None] = lambda *_: None
) -> dict[str, Any]:
    """The row of a cell: its episodes, number by number."""
    env, start = stage(cell.environment, seeds)
    who = player(cell, env, study.model(cell.environment))
    found = play(env, who, seeds, rows=study.rows_of(cell.environment), start=start, report=report)
    return row_of(cell, seeds, found)


def row_of(cell: Cell, seeds: Sequence[int], found: Episodes) -> dict[str, Any]:
    """A cell's episodes as a row."""
    row = {
        "simulations": cell.simulations,
        "candidates": cell.candidates,
        "model_evaluations": found.model_evaluations,
        "seeds": list(seeds),
        "returns": [round(float(x), 5) for x in found.returns],
        "won": [int(x) for x in found.won],
        "lengths": [int(x) for x in found.lengths],
    }
    family, size = family_and_size(cell.environment)
    if family is not None:
        row["optima"] = [best_return(family, size, seed) for seed in seeds]
    return row


@cache
def best_return(family: str, size: str, seed: int) -> float | None:
    """The best return of an episode of a payoff game, where it is known."""
    best = optimum(payoff_game(family, *parse_size(size), seed))
    return None if best is None else round(STEPS * best.value, 5)
