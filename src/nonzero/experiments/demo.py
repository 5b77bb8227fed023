"""The demonstration: who gets out of traps that no agent can leave alone, and how quickly training learns."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.progress import Progress

from nonzero.envs.payoffs import payoff_game
from nonzero.experiments.bench_surrogate import best_so_far
from nonzero.experiments.config import RunConfig, load_preset
from nonzero.experiments.runs import Run, Schedule, best_return

FAMILY, NUM_AGENTS, NUM_ACTIONS, EVALUATIONS = "paired-traps", 6, 8, 600
LABELS = {
    "nonuct": "NonUCT",
    "nonuct-r0": "NonUCT with R = 0, the paper's",
    "random-pairs": "random changes of pairs",
    "uniform": "uniform",
}
COLOURS = {"nonuct": "#c2410c", "nonuct-r0": "#1d4ed8", "random-pairs": "#4d7c0f", "uniform": "#6b7280"}

TRAINED = RunConfig("matgame/linear-8x10", "nonzero", 400, 100, load_preset("default"))
EVALUATE_EVERY = 50

Curves = dict[str, np.ndarray]
Learned = tuple[list[int], list[float]]
"""Environment steps, and the share of the optimum after so many."""


def run_demo(seeds: Sequence[int]) -> Curves:
    """Play the same games with every method: the share of the optimum after each evaluation [seeds, T]."""
    curves: Curves = {}
    with Progress() as progress:
        bar = progress.add_task("", total=len(LABELS) * len(seeds))
        for method, label in LABELS.items():
            progress.update(bar, description=f"{label:<28}")
            runs = []
            for seed in seeds:
                game = payoff_game(FAMILY, NUM_AGENTS, NUM_ACTIONS, seed=seed)
                best = game.optimum()
                assert best is not None
                runs.append(best_so_far(method, game, seed, EVALUATIONS) / best.value)
                progress.advance(bar)
            curves[method] = np.stack(runs)
    return curves


def train_demo() -> Learned:
    """Train on a game of 10^8 joint actions, and judge every few steps."""
    config = TRAINED
    schedule = Schedule(EVALUATE_EVERY, EVALUATE_EVERY, checkpoint_every=config.steps, episodes=8)
    with tempfile.TemporaryDirectory() as folder, Progress() as progress:
        bar = progress.add_task(f"{'training (compiles first)':<28}", total=config.steps)
        run = Run(config, Path(folder) / "run", schedule, resume=False)
        if not run.train(lambda line: progress.update(bar, completed=line["step"])):
            raise KeyboardInterrupt
    best = best_return(run.learner)
    assert best is not None
    steps = [entry["step"] for entry in run.evaluations]
    return steps, [float(np.mean(entry["returns"])) / best for entry in run.evaluations]


def demo_rows(curves: Curves) -> list[dict[str, object]]:
    """A row per method: what it found, and how often the optimum itself."""
    return [
        {
            "method": LABELS[method],
            "share of optimum": float(shares[:, -1].mean()),
            "worst game": float(shares[:, -1].min()),
            "optimum found": f"{int((shares[:, -1] > 0.9999).sum())} of {len(shares)}",
        }
        for method, shares in curves.items()
    ]


def draw_demo(curves: Curves, learned: Learned, path: Path) -> None:
    """The mean share of the optimum against evaluations, a band from the worst to the best game; training."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    traps, training = figure.subplots(1, 2, width_ratios=(3, 2))
    evaluations = np.arange(1, EVALUATIONS + 1)
    for method, shares in curves.items():
        colour = COLOURS[method]
        band = (shares.min(axis=0), shares.max(axis=0))
        traps.fill_between(evaluations, *band, color=colour, alpha=0.12, linewidth=0)
        traps.plot(evaluations, shares.mean(axis=0), color=colour, linewidth=2, label=LABELS[method])
    traps.set(
        xlabel="joint actions evaluated",
        ylabel="best found, share of the optimum",
        xlim=(1, EVALUATIONS),
        title=f"{NUM_AGENTS} agents × {NUM_ACTIONS} actions: pairs must leave a decoy together",
    )
    traps.legend(loc="lower right", frameon=False)
    training.plot(*learned, color=COLOURS["nonuct"], linewidth=2, marker="o", markersize=4)
    training.set(
        xlabel="environment steps, as many updates",
        ylabel="return, share of the optimum",
        xlim=(0, learned[0][-1]),
        title="training: 8 agents × 10 actions, 10⁸ joint actions",
    )
    for axes in (traps, training):
        axes.set_ylim(0, 1.08)
        axes.axhline(1.0, color="black", linewidth=1, linestyle=":")
        axes.annotate(
            "optimum", (0.02, 1.0), (0, 3), xycoords=("axes fraction", "data"), textcoords="offset points"
        )
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
