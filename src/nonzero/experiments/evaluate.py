"""What runs have learned, in numbers: fresh episodes, and all evaluations in the layout of marl-eval."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from nonzero.evaluation.statistics import bootstrap_interval, interquartile_mean
from nonzero.experiments.config import read_config
from nonzero.experiments.runs import make_learner
from nonzero.training.checkpoint import Checkpoints
from nonzero.training.train import evaluate, new_state, player
from nonzero.types import NonZeroError


def evaluate_run(folder: Path, episodes: int, seed: int) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Play `episodes` episodes with a run's newest checkpoint: a row of statistics, and a row an episode."""
    if episodes < 1:
        raise NonZeroError(f"--episodes is at least 1, not {episodes}")
    config = read_config(folder / "config.toml")
    learner = make_learner(config)
    blank = jax.eval_shape(lambda: new_state(learner, jax.random.key(0)))
    state, _ = Checkpoints(folder / "checkpoints").restore(blank)
    played = evaluate(learner, player(learner, state), jax.random.key(seed), episodes=episodes)
    returns, won = np.asarray(played.returns), np.asarray(played.won)
    interval = bootstrap_interval(returns)
    row: dict[str, object] = {
        "env": config.env,
        "algo": config.algo,
        "step": int(state.steps),
        "episodes": episodes,
        "return": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "interquartile mean": interquartile_mean(returns),
        "win rate": float(won.mean()),
    }
    rows = [
        {"episode": number, "return": float(value), "won": bool(win)}
        for number, (value, win) in enumerate(zip(returns, won, strict=True))
    ]
    return row, rows


def read_evaluations(folder: Path) -> list[dict[str, Any]]:
    """The evaluations of a run."""
    try:
        return json.loads((folder / "evaluations.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NonZeroError(f"cannot read the evaluations of {folder}: {error}") from error


def marl_eval_layout(folders: Sequence[Path]) -> str:
    """The evaluations as marl-eval reads them: suite, task, algorithm, seed, step, metric."""
    document: dict[str, Any] = {}
    for folder in folders:
        config = read_config(folder / "config.toml")
        suite, _, task = config.env.partition("/")
        algorithms = document.setdefault(suite, {}).setdefault(task, {})
        steps: dict[str, Any] = {}
        for number, entry in enumerate(read_evaluations(folder)):
            steps[f"step_{number}"] = {
                "step_count": entry["step"],
                "return": entry["returns"],
                "win_rate": [float(np.mean(entry["won"]))],
            }
        algorithms.setdefault(config.algo, {})[f"seed_{config.seed}"] = steps
    return json.dumps(document, indent=1) + "\n"
