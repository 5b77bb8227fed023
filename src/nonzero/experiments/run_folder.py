"""The folder of a training run, and the signals that end one: what is refused before work could be lost."""

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nonzero.experiments.config import RunConfig, difference, read_config
from nonzero.experiments.results import write_whole
from nonzero.training.checkpoint import named_arrays
from nonzero.types import NonZeroError


def prepare_folder(config: RunConfig, folder: Path, *, resume: bool) -> None:
    """Make the folder, or refuse one that holds another run."""
    path = folder / "config.toml"
    if path.exists():
        if not resume:
            raise NonZeroError(
                f"{folder} holds a run already: --resume goes on with it, --out takes another folder"
            )
        before = replace(read_config(path), steps=config.steps)
        if what := difference(before, config):
            raise NonZeroError(f"{folder} holds another run: {what}")
    elif resume:
        raise NonZeroError(f"there is no run in {folder} to go on with")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / ".writable", "")
        (folder / ".writable").unlink()
    except OSError as error:
        raise NonZeroError(f"cannot write to {folder}: {error.strerror}") from error


def check_space(folder: Path, state: Any) -> None:
    """Refuse to start where the checkpoints would not fit."""
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in named_arrays(state, only_shapes=True).values())
    free = shutil.disk_usage(folder).free
    if free < 5 * size:
        raise NonZeroError(
            f"{folder} has {free / 1e6:.0f} MB left, checkpoints may need {5 * size / 1e6:.0f} MB: "
            "free some, or choose a smaller collect.replay_steps"
        )


def cut_metrics(path: Path, steps: int) -> None:
    """Drop the lines about steps after `steps`, which will be made again."""
    with suppress(FileNotFoundError):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= steps]
        write_whole(path, "".join(kept))


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Within, SIGTERM and Ctrl-C are only noted; a second one stops at once."""
    noted: list[int] = []

    def note(number: int, frame: Any) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    old = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(noted)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
