"""`nonzero reproduce …`: measure again what the documents claim, and draw it."""

from dataclasses import dataclass, replace
from pathlib import Path

from nonzero.cli.measure import Names, Numbers


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


@dataclass(frozen=True)
class ReproducePlanning:
    """Measure how well each search plays with the environment itself as its model, without training.

    Takes many hours in full; what the result files hold already is not measured again.
    """

    environments: Names = ()
    """Environments; by default payoff games of four families in three sizes, and three SMAX battles."""
    presets: Names = ()
    """Search presets, mctx, or base for the base policy alone; by default all but ablations."""
    simulations: Numbers = ()
    """By default 50, 100 and 200 in payoff games, 50 and 200 in battles."""
    candidates: Numbers = ()
    """Joint actions a node may look at: by default 3 and 7 in payoff games, 7 in battles."""
    episodes: int = 0
    """Episodes per cell: by default 100 payoff games, 64 battles."""
    first_seed: int = 100
    """Seed of the first episode; settings were chosen on seeds below 100."""
    rows: int = 0
    """Episodes side by side: by default 100 payoff games, 64 battles. A matter of speed and memory alone."""
    uniform_share: float = 0.25
    """Share of the prior that is uniform where a base policy is the rest."""
    out: Path = Path("results/planning")
    """Folder of the result files and of the tables made from them."""

    def run(self) -> None:
        """Measure what is missing with a progress bar, then write the tables."""
        from rich.console import Console

        from nonzero.experiments.planning import chosen_study, measure_study
        from nonzero.experiments.planning_tables import planning_markdown

        choice = {name: value for name, value in vars(self).items() if name not in ("out", "presets")}
        measure_study(chosen_study(methods=self.presets, **choice), self.out)
        path = self.out / "tables.md"
        path.write_text(planning_markdown(self.out), encoding="utf-8")
        Console().print(f"Wrote {path}", markup=False, highlight=False, soft_wrap=True)
