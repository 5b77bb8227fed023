"""`nonzero train`, `nonzero evaluate`, `nonzero plot`: learn, judge, draw."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from nonzero.cli.measure import JsonPath
from nonzero.cli.settings import NoChanges, changes_of, given
from nonzero.training.settings import Settings

if TYPE_CHECKING:
    Changes = NoChanges
else:
    Changes = changes_of(Settings)

Runs = Annotated[
    tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...", help_behavior_hint="")
]


@dataclass(frozen=True)
class Train:
    """Train on an environment, as far as --steps, and evaluate on the way.

    Ctrl-C or SIGTERM saves and stops; --resume goes on, to the bit.
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """Environment; `nonzero envs` lists them."""
    algo: str = "nonzero"
    """Search: nonzero or one of its ablations, paper, mazero, mazero-np, ma-alphazero, sampled-muzero."""
    steps: int = 1000
    """Environment steps, of all environments together."""
    seed: int = 0
    """Decides everything random."""
    preset: Literal["default", "paper"] = "default"
    """Settings to start from."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """Folder of the run; by default runs/ENV-ALGO-seedN."""
    resume: bool = False
    """Go on with the run in that folder."""
    env_seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Which of a family's random games to play, where it has some."""
    report_every: int = 50
    """Steps between lines of metrics."""
    evaluate_every: int = 250
    """Steps between evaluations."""
    checkpoint_every: int = 500
    """Steps between checkpoints."""
    episodes: int = 32
    """Episodes of an evaluation."""
    settings: Annotated[Changes, tyro.conf.arg(name="")] = field(default_factory=Changes)

    def run(self) -> None:
        """Train with a progress bar, then say what came of it."""
        from rich.console import Console

        from nonzero.experiments.config import RunConfig, changed, load_preset
        from nonzero.experiments.runs import Run, Schedule
        from nonzero.experiments.watch import watch

        name = f"{self.env.replace('/', '-')}-{self.algo}-seed{self.seed}"
        folder = self.out or Path("runs") / name
        options = {} if self.env_seed is None else {"seed": self.env_seed}
        settings = changed(load_preset(self.preset), given(self.settings))
        config = RunConfig(self.env, self.algo, self.steps, self.seed, settings, options)
        schedule = Schedule(self.report_every, self.evaluate_every, self.checkpoint_every, self.episodes)
        console = Console()
        run = Run(config, folder, schedule, resume=self.resume)
        is_done = watch(run, console)
        ending = "Done" if is_done else f"Stopped and saved at step {run.steps}; --resume goes on"
        console.print(f"{ending}: {folder}", markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Evaluate:
    """Play episodes with what a run has learned, without noise and without learning."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    episodes: int = 32
    """How many."""
    seed: int = 0
    """Decides everything random."""
    json: JsonPath = None
    """Write every episode to this file."""
    marl_eval: JsonPath = None
    """Write the run's evaluations to this file in the layout of marl-eval."""

    def run(self) -> None:
        """Play, print, write."""
        from rich.console import Console

        from nonzero.experiments.evaluate import evaluate_run, marl_eval_layout
        from nonzero.experiments.results import check_writable, write_results, write_whole
        from nonzero.experiments.tables import rich_table

        for path in (self.json, self.marl_eval):
            if path is not None:
                check_writable(path)
        row, episodes = evaluate_run(self.run_folder, self.episodes, self.seed)
        Console().print(rich_table([row]))
        if self.json is not None:
            write_results(self.json, episodes, dict(row))
        if self.marl_eval is not None:
            write_whole(self.marl_eval, marl_eval_layout([self.run_folder]))


@dataclass(frozen=True)
class Plot:
    """Draw learning curves with intervals: a curve for each algorithm, over its runs' seeds."""

    runs: Runs
    """Folders of runs."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("learning.png")
    """The picture; an SVG is drawn beside it."""

    def run(self) -> None:
        """Read, draw, say where."""
        from nonzero.experiments.curves import draw_curves, learning_curves

        for path in draw_curves(learning_curves(self.runs), self.out):
            print(f"Wrote {path}")
