"""The demonstration: coordination traps, where no agent can improve alone, and who gets out of them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.progress import Progress

from nonzero.envs.payoffs import payoff_game
from nonzero.experiments.bench_surrogate import best_so_far

FAMILY, NUM_AGENTS, NUM_ACTIONS, EVALUATIONS = "paired-traps", 6, 8, 600
LABELS = {
    "nonuct": "NonUCT",
    "nonuct-r0": "NonUCT with R = 0, the paper's",
    "random-pairs": "random changes of pairs",
    "uniform": "uniform",
}
COLOURS = {"nonuct": "#c2410c", "nonuct-r0": "#1d4ed8", "random-pairs": "#4d7c0f", "uniform": "#6b7280"}

Curves = dict[str, np.ndarray]


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


def draw_demo(curves: Curves, path: Path) -> None:
    """The mean share of the optimum against evaluations; a band spans the worst and the best game."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    evaluations = np.arange(1, EVALUATIONS + 1)
    for method, shares in curves.items():
        axes.fill_between(
            evaluations,
            shares.min(axis=0),
            shares.max(axis=0),
            color=COLOURS[method],
            alpha=0.12,
            linewidth=0,
        )
        axes.plot(evaluations, shares.mean(axis=0), color=COLOURS[method], linewidth=2, label=LABELS[method])
    axes.axhline(1.0, color="black", linewidth=1, linestyle=":")
    axes.annotate("optimum", (EVALUATIONS, 1.0), (0, 3), textcoords="offset points", ha="right")
    axes.set(
        xlabel="joint actions evaluated",
        ylabel="best found, share of the optimum",
        xlim=(1, EVALUATIONS),
        ylim=(0, 1.08),
        title=f"{NUM_AGENTS} agents × {NUM_ACTIONS} actions: pairs must leave a decoy together",
    )
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
