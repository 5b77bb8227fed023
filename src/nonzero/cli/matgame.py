"""`nonzero reproduce table1`, `traps` and `ablation`: what the searches learn on MatGame."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nonzero.cli.measure import Names, Numbers

if TYPE_CHECKING:
    from nonzero.experiments.matgame_runs import Game


@dataclass(frozen=True)
class ReproduceTable1:
    """Train on MatGame in the paper's settings, at its two budgets and at half of the smaller one.

    Takes about an hour in full; what is there is not measured again, and what was interrupted goes on.
    Processes that share the work, say by --seeds, may run at once.
    """

    games: Names = ()
    """Games, such as linear-4x5; by default all eight."""
    algorithms: Names = ("nonzero", "mazero", "mazero-np", "ma-alphazero")
    """Searches."""
    seeds: Numbers = (100, 101, 102, 103, 104)
    """Seeds of the runs; settings were chosen on seeds below 100."""
    preset: Literal["default", "paper"] = "default"
    """Settings of all runs."""
    out: Path = Path("results/table1")
    """Folder of the result files; the tables are written beside it."""
    runs: Path = Path("runs/table1")
    """Folder of the training runs."""

    def run(self) -> None:
        """Measure what is missing under a progress bar, then print and write the tables."""
        from nonzero.experiments.matgame_runs import TABLE_1

        reproduce(self, TABLE_1)


@dataclass(frozen=True)
class ReproduceTraps(ReproduceTable1):
    """Train on games where agents must change together, at the budgets of table 1.

    They are MAZero's four matrices, and paired traps and climbing games of 4x5 and 8x10. What is there is not
    measured again, and what was interrupted goes on.
    """

    games: Names = ()
    """Games, such as mazero-1 or climbing-4x5; by default all eight."""
    out: Path = Path("results/traps")
    """Folder of the result files; the tables are written beside it."""
    runs: Path = Path("runs/traps")
    """Folder of the training runs."""

    def run(self) -> None:
        """Measure what is missing under a progress bar, then print and write the tables."""
        from nonzero.experiments.matgame_runs import TRAPS

        reproduce(self, TRAPS)


@dataclass(frozen=True)
class ReproduceAblation(ReproduceTable1):
    """Train nonzero without its mixing network, without curvature, without both: the paper's Figure 4.

    The games are linear-8x10 and paired-traps-4x5. Draws learning curves with intervals. What is there is not
    measured again, and what was interrupted goes on.
    """

    games: Names = ()
    """One of the games; by default both."""
    algorithms: Names = ("nonzero", "without-mixing-net", "without-curvature", "without-both")
    """Searches."""
    out: Path = Path("results/ablation")
    """Folder of the result files; the table and the figure are written beside it."""
    runs: Path = Path("runs/ablation")
    """Folder of the training runs."""

    def run(self) -> None:
        """Measure what is missing under a progress bar, then print and write the table, and draw."""
        from nonzero.experiments.curves import draw_curves
        from nonzero.experiments.matgame_runs import ABLATED, curves_in

        reproduce(self, ABLATED, every=100)
        for path in draw_curves(curves_in(self.out, ABLATED), self.out):
            print(f"Wrote {path}")


def reproduce(wanted: ReproduceTable1, games: "Sequence[Game]", every: int = 0) -> None:
    """Measure what is missing of a table under a progress bar, then print and write it."""
    from rich.console import Console
    from rich.progress import Progress

    from nonzero.experiments.matgame_runs import (
        Cell,
        Plan,
        chosen_games,
        measure_plan,
        table_rows,
        write_tables,
    )
    from nonzero.experiments.tables import rich_table

    plan = Plan(chosen_games(games, wanted.games), wanted.algorithms, wanted.seeds, wanted.preset, every)
    console = Console()
    with Progress(console=console) as bar:
        task = bar.add_task("looking for results")

        def report(cell: Cell, step: int) -> None:
            bar.update(task, description=cell.name, completed=step, total=cell.budgets[-1])

        measure_plan(plan, wanted.out, wanted.runs, report)
    rows = table_rows(wanted.out, games)
    console.print(rich_table(rows))
    for path in write_tables(rows, wanted.out):
        console.print(f"Wrote {path}", markup=False, highlight=False, soft_wrap=True)
