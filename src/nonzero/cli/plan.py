"""`nonzero plan`: search with the environment itself as the model, without any training."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from nonzero.cli.measure import JsonPath

if TYPE_CHECKING:
    from nonzero.experiments.plan import Planned

PLAIN: Any = {"markup": False, "highlight": False, "soft_wrap": True}


@dataclass(frozen=True)
class Plan:
    """Plan episodes with the environment itself as the search's model: no training.

    Simulations draw their own chance, never the episode's: the planner knows the rules and not the future.
    """

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV", help_behavior_hint="")]
    """An environment of `nonzero envs`; each episode of a payoff game plays the game of its own seed."""
    preset: str = "nonzero"
    """A search preset; or mctx; or base, the base policy without search."""
    simulations: int = 50
    """Simulations per decision."""
    candidates: int = 7
    """Joint actions that a node may look at."""
    base_policy: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    """Prior and, played out, leaf value: heuristic (smax), uniform (matgame). Without one the prior is
    uniform and a leaf is worth nothing."""
    uniform_share: float = 0.25
    """Share of the prior that is uniform where a base policy is the rest."""
    rollout_steps: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")] = None
    """How long the base policy is played for a leaf's value; by default to the end of the episode."""
    episodes: int = 16
    """Episodes to play."""
    seed: int = 0
    """Seed of the first episode; the others follow."""
    rows: int = 16
    """Episodes side by side: a matter of speed and memory alone."""
    json: JsonPath = None
    """Write the numbers, in all and by episode, with settings and versions, to this file."""
    show: bool = False
    """Show what the first decision's search thought of its candidates."""

    def run(self) -> None:
        """Plan with a progress bar; print, show, write."""
        from rich.console import Console

        from nonzero.experiments.plan import episode_rows, headline, root_rows, summary
        from nonzero.experiments.results import check_writable, write_results
        from nonzero.experiments.tables import rich_table

        if self.json is not None:
            check_writable(self.json)
        planned = self.planned()
        numbers = summary(planned)
        console = Console()
        console.print(f"{self.env}: {self.preset}, {numbers['simulations']} simulations a decision", **PLAIN)
        console.print(rich_table([headline(planned, numbers)]))
        if self.show:
            console.print(f"The first decision of the episode of seed {self.seed}:", **PLAIN)
            console.print(rich_table(root_rows(planned.episodes.first)))
        if self.json is not None:
            settings = {name: value for name, value in vars(self).items() if name not in ("json", "show")}
            write_results(self.json, episode_rows(planned), settings, summary=numbers)
            console.print(f"Wrote {self.json}", **PLAIN)

    def planned(self) -> "Planned":
        """Play the episodes."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from nonzero.experiments.plan import check, plan_episodes
        from nonzero.experiments.planning_files import Cell, Model

        cell = Cell(self.env, self.preset, self.simulations, self.candidates)
        model = Model(self.base_policy, self.uniform_share, self.rollout_steps)
        seeds = range(self.seed, self.seed + self.episodes)
        check(cell, model, seeds)
        columns = (
            TextColumn("{task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, transient=True) as progress:
            bar = progress.add_task("compiling", total=self.episodes)

            def report(finished: int, decisions: int) -> None:
                del decisions
                progress.update(bar, description="episodes", completed=finished)

            return plan_episodes(cell, model, seeds, rows=self.rows, report=report)
