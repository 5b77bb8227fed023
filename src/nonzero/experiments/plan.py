"""Episodes of one environment planned by one search: what `nonzero plan` does."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nonzero.envs.registry import base_policies, base_policy, make
from nonzero.evaluation.episodes import Decision, Episodes, play
from nonzero.evaluation.statistics import bootstrap_interval
from nonzero.experiments.planning import BASE, MCTX, Cell, Model, best_return, family_and_size, player, stage
from nonzero.search import preset
from nonzero.types import NonZeroError

ORIGINS = ("prior", "single", "pair")


@dataclass(frozen=True)
class Planned:
    """Episodes that were planned, the time that took, and of that the time up to the first decisions."""

    cell: Cell
    seeds: range
    episodes: Episodes
    seconds: float
    seconds_to_first: float
    rows: int


def plan_episodes(
    cell: Cell,
    model: Model,
    seeds: range,
    *,
    rows: int = 16,
    report: Callable[[int, int], None] = lambda finished, decisions: None,
) -> Planned:
    """Play the episodes of `seeds`, every decision planned as `cell` and `model` say; `check` them before."""
    env, start = stage(cell.environment, seeds)
    who = player(cell, env, model)
    began = time.perf_counter()
    marks: list[float] = []

    def heard(finished: int, decisions: int) -> None:
        marks.append(time.perf_counter() - began)
        report(finished, decisions)

    found = play(env, who, seeds, rows=rows, start=start, report=heard)
    return Planned(cell, seeds, found, marks[-1], marks[0], min(rows, len(seeds)))


def check(cell: Cell, model: Model, seeds: range) -> None:
    """Refuse what cannot be planned, in one line."""
    env = make(cell.environment)
    if model.base_policy is not None:
        base_policy(env, model.base_policy)
    if cell.method not in (BASE, MCTX):
        preset(cell.method)
    for name, number in (("simulations", cell.simulations), ("candidates", cell.candidates)):
        if number < 1:
            raise ValueError(f"{name} must be at least 1, not {number}")
    if len(seeds) < 1 or seeds.start < 0:
        raise ValueError("episodes must be at least 1 and the seed not negative")
    if not 0 < model.uniform_share <= 1:
        raise ValueError(f"the uniform share lies above 0 and not above 1, not at {model.uniform_share}")
    if model.rollout_steps is None:
        return
    if model.base_policy is None:
        offered = ", ".join(base_policies(cell.environment)) or "none here"
        raise NonZeroError(f"rollout steps are played by a base policy: choose one ({offered})")
    if model.rollout_steps < 1:
        raise ValueError(f"rollout steps must be at least 1, not {model.rollout_steps}")


def summary(planned: Planned) -> dict[str, object]:
    """The numbers that count; simulations and model evaluations are those of one decision."""
    found = planned.episodes
    won, returned = bootstrap_interval(found.won), bootstrap_interval(found.returns)
    decisions = int(found.lengths.sum())
    later = planned.seconds - planned.seconds_to_first
    return {
        "win_rate": won.mean,
        "win_rate_interval": [won.low, won.high],
        "mean_return": returned.mean,
        "mean_return_interval": [returned.low, returned.high],
        "episodes": len(found.returns),
        "decisions": decisions,
        "simulations": found.simulations,
        "model_evaluations": found.model_evaluations,
        "seconds": round(planned.seconds, 2),
        "seconds_to_first_decision": round(planned.seconds_to_first, 2),
        "simulations_per_second": round(found.simulations * (decisions - planned.rows) / later)
        if later > 0
        else None,
    }


def episode_rows(planned: Planned) -> list[dict[str, object]]:
    """A row per episode."""
    found, (family, size) = planned.episodes, family_and_size(planned.cell.environment)
    rows = []
    for number, seed in enumerate(planned.seeds):
        row: dict[str, object] = {"seed": seed, "return": round(float(found.returns[number]), 5)}
        row |= {"won": bool(found.won[number]), "length": int(found.lengths[number])}
        rows.append(row if family is None else row | {"optimum": best_return(family, size, seed)})
    return rows


def headline(planned: Planned, numbers: dict[str, object]) -> dict[str, object]:
    """The summary as one row to print: share of the optimum in payoff games, which nobody wins."""
    found, best = planned.episodes, [row.get("optimum") for row in episode_rows(planned)]
    row: dict[str, object] = {}
    if not planned.cell.environment.startswith("matgame/"):
        row["win rate"] = text(found.won)
    row["return"] = text(found.returns)
    if None not in best:
        row["share of optimum"] = text(found.returns / np.array(best, float))
    return row | {name: numbers[name] for name in ("episodes", "seconds", "simulations_per_second")}


def text(values: np.ndarray) -> str:
    """A mean with its bootstrap interval."""
    mean, low, high = bootstrap_interval(values)
    return f"{mean:.3g} [{low:.3g}, {high:.3g}]"


def root_rows(decision: Decision, row: int = 0) -> list[dict[str, object]]:
    """What the search behind a decision thought of its candidates, most visited first."""
    result = decision.result
    if result is None:
        raise NonZeroError("there are no candidates to show: only the searches of this project keep them")
    eta = getattr(result, "eta", None)
    rows = []
    for slot in np.argsort(-np.asarray(result.visits[row]), kind="stable"):
        if not result.candidates.filled[row, slot]:
            continue
        actions = " ".join(map(str, np.asarray(result.candidates.actions[row, slot])))
        origin = ORIGINS[int(result.candidates.origin[row, slot])]
        visits = int(result.visits[row, slot])
        shown = {"joint action": actions, "origin": origin, "visits": visits}
        shown["Q"] = float(result.q[row, slot]) if visits else None
        rows.append(shown if eta is None else shown | {"η": float(eta[row, slot])})
    return rows
