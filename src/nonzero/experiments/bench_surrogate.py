"""The payoff suite: how good a joint action each method finds in so many evaluations.

One result file per size and method, a row per family and seed. What a file holds already is not measured
again, so the suite can be stopped and gone on with; tables are made from the files alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from nonzero.envs.optimum import optimum
from nonzero.envs.payoffs import PayoffGame, payoff_game
from nonzero.experiments.black_box import METHODS, SLOW_BUDGET, SLOW_METHODS
from nonzero.experiments.results import read_results, write_results

FAMILIES = ("additive", "asinh-additive", "low-rank", "paired-traps", "climbing", "penalty", "nk")
SIZES = ("6x8", "8x10", "20x10")
CHECKPOINTS = (100, 300, 600, 1500)
Names = tuple[str, ...]
FIRST_SEED = 100
"""Constants were chosen on games below this seed; results are of games from it on."""


@dataclass(frozen=True)
class Suite:
    """Which cells to measure."""

    families: tuple[str, ...] = FAMILIES
    sizes: tuple[str, ...] = SIZES
    methods: tuple[str, ...] = tuple(METHODS)
    seeds: int = 10
    slow_seeds: int = 5
    first_seed: int = FIRST_SEED
    budget: int = CHECKPOINTS[-1]

    def budget_of(self, method: str) -> int:
        """Evaluations a method gets."""
        return min(self.budget, SLOW_BUDGET) if method in SLOW_METHODS else self.budget

    def seeds_of(self, method: str) -> range:
        """Games a method plays."""
        count = min(self.seeds, self.slow_seeds) if method in SLOW_METHODS else self.seeds
        return range(self.first_seed, self.first_seed + count)

    def cells(self) -> Iterator[tuple[str, str, str, int]]:
        """Every (size, method, family, seed)."""
        for size in self.sizes:
            for method in self.methods:
                for family in self.families:
                    for seed in self.seeds_of(method):
                        yield size, method, family, seed


def chosen_suite(*, families: Names = (), sizes: Names = (), methods: Names = (), **numbers: int) -> Suite:
    """The suite of the given families, sizes and methods; an empty choice means all."""
    for kind, chosen, known in (("family", families, FAMILIES), ("method", methods, tuple(METHODS))):
        for name in chosen:
            if name not in known:
                raise ValueError(f"unknown {kind} '{name}': known are {', '.join(known)}")
    for size in sizes:
        parse_size(size)
    for name, number in numbers.items():
        if number < (CHECKPOINTS[0] if name == "budget" else 0 if name == "first_seed" else 1):
            raise ValueError(f"{name} is too small: {number}")
    return Suite(
        families=tuple(families) or FAMILIES,
        sizes=tuple(sizes) or SIZES,
        methods=tuple(methods) or tuple(METHODS),
        **numbers,
    )


def parse_size(size: str) -> tuple[int, int]:
    """Agents and actions of "6x8"."""
    agents, _, actions = size.partition("x")
    if not (agents.isdigit() and actions.isdigit()):
        raise ValueError(f"a size is written AGENTSxACTIONS, such as 6x8, not '{size}'")
    return int(agents), int(actions)


@eqx.filter_jit
def pay(game: PayoffGame, actions: Any) -> Any:
    """The payoff of a joint action."""
    return game.payoff(actions)


def best_so_far(method: str, game: PayoffGame, seed: int, budget: int) -> np.ndarray:
    """The best value found after each evaluation."""
    maximiser = METHODS[method](game.num_agents, game.num_actions, seed)
    values = []
    for _ in range(budget):
        action = maximiser.ask()
        value = float(pay(game, jnp.asarray(action, jnp.int32)))
        maximiser.tell(action, value)
        values.append(value)
    return np.maximum.accumulate(values)


def measure_cell(method: str, family: str, size: str, seed: int, budget: int) -> dict[str, object]:
    """One row: a method on a game."""
    game = payoff_game(family, *parse_size(size), seed=seed)
    best = best_so_far(method, game, seed, budget)
    known = optimum(game)
    return {
        "family": family,
        "seed": seed,
        "optimum": known.value if known else None,
        "best": {str(n): round(float(best[n - 1]), 5) for n in CHECKPOINTS if n <= budget},
    }


def measure_suite(suite: Suite, folder: Path) -> None:
    """Measure what is missing, with a progress bar; a file grows with every family of its size and method."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    folder.mkdir(parents=True, exist_ok=True)
    done = measured(suite, folder)
    missing = [cell for cell in suite.cells() if cell not in done]
    columns = (
        TextColumn("{task.description:<34}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as progress:
        bar = progress.add_task("payoff suite", total=len(missing))
        for (size, method, family), cells in groupby(missing, key=itemgetter(0, 1, 2)):
            progress.update(bar, description=f"{size} {method} {family}")
            rows = []
            for *_, seed in cells:
                rows.append(measure_cell(method, family, size, seed, suite.budget_of(method)))
                progress.advance(bar)
            save(suite, folder, size, method, rows)


def file_of(folder: Path, size: str, method: str) -> Path:
    """Where the rows of a size and method are."""
    return folder / f"{size}-{method}.json"


def settings_of(suite: Suite, size: str, method: str) -> dict[str, object]:
    """What must agree for rows to go into one file."""
    return {"size": size, "method": method, "budget": suite.budget_of(method)}


def measured(suite: Suite, folder: Path) -> set[tuple[str, str, str, int]]:
    """The cells that the files of a folder hold."""
    cells = set()
    for size in suite.sizes:
        for method in suite.methods:
            path = file_of(folder, size, method)
            if not path.exists():
                continue
            document = read_results(path)
            if document["settings"] != settings_of(suite, size, method):
                raise ValueError(
                    f"{path} was measured with other settings: {document['settings']}; remove it"
                )
            cells |= {(size, method, row["family"], row["seed"]) for row in document["rows"]}
    return cells


def save(suite: Suite, folder: Path, size: str, method: str, rows: Sequence[dict[str, object]]) -> None:
    """Add rows to the file of a size and method."""
    path = file_of(folder, size, method)
    old = read_results(path)["rows"] if path.exists() else []
    write_results(path, [*old, *rows], settings_of(suite, size, method))
