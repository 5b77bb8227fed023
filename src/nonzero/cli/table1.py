"""`nonzero reproduce table1`: the paper's MatGame table, by training."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

Names = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")]


@dataclass(frozen=True)
class ReproduceTable1:
    """Train on MatGame in the paper's settings, at its two budgets and at half of the smaller one.

    Takes hours in full; what is there is not measured again, and what was interrupted goes on.
    """

    sizes: Names = ("2x3", "4x5", "6x8", "8x10")
    """Agents x actions."""
    kinds: Names = ("linear", "nonlinear")
    """Payoffs."""
    algorithms: Names = ("mazero", "mazero-np", "ma-alphazero")
    """Searches."""
    seeds: int = 5
    """Runs of each."""
    first_seed: int = 100
    """Seed of the first run."""
    preset: Literal["default", "paper"] = "default"
    """Settings of all runs."""
    out: Path = Path("results/table1")
    """Folder of the result files; the tables are written beside it."""
    runs: Path = Path("runs/table1")
    """Folder of the training runs."""

    def run(self) -> None:
        """Measure what is missing under a progress bar, then print and write the tables."""
        from rich.console import Console
        from rich.progress import Progress

        from nonzero.experiments.table1 import BUDGETS, Cell, Plan, measure_table, table_rows, write_tables
        from nonzero.experiments.tables import rich_table
        from nonzero.types import NonZeroError

        known = {f"{agents}x{actions}": (agents, actions) for agents, actions in BUDGETS}
        for size in self.sizes:
            if size not in known:
                raise NonZeroError(f"unknown size '{size}': the table has {', '.join(known)}.")
        plan = Plan(
            [known[size] for size in self.sizes],
            self.kinds,
            self.algorithms,
            self.seeds,
            self.first_seed,
            self.preset,
        )
        console = Console()
        with Progress(console=console) as bar:
            task = bar.add_task("looking for results")

            def report(cell: Cell, step: int) -> None:
                total = BUDGETS[cell.agents, cell.actions][-1]
                bar.update(task, description=cell.name, completed=step, total=total)

            measure_table(plan, self.out, self.runs, report)
        console.print(rich_table(table_rows(self.out)))
        for path in write_tables(self.out, self.out):
            console.print(f"Wrote {path}", markup=False, highlight=False, soft_wrap=True)
