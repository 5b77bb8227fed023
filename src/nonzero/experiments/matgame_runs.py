"""Training runs on MatGame, cell by cell: what several tables are made of.

One run serves all budgets of a cell: it is evaluated at each. Runs that are there are not made again, and
runs that were interrupted go on. A run leaves one result file; the tables are made from these alone, so that
several processes may measure disjoint parts of a plan into the same folder.
"""

import csv
import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from nonzero.experiments.config import RunConfig, load_preset, to_toml
from nonzero.experiments.curves import Curve, curve_of
from nonzero.experiments.paper import MATGAME
from nonzero.experiments.results import Row, read_results, write_results, write_whole
from nonzero.experiments.runs import Line, Run, Schedule, best_return
from nonzero.experiments.tables import markdown_table
from nonzero.search import preset as search_preset
from nonzero.types import NonZeroError

BUDGETS = {
    (2, 3): (250, 500, 1000),
    (4, 5): (500, 1000, 2000),
    (6, 8): (500, 1000, 2000),
    (8, 10): (500, 1000, 2000),
}
"""The paper's two budgets of each size, and half of the smaller."""
ALGORITHMS = ("nonzero", "mazero", "mazero-np", "ma-alphazero")
ABLATIONS = ("nonzero", "without-mixing-net", "without-curvature", "without-both")
ORDER = (*ALGORITHMS, *ABLATIONS[1:])
"""How tables list them."""
FIXED = ("linear", "mazero-1", "mazero-2", "mazero-3", "mazero-4")
"""Kinds of games that do not depend on a seed."""


def place_of(algorithm: str) -> tuple[int, str]:
    """Where tables list an algorithm: others than those of the tables come last."""
    return (ORDER.index(algorithm) if algorithm in ORDER else len(ORDER), algorithm)


class Game(NamedTuple):
    """What is played."""

    agents: int
    actions: int
    kind: str

    @property
    def name(self) -> str:
        """As `nonzero train` knows it, behind "matgame/"."""
        is_matrix = self.kind.startswith("mazero-")
        return self.kind if is_matrix else f"{self.kind}-{self.agents}x{self.actions}"


TABLE_1 = tuple(Game(*size, kind) for size in BUDGETS for kind in ("linear", "nonlinear"))
"""The settings of the paper's table."""
TRAPS = (
    *(Game(2, 3, f"mazero-{number}") for number in range(1, 5)),
    *(Game(*size, kind) for size in ((4, 5), (8, 10)) for kind in ("paired-traps", "climbing")),
)
"""Games where agents must change together: MAZero's four matrices, and games of any size."""
ABLATED = (Game(8, 10, "linear"), Game(4, 5, "paired-traps"))
"""Where the parts matter: many directions to learn about, and a way out that takes two agents."""


class Cell(NamedTuple):
    """One training run."""

    game: Game
    algorithm: str
    seed: int
    every: int = 0
    """Steps between evaluations; 0 for at the budgets alone."""

    @property
    def name(self) -> str:
        """What its folder and its result file are called."""
        return f"{self.game.name}-{self.algorithm}-seed{self.seed}"

    @property
    def budgets(self) -> tuple[int, ...]:
        """Environment steps at which it is judged."""
        return BUDGETS[self.game.agents, self.game.actions]

    @property
    def judged(self) -> Sequence[int]:
        """Environment steps at which it is evaluated."""
        return range(self.every, self.budgets[-1] + 1, self.every) if self.every else self.budgets

    def config(self, preset: str) -> RunConfig:
        """How it is run; the random games of the seeds differ."""
        options = {} if self.game.kind in FIXED else {"seed": self.seed}
        env = f"matgame/{self.game.name}"
        return RunConfig(env, self.algorithm, self.budgets[-1], self.seed, load_preset(preset), options)


@dataclass(frozen=True)
class Plan:
    """Which runs to make."""

    games: Sequence[Game] = TABLE_1
    algorithms: Sequence[str] = ALGORITHMS
    seeds: Sequence[int] = field(default_factory=lambda: range(100, 105))
    preset: str = "default"
    every: int = 0

    def cells(self) -> Iterator[Cell]:
        """All runs; those that share what is compiled follow each other."""
        for game in self.games:
            for algorithm in self.algorithms:
                for seed in self.seeds:
                    yield Cell(game, algorithm, seed, self.every)


def chosen_games(games: Sequence[Game], names: Sequence[str]) -> list[Game]:
    """The games with these names, all without any."""
    known = {game.name: game for game in games}
    for name in names:
        if name not in known:
            raise NonZeroError(f"unknown game '{name}': there are {', '.join(known)}.")
    return [known[name] for name in names] or list(games)


