"""Learning curves: the mean return of the evaluations of several runs, with intervals over their seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from nonzero.evaluation.statistics import bootstrap_interval
from nonzero.experiments.config import read_config
from nonzero.experiments.evaluate import read_evaluations
from nonzero.types import NonZeroError

Curve = tuple[list[int], list[float], list[float], list[float]]


def draw_curves(curves: Mapping[tuple[str, str], Curve], path: Path) -> list[Path]:
    """Draw a panel for each environment and a curve for each algorithm; the files written."""
    environments = list(dict.fromkeys(env for env, _ in curves))
    figure = Figure(figsize=(1 + 5 * len(environments), 4), layout="constrained")
    panels = figure.subplots(1, len(environments), squeeze=False)[0]
    for axes, env in zip(panels, environments, strict=True):
        for (where, algo), (steps, mean, low, high) in curves.items():
            if where == env:
                (line,) = axes.plot(steps, mean, marker="o", markersize=3, label=algo)
                axes.fill_between(steps, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
        axes.set(title=env, xlabel="environment steps", ylabel="return of evaluation episodes")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    paths = [path.with_suffix(".png"), path.with_suffix(".svg")]
    try:
        for one in paths:
            figure.savefig(one, dpi=110)
    except OSError as error:
        raise NonZeroError(f"cannot write {path}: {error.strerror}") from error
    return paths


def learning_curves(folders: Sequence[Path]) -> dict[tuple[str, str], Curve]:
    """The curve of each environment and algorithm in folders of runs."""
    returns: dict[tuple[str, str], list[dict[int, float]]] = {}
    for folder in folders:
        config = read_config(folder / "config.toml")
        found = {entry["step"]: float(np.mean(entry["returns"])) for entry in read_evaluations(folder)}
        returns.setdefault((config.env, config.algo), []).append(found)
    return {name: curve_of(runs, f"{name[1]} on {name[0]}") for name, runs in returns.items()}


def curve_of(runs: Sequence[Mapping[int, float]], name: str) -> Curve:
    """Steps, mean, low and high of runs' returns by step, where all of them were evaluated."""
    steps = sorted(set.intersection(*(set(run) for run in runs)))
    if not steps:
        raise NonZeroError(f"the runs of {name} have no evaluation at a common step")
    intervals = [bootstrap_interval([run[step] for run in runs]) for step in steps]
    return (
        steps,
        [interval.mean for interval in intervals],
        [interval.low for interval in intervals],
        [interval.high for interval in intervals],
    )
