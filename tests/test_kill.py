"""Training killed at random moments goes on to what it would have been, bit for bit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from nonzero.experiments.config import read_config
from nonzero.experiments.runs import make_learner
from nonzero.training.checkpoint import Checkpoints, named_arrays
from nonzero.training.train import new_state

KILLS = 20
STEPS = 1000
WORDS = (
    *("train", "matgame/linear-2x3", "--steps", str(STEPS)),
    *("--report-every", "10", "--checkpoint-every", "10", "--evaluate-every", "200", "--episodes", "2"),
    *("--model.width", "8", "--model.representation-layers", "8", "--model.dynamics-layers", "8"),
    *("--model.head-layers", "8", "--model.projection-layers", "8", "--model.bins", "9"),
    *("--search.simulations", "3", "--optimiser.batch", "4", "--collect.replay-steps", "1000"),
)


def start(folder: Path, *, resume: bool) -> subprocess.Popen:
    words = [sys.executable, "-m", "nonzero.cli.main", *WORDS, "--out", str(folder)]
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder.parent / "cache")}
    return subprocess.Popen(
        [*words, "--resume"] if resume else words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def arrays_of(folder: Path) -> tuple[int, dict]:
    learner = make_learner(read_config(folder / "config.toml"))
    blank = jax.eval_shape(lambda: new_state(learner, jax.random.key(0)))
    state, _ = Checkpoints(folder / "checkpoints").restore(blank)
    return int(state.steps), named_arrays(state)


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path) -> None:
    whole = start(tmp_path / "whole", resume=False)
    said = whole.communicate()[0]
    assert whole.returncode == 0, said
    chance = random.Random(0)
    killed, is_over = 0, False
    while not is_over:
        run = start(tmp_path / "run", resume=(tmp_path / "run" / "config.toml").exists())
        if killed < KILLS:
            wait_for_work(run, tmp_path / "run")
            time.sleep(chance.uniform(0.0, 0.5))  # a save takes a third of a second
            run.send_signal(signal.SIGKILL)
            killed += run.wait() == -signal.SIGKILL
        said = run.communicate()[0]
        is_over = run.returncode == 0
        assert run.returncode in (0, -signal.SIGKILL), said
    (steps, expected), (reached, found) = arrays_of(tmp_path / "whole"), arrays_of(tmp_path / "run")
    assert steps == reached == STEPS
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    assert killed == KILLS


def wait_for_work(run: subprocess.Popen, folder: Path) -> None:
    """Wait until something new was saved, or the run ended."""
    before = newest(folder)
    while run.poll() is None and newest(folder) == before:
        time.sleep(0.02)


def newest(folder: Path) -> int:
    """The newest checkpoint that is there, whole or not."""
    names = [path.name for path in (folder / "checkpoints").glob("*")]
    return max((int(name) for name in names if name.isdigit()), default=-1)
