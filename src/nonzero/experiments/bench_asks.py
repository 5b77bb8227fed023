"""How long the next joint action takes to choose: NonUCT beside TPE, one at a time and in batches."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from nonzero.envs.payoffs import PayoffGame, payoff_game
from nonzero.experiments.bench_surrogate import parse_size
from nonzero.experiments.black_box import Action, imported, nonuct

Ask = Callable[[int], list[tuple[Any, Action]]]
"""Tickets to tell with, and the joint actions behind them."""
Pay = Callable[[Action], float]
Tell = Callable[[Any, float], object]

FAMILY = "low-rank"


def bench_asks(
    size: str = "8x10", *, evaluations: int = 600, batch: int = 16, alternations: int = 3, seed: int = 0
) -> list[dict[str, object]]:
    """Mean milliseconds per joint action asked for and told, over whole runs, the methods taking turns.

    NonUCT's first run is left out of the mean: it compiles, which is reported on its own.
    """
    game = payoff_game(FAMILY, *parse_size(size), seed=seed)
    evaluate = jax.jit(lambda game, action: game.payoff(action))

    def pay(action: Action) -> float:
        return float(evaluate(game, np.asarray(action, np.int32)))

    runs = {
        "nonuct": lambda: time_nonuct(game, evaluations, 1, pay),
        "nonuct, batch": lambda: time_nonuct(game, evaluations, batch, pay),
        "tpe": lambda: time_tpe(game, evaluations, 1, pay),
        "tpe, batch": lambda: time_tpe(game, evaluations, batch, pay),
    }
    first = {name: run() for name, run in runs.items() if name.startswith("nonuct")}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(alternations):
        for name, run in runs.items():
            seconds[name].append(run())
    rows = []
    for name, taken in seconds.items():
        each = float(np.median(taken)) / evaluations
        rival = float(np.median(seconds["tpe, batch" if "batch" in name else "tpe"])) / evaluations
        rows.append(
            {
                "method": name,
                "batch": batch if "batch" in name else 1,
                "milliseconds_per_ask": 1e3 * each,
                "times_faster_than_tpe": rival / each,
                "seconds_to_compile_once": first[name] - float(np.median(taken)) if name in first else None,
            }
        )
    return rows


def time_run(batch: int, evaluations: int, ask: Ask, pay: Pay, tell: Tell) -> float:
    """Seconds spent asking and telling, not evaluating, in one run."""
    spent, done = 0.0, 0
    while done < evaluations:
        start = time.perf_counter()
        asked = ask(min(batch, evaluations - done))
        spent += time.perf_counter() - start
        values = [pay(action) for _, action in asked]
        start = time.perf_counter()
        for (ticket, _), value in zip(asked, values, strict=True):
            tell(ticket, value)
        spent += time.perf_counter() - start
        done += len(asked)
    return spent


def time_nonuct(game: PayoffGame, evaluations: int, batch: int, pay: Pay) -> float:
    """One run of NonUCT."""
    optimizer = nonuct(game.num_agents, game.num_actions, seed=0)
    return time_run(batch, evaluations, lambda n: [(a, a) for a in optimizer.ask(n)], pay, optimizer.tell)


def time_tpe(game: PayoffGame, evaluations: int, batch: int, pay: Pay) -> float:
    """One run of TPE; `constant_liar` is its own setting for batches."""
    optuna = imported("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=0, constant_liar=batch > 1)
    study = optuna.create_study(direction="maximize", sampler=sampler)

    def suggest(trial: Any) -> Action:
        choices = range(game.num_actions)
        return tuple(trial.suggest_categorical(f"a{i}", choices) for i in range(game.num_agents))

    def ask(count: int) -> list[tuple[Any, Action]]:
        trials = [study.ask() for _ in range(count)]
        return [(trial, suggest(trial)) for trial in trials]

    return time_run(batch, evaluations, ask, pay, study.tell)
