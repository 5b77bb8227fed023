"""A learner so small that it compiles in seconds, shared by the tests of training."""

from dataclasses import replace
from functools import cache

import jax.numpy as jnp

from nonzero.experiments.config import RunConfig
from nonzero.experiments.runs import make_learner
from nonzero.model.settings import ModelSettings
from nonzero.training.settings import (
    CollectSettings,
    OptimiserSettings,
    SearchSettings,
    Settings,
    TargetSettings,
)
from nonzero.training.train import Learner, TrainState, Work, advance

TINY = Settings(
    model=ModelSettings(
        history=2,
        width=8,
        representation_layers=(),
        dynamics_layers=(),
        head_layers=(8,),
        mixing_layers=(8,),
        projection_layers=(8,),
        attention_heads=2,
        bins=9,
        rank=2,
    ),
    search=SearchSettings(simulations=3, candidates=2),
    collect=CollectSettings(environments=2, first_steps=20, replay_steps=200),
    target=TargetSettings(unroll_steps=2, return_steps=2, reanalyse_share=0.5, target_interval=4),
    optimiser=OptimiserSettings(batch=4, learning_rate=1e-3),
)
CONFIG = RunConfig("matgame/linear-2x3", "mazero", 60, 0, TINY)


@cache
def tiny_learner(algo: str = "mazero") -> Learner:
    """The learner of CONFIG with the search `algo`."""
    return make_learner(replace(CONFIG, algo=algo))


def go(state: TrainState, collections: int, rounds: int, repeats: int, algo: str = "mazero") -> TrainState:
    """`advance`, which donates the state."""
    work = Work(jnp.float32(60), jnp.int32(collections), jnp.int32(rounds), jnp.int32(repeats))
    return advance((tiny_learner(algo), work), state)


def longer(steps: int) -> RunConfig:
    """CONFIG for another number of steps."""
    return replace(CONFIG, steps=steps)
