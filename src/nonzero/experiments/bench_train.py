"""How fast training is, and where its time goes: search, updates, environment, replay, Python.

A run is made in full and timed from outside; its parts are then timed alone, on the state that the run ended
with, and weighed by how often a step of all environments needs them.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from nonzero.experiments.config import RunConfig
from nonzero.experiments.runs import Run, Schedule
from nonzero.training.replay import add, sample
from nonzero.training.rollout import Step, collect, plan
from nonzero.training.train import Learner, TrainState, draw_batches, player, update

REPEATS = 5
PARTS = ("search", "update", "environment", "replay")


def bench_train(
    config: RunConfig, report: Callable[[str], None] = lambda what: None
) -> list[dict[str, object]]:
    """The row of one configuration."""
    with tempfile.TemporaryDirectory() as folder:
        report("compiling")
        chosen = config.settings.collect
        warm = replace(config, steps=chosen.first_steps + 2 * chosen.environments)
        made(warm, Path(folder) / "warm")
        report(f"{config.algo} on {config.env}")
        began = time.perf_counter()
        run = made(config, Path(folder) / "run")
        seconds = time.perf_counter() - began
    steps, updates = run.steps, int(run.state.updates)
    report("search, updates, environment and replay alone")
    rounds = steps / chosen.environments
    alone = {name: rounds * spent for name, spent in parts(run.learner, run.state).items()}
    row: dict[str, object] = {"environment": config.env, "algorithm": config.algo, "steps": steps}
    row |= {
        "seconds": seconds,
        "environment_steps_per_second": steps / seconds,
        "updates_per_second": updates / seconds,
    }
    row |= {f"{name}_share": alone[name] / seconds for name in PARTS}
    row["python_share"] = (seconds - run.seconds) / seconds
    return [row]


def made(config: RunConfig, folder: Path) -> Run:
    """The finished run; evaluations, which are no part of learning, are left out."""
    never = config.steps + 1
    run = Run(config, folder, Schedule(checkpoint_every=never, episodes=0), resume=False)
    if not run.train():
        raise KeyboardInterrupt
    return run


def parts(learner: Learner, state: TrainState) -> dict[str, float]:
    """Seconds that one step of all environments, and the updates it calls for, spend on each part."""
    settings, key = learner.settings, jax.random.key(0)
    chosen, target = settings.collect, settings.target
    no_search = replace(learner, settings=replace(settings, target=replace(target, reanalyse_share=0.0)))

    def choose(learner: Learner, state: TrainState) -> Any:
        legal, model = state.play.envs.current.legal, player(learner, state)
        return plan(model, state.play.history, legal, key, learner.rules, settings.search)

    def move(learner: Learner, state: TrainState, actions: Array) -> Any:
        keys = jax.random.split(key, chosen.environments)
        return jax.vmap(learner.env.step)(state.play.envs, actions, keys)

    def store_and_draw(learner: Learner, state: TrainState, step: Step, is_last: Array) -> Any:
        drawn = sample(
            state.replay,
            key,
            learner.round_size * settings.optimiser.batch,
            before=settings.model.history - 1,
            after=target.unroll_steps + target.return_steps,
            exponent=chosen.priority_exponent,
            correction=1.0,
        )
        return add(state.replay, step, is_last), drawn

    def draw(learner: Learner, state: TrainState) -> Any:
        return draw_batches(learner, state, key, jnp.float32(0.0))

    def learn(learner: Learner, state: TrainState, batches: Any) -> Any:
        after = jax.lax.scan(lambda s, drawn: (update(learner, s, *drawn), None), state, batches)[0]
        return after.model, after.optimiser

    def act(learner: Learner, state: TrainState) -> Any:
        model = player(learner, state)
        return collect(learner.env, model, state.play, key, learner.rules, settings.search)

    _, step, finished = eqx.filter_jit(act)(learner, state)
    batches = eqx.filter_jit(draw)(learner, state)
    again = timed(draw, learner, state) - timed(draw, no_search, state)
    return {
        "search": timed(choose, learner, state) + max(0.0, again),
        "update": timed(learn, learner, state, batches),
        "environment": timed(move, learner, state, step.actions),
        "replay": timed(store_and_draw, learner, state, step, finished.is_last),
    }


def timed(work: Callable[..., Any], *given: Any) -> float:
    """Seconds that compiled work takes, the median of a few times."""
    compiled = eqx.filter_jit(work)
    jax.block_until_ready(compiled(*given))
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(compiled(*given))
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)