def measure_plan(
    plan: Plan, results: Path, runs: Path, report: Callable[[Cell, int], None] = lambda cell, step: None
) -> None:
    """Make the runs whose result files are missing, or were made under other settings."""
    for algorithm in plan.algorithms:
        search_preset(algorithm)
    results.mkdir(parents=True, exist_ok=True)
    compiled_for: tuple[Game, str] | None = None
    for cell in plan.cells():
        config = cell.config(plan.preset)
        path = results / f"{cell.name}.json"
        if not is_measured(path, config):
            # Runs under other settings keep a folder of their own.
            mark = hashlib.sha256(to_toml(config).encode()).hexdigest()[:8]
            if (cell.game, cell.algorithm) != compiled_for:
                # A process may map only so much memory for compiled functions, and XLA crashes beyond.
                jax.clear_caches()
                compiled_for = (cell.game, cell.algorithm)
            measure_cell(cell, config, path, runs / f"{cell.name}-{mark}", report)


def is_measured(path: Path, config: RunConfig) -> bool:
    """Whether the result file is there and was made by the same configuration."""
    return path.exists() and read_results(path)["settings"].get("config") == to_toml(config)


def measure_cell(
    cell: Cell, config: RunConfig, path: Path, folder: Path, report: Callable[[Cell, int], None]
) -> None:
    """Train, going on with what is in `folder`, and write the result file."""
    schedule = Schedule(evaluate_every=cell.judged[0], checkpoint_every=cell.budgets[0])
    run = Run(config, folder, schedule, resume=(folder / "config.toml").exists())

    def say(line: Line) -> None:
        report(cell, int(line["step"]))

    if not run.train(say):
        raise KeyboardInterrupt
    best = best_return(run.learner)
    rows = [
        {
            **cell.game._asdict(),
            "algorithm": cell.algorithm,
            "seed": cell.seed,
            "steps": entry["step"],
            "returns": entry["returns"],
            "optimum": best,
            "updates": entry["update"],
        }
        for entry in run.evaluations
        if entry["step"] in cell.judged
    ]
    write_results(
        path, rows, {"config": to_toml(config), "seconds": run.seconds, "schedule": asdict(schedule)}
    )


def rows_in(results: Path) -> Iterator[tuple[Game, dict[str, Any]]]:
    """Every row of the result files, with its game."""
    for path in sorted(results.glob("*.json")):
        for row in read_results(path)["rows"]:
            yield Game(*(row[name] for name in Game._fields)), row


def curves_in(results: Path, games: Sequence[Game]) -> dict[tuple[str, str], Curve]:
    """The learning curve of each game and algorithm, over all seeds."""
    found: dict[tuple[str, str], dict[int, dict[int, float]]] = {}
    for game, row in rows_in(results):
        if game in games:
            seeds = found.setdefault((game.name, row["algorithm"]), {})
            seeds.setdefault(row["seed"], {})[row["steps"]] = float(np.mean(row["returns"]))
    names = sorted(found, key=lambda name: (name[0], place_of(name[1])))
    return {name: curve_of(list(found[name].values()), " of ".join(name[::-1])) for name in names}


def table_rows(results: Path, games: Sequence[Game]) -> list[dict[str, object]]:
    """A row for each game, budget and algorithm: mean and deviation over seeds of the mean return."""
    found: dict[tuple, list[dict[str, Any]]] = {}
    for game, row in rows_in(results):
        if row["steps"] in BUDGETS[game.agents, game.actions]:
            found.setdefault((game, row["steps"], row["algorithm"]), []).append(row)

    def order(key: tuple) -> tuple:
        game, steps, algorithm = key
        return games.index(game), steps, place_of(algorithm)

    rows = []
    for game, steps, algorithm in sorted((key for key in found if key[0] in games), key=order):
        measured = found[game, steps, algorithm]
        returns = [float(np.mean(row["returns"])) for row in measured]
        known = [float(row["optimum"]) for row in measured if row["optimum"] is not None]
        share = float(np.mean(np.divide(returns, known))) if len(known) == len(returns) else None
        rows.append(
            {"agents": game.agents, "actions": game.actions, "type": game.kind}
            | {"steps": steps, "algorithm": algorithm, "seeds": len(returns)}
            | {"mean": float(np.mean(returns)), "std": float(np.std(returns)), "share_of_optimum": share}
        )
    return rows


def write_tables(rows: Sequence[Row], stem: Path) -> list[Path]:
    """Write `stem`.csv, and `stem`.md with the paper's numbers beside ours where it has some."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    shown = []
    for row in rows:
        paper = MATGAME.get((row["agents"], row["actions"], row["type"], row["steps"]))
        beside = {} if paper is None else {"paper's mean": paper.get(str(row["algorithm"]))}
        shown.append({**row, **beside})
    paths = [stem.with_suffix(".csv"), stem.with_suffix(".md")]
    write_whole(paths[0], text.getvalue())
    write_whole(paths[1], markdown_table(shown))
    return paths
