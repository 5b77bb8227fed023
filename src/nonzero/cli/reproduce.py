"""`nonzero reproduce …`: measure again what the documents claim, and draw it."""

from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class ReproduceRegret:
    """Measure how NonUCT's local regret grows, and its rounds to a local maximum beside UCB1's.

    Takes about ten minutes; what the folder holds already, measured under the same settings, is kept.
    """

    out: Path = Path("results/regret")
    """Folder of the result files, the figures and the tables."""
    seeds: int = 10
    """Games, and runs, of each size; numbered from 100 on."""
    quick: bool = False
    """Measure two tiny games for 48 rounds only, to see that it works."""

    def run(self) -> None:
        """Measure with a progress bar, then draw and print."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from nonzero.experiments.regret import GROWTH_FILE, QUICK, Plan, measure_regret
        from nonzero.experiments.regret_figures import growth_rows, write_report
        from nonzero.experiments.results import read_results
        from nonzero.experiments.tables import rich_table

        plan = replace(QUICK if self.quick else Plan(), seeds=self.seeds)
        console = Console()
        text = TextColumn("{task.description}")
        with Progress(text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console) as bar:
            total = len(plan.growth_cells()) + len(plan.separation_cells())
            task = bar.add_task("looking for results", total=total)

            def report(what: str, remaining: int) -> None:
                bar.update(task, description=what, completed=total - remaining)

            measure_regret(self.out, plan, report)
        written = write_report(self.out)
        columns = ("game", "R of game", "R of surrogate", "rounds", "exponent", "below 3/4")
        rows = growth_rows(read_results(self.out / GROWTH_FILE)["rows"])
        console.print(rich_table([{name: row[name] for name in columns} for row in rows]))
        for path in written:
            console.print(f"Wrote {path}", markup=False, highlight=False, soft_wrap=True)
