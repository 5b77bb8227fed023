"""One training run: the loop that advances the learner, and what it writes, until done or told to stop.

The folder holds config.toml, metrics.jsonl, evaluations.json (per episode), checkpoints/ and summary.json.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nonzero.envs.optimum import optimum
from nonzero.envs.registry import make
from nonzero.experiments.config import RunConfig, to_toml
from nonzero.experiments.results import commit, versions, write_whole
from nonzero.experiments.run_folder import check_space, cut_metrics, prepare_folder, stop_signals
from nonzero.search import preset
from nonzero.training.checkpoint import Checkpoints, named_arrays
from nonzero.training.train import Learner, Work, advance, evaluate, new_learner, new_state, new_tally, player
from nonzero.types import NonZeroError

Line = dict[str, int | float]
"""What is reported of a stretch of steps."""
CALL_SECONDS = 2.0
"""About how long one compiled call lasts: what a signal waits for at most."""


@dataclass(frozen=True)
class Schedule:
    """When a run reports, in environment steps."""

    report_every: int = 50
    evaluate_every: int = 250
    checkpoint_every: int = 500
    episodes: int = 32
    """Episodes of an evaluation; with none there are no evaluations."""


class Run:
    """A training run in its folder, new or gone on with."""

    def __init__(self, config: RunConfig, folder: Path, schedule: Schedule, *, resume: bool) -> None:
        config.check()
        self.config, self.folder, self.schedule = config, folder, schedule
        self.learner = make_learner(config)
        self.seconds, self.clipped, self.evaluations = 0.0, 0.0, []
        self.saved = (-1, -1)
        prepare_folder(config, folder, resume=resume)
        self.checkpoints = Checkpoints(folder / "checkpoints")
        blank = jax.eval_shape(lambda: new_state(self.learner, jax.random.key(0)))
        check_space(folder, blank)
        if resume and self.checkpoints.latest() is not None:
            self.state, notes = self.checkpoints.restore(blank)
            self.seconds, self.clipped = notes["seconds"], notes["clipped"]
            self.evaluations = notes["evaluations"]
            self.saved = (self.steps, int(self.state.updates))
        else:
            self.state = new_state(self.learner, jax.random.key(config.seed))
        cut_metrics(folder / "metrics.jsonl", self.steps)
        write_whole(folder / "config.toml", to_toml(config))

    @property
    def steps(self) -> int:
        """Environment steps made."""
        return int(self.state.steps)

    def train(self, report: Callable[[Line], None] = lambda line: None) -> bool:
        """Go on to the end; False if a signal came first. Either way what was done is saved."""
        per_call = 1
        with stop_signals() as is_stopped:
            while not self.is_done() and not is_stopped():
                began = time.perf_counter()
                collections, rounds, repeats = self.next_call()
                total = jnp.float32(self.config.steps * self.config.settings.collect.updates_per_step)
                numbers = (jnp.int32(n) for n in (collections, rounds, min(repeats, per_call)))
                self.state = advance((self.learner, Work(total, *numbers)), self.state)
                self.check_finite()
                took = time.perf_counter() - began
                self.seconds += took
                per_call = max(1, min(4 * per_call, int(CALL_SECONDS / took * min(repeats, per_call))))
                self.keep_books(report)
            self.save()
        done = self.is_done()
        write_whole(self.folder / "summary.json", json.dumps(self.summary(), indent=1) + "\n")
        return done

    def is_done(self) -> bool:
        """Whether all steps were made and learned from."""
        steps = self.steps
        owed = steps * self.config.settings.collect.updates_per_step
        return steps >= self.config.steps and int(self.state.updates) >= owed

    def next_call(self) -> tuple[int, int, int]:
        """Collections, rounds of updates, repeats: first steps, their updates, then both in turn up to what
        is due."""
        chosen = self.config.settings.collect
        steps, updates = self.steps, int(self.state.updates)
        if steps < chosen.first_steps:
            return 1, 0, (chosen.first_steps - steps) // chosen.environments
        if updates < steps * chosen.updates_per_step:
            return 0, 1, (steps * chosen.updates_per_step - updates) // self.learner.round_size
        every = (self.schedule.report_every, self.schedule.evaluate_every, self.schedule.checkpoint_every)
        end = min(self.config.steps, *(steps + interval - steps % interval for interval in every))
        repeats = -(-(end - steps) // chosen.environments)
        return 1, 1, repeats

    def keep_books(self, report: Callable[[Line], None]) -> None:
        """Write metrics, evaluate and save wherever a multiple of an interval was reached."""
        steps, every = self.steps, self.schedule
        if int(self.state.updates) < steps * self.config.settings.collect.updates_per_step:
            return
        is_last = steps >= self.config.steps
        if is_last or self.is_due(every.report_every):
            report(self.write_metrics())
        if every.episodes and (is_last or self.is_due(every.evaluate_every)):
            self.evaluate()
        if not is_last and self.is_due(every.checkpoint_every):
            self.save()

    def is_due(self, interval: int) -> bool:
        """Whether the last collection reached or passed a multiple of `interval`."""
        return self.steps % interval < self.config.settings.collect.environments

    def write_metrics(self) -> Line:
        """Append one line about what happened since the last one."""
        tally = jax.device_get(self.state.tally)
        self.state = eqx.tree_at(lambda s: s.tally, self.state, new_tally())
        line: Line = {
            "step": self.steps,
            "update": int(self.state.updates),
            "seconds": self.seconds,
        }
        if tally.episodes:
            line["return"] = float(tally.returned) / int(tally.episodes)
            line["win_rate"] = float(tally.won) / int(tally.episodes)
        if tally.updates:
            line |= {name: float(total) / int(tally.updates) for name, total in tally.report.items()}
            self.clipped = max(self.clipped, line["clipped"])
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return line

    def evaluate(self) -> None:
        """Play with fixed parameters and note every episode."""
        key = jax.random.fold_in(jax.random.key(self.config.seed + 2**20), self.steps)
        played = evaluate(
            self.learner, player(self.learner, self.state), key, episodes=self.schedule.episodes
        )
        entry = {
            "step": self.steps,
            "update": int(self.state.updates),
            "returns": np.asarray(played.returns).tolist(),
            "won": np.asarray(played.won).tolist(),
        }
        self.evaluations = [*self.evaluations, entry]
        write_whole(self.folder / "evaluations.json", json.dumps(self.evaluations) + "\n")

    def save(self) -> None:
        """Write a checkpoint, unless there is one of just this state."""
        now = (self.steps, int(self.state.updates))
        if self.saved == now:
            return
        if self.saved[0] == now[0]:  # updates that are caught up on make no steps
            self.checkpoints.delete(now[0])
        notes = {"seconds": self.seconds, "clipped": self.clipped, "evaluations": self.evaluations}
        self.checkpoints.save(self.steps, self.state, notes)
        self.saved = now

    def check_finite(self) -> None:
        """Stop with the name of what is no number any more; what was saved before stays."""
        if not bool(self.state.is_broken):
            return
        arrays = named_arrays(self.state.model)
        bad = [name for name, array in arrays.items() if not np.isfinite(array).all()]
        what = f"{bad[0]} and {len(bad) - 1} more tensors are" if bad else "the loss is"
        kept = self.checkpoints.latest()
        advice = (
            f"the checkpoint of step {kept} is kept" if kept is not None else "nothing had been saved yet"
        )
        raise NonZeroError(
            f"{what} not finite after update {int(self.state.updates)} (step {self.steps}); {advice}. "
            "Try a smaller optimiser.learning_rate"
        )

    def summary(self) -> dict[str, Any]:
        """What came of the run."""
        last = self.evaluations[-1] if self.evaluations else {"returns": [], "won": []}
        simulations = (self.steps + self.searched_again()) * self.config.settings.search.simulations
        counterfactuals = self.learner.rules.counterfactuals(self.learner.env.spec.num_agents)
        final = float(np.mean(last["returns"])) if last["returns"] else None
        best = best_return(self.learner)
        return {
            "env": self.config.env,
            "algo": self.config.algo,
            "seed": self.config.seed,
            "is_finished": self.is_done(),
            "final_return": final,
            "optimum": best,
            "share_of_optimum": final / best if final is not None and best else None,
            "win_rate": float(np.mean(last["won"])) if last["won"] else None,
            "environment_steps": self.steps,
            "gradient_updates": int(self.state.updates),
            "simulations": simulations,
            # Each sample of Eq. 7 asks the model for three more joint actions.
            "model_evaluations": simulations * (1 + 3 * counterfactuals),
            "clipped_targets": self.clipped,
            "seconds": self.seconds,
            "versions": versions(),
            "commit": commit(),
        }

    def searched_again(self) -> int:
        """Searches that reanalysis made."""
        settings = self.config.settings
        windows = round(settings.target.reanalyse_share * settings.optimiser.batch)
        return int(self.state.updates) * windows * (settings.target.unroll_steps + 1)


def make_learner(config: RunConfig) -> Learner:
    """The learner that a configuration describes."""
    rules = preset(config.algo)
    env = make(config.env, **config.env_options)
    settings = config.settings
    if not rules.sees_pairs:
        settings = replace(settings, model=replace(settings.model, rank=0))
    return new_learner(env, rules, settings, has_mixing=rules.learns_surrogate)


def best_return(learner: Learner) -> float | None:
    """The largest return of an episode, for games whose optimum is known."""
    game = getattr(learner.game, "game", None)
    best = None if game is None else optimum(game)
    return None if best is None else float(best.value) * learner.env.spec.max_steps
