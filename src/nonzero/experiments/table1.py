"""Table 1 of the paper, the search half: MatGame at two budgets, measured by training runs.

One run serves both budgets of a setting: it is evaluated at each. Runs that are there are not made again, and
runs that were interrupted go on. A run leaves one result file; the tables are made from these alone.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nonzero.experiments.config import RunConfig, load_preset, to_toml
from nonzero.experiments.paper import MATGAME
from nonzero.experiments.results import Row, read_results, write_results, write_whole
from nonzero.experiments.runs import Line, Run, Schedule, best_return
from nonzero.experiments.tables import markdown_table

BUDGETS = {
    (2, 3): (250, 500, 1000),
    (4, 5): (500, 1000, 2000),
    (6, 8): (500, 1000, 2000),
    (8, 10): (500, 1000, 2000),
}
"""The paper's two budgets of each size, and half of the smaller."""
KINDS = ("linear", "nonlinear")
ALGORITHMS = ("mazero", "mazero-np", "ma-alphazero")


class Cell(NamedTuple):
    """One training run."""

    agents: int
    actions: int
    kind: str
    algorithm: str
    seed: int

    @property
    def name(self) -> str:
        """What its folder and its result file are called."""
        return f"{self.kind}-{self.agents}x{self.actions}-{self.algorithm}-seed{self.seed}"

    def config(self, preset: str) -> RunConfig:
        """How it is run; the nonlinear games of the seeds differ."""
        options = {"seed": self.seed} if self.kind == "nonlinear" else {}
        env = f"matgame/{self.kind}-{self.agents}x{self.actions}"
        steps = BUDGETS[self.agents, self.actions][-1]
        return RunConfig(env, self.algorithm, steps, self.seed, load_preset(preset), options)


@dataclass(frozen=True)
class Plan:
    """Which runs to make."""

    sizes: Sequence[tuple[int, int]] = tuple(BUDGETS)
    kinds: Sequence[str] = KINDS
    algorithms: Sequence[str] = ALGORITHMS
    seeds: int = 5
    first_seed: int = 100
    preset: str = "default"

    def cells(self) -> Iterator[Cell]:
        """All runs, small games first."""
        for agents, actions in self.sizes:
            for kind in self.kinds:
                for algorithm in self.algorithms:
                    for seed in range(self.first_seed, self.first_seed + self.seeds):
                        yield Cell(agents, actions, kind, algorithm, seed)


def measure_table(
    plan: Plan, results: Path, runs: Path, report: Callable[[Cell, int], None] = lambda cell, step: None
) -> None:
    """Make the runs whose result files are missing, or were made under other settings."""
    results.mkdir(parents=True, exist_ok=True)
    for cell in plan.cells():
        config = cell.config(plan.preset)
        path = results / f"{cell.name}.json"
        if not is_measured(path, config):
            measure_cell(cell, config, path, runs / cell.name, report)


def is_measured(path: Path, config: RunConfig) -> bool:
    """Whether the result file is there and was made by the same configuration."""
    return path.exists() and read_results(path)["settings"].get("config") == to_toml(config)


def measure_cell(
    cell: Cell, config: RunConfig, path: Path, folder: Path, report: Callable[[Cell, int], None]
) -> None:
    """Train, going on with what is in `folder`, and write the result file."""
    budgets = BUDGETS[cell.agents, cell.actions]
    schedule = Schedule(evaluate_every=budgets[0], checkpoint_every=budgets[0])
    run = Run(config, folder, schedule, resume=(folder / "config.toml").exists())

    def say(line: Line) -> None:
        report(cell, int(line["step"]))

    if not run.train(say):
        raise KeyboardInterrupt
    best = best_return(run.learner)
    rows = [
        {
            **cell._asdict(),
            "steps": entry["step"],
            "returns": entry["returns"],
            "optimum": best,
            "updates": entry["update"],
        }
        for entry in run.evaluations
        if entry["step"] in budgets
    ]
    write_results(
        path, rows, {"config": to_toml(config), "seconds": run.seconds, "schedule": asdict(schedule)}
    )


def table_rows(results: Path) -> list[dict[str, object]]:
    """A row for each setting, budget and algorithm: mean and deviation over seeds of the mean return."""
    found: dict[tuple, list[Row]] = {}
    for path in sorted(results.glob("*.json")):
        for row in read_results(path)["rows"]:
            key = (row["agents"], row["actions"], row["kind"], row["steps"], row["algorithm"])
            found.setdefault(key, []).append(row)
    rows = []
    for key in sorted(found, key=lambda k: (k[0], k[1], KINDS.index(k[2]), k[3], k[4])):
        returns = [float(np.mean(np.asarray(row["returns"], float))) for row in found[key]]
        bests = [float(str(row["optimum"])) for row in found[key] if row["optimum"] is not None]
        share = float(np.mean(np.divide(returns, bests))) if len(bests) == len(returns) else None
        names = ("agents", "actions", "type", "steps", "algorithm")
        rows.append(
            dict(zip(names, key, strict=True))
            | {"seeds": len(returns), "mean": float(np.mean(returns)), "std": float(np.std(returns))}
            | {"share_of_optimum": share}
        )
    return rows


def write_tables(results: Path, stem: Path) -> list[Path]:
    """Write `stem`.csv, and `stem`.md with the paper's numbers beside ours."""
    rows = table_rows(results)
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    shown = []
    for row in rows:
        paper = MATGAME.get((row["agents"], row["actions"], row["type"], row["steps"]), {})
        shown.append({**row, "paper's mean": paper.get(str(row["algorithm"]))})
    paths = [stem.with_suffix(".csv"), stem.with_suffix(".md")]
    write_whole(paths[0], text.getvalue())
    write_whole(paths[1], markdown_table(shown))
    return paths
