"""A training run on the terminal: a bar with speed, time left, return and win rate; TensorBoard's file."""

import importlib
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from nonzero.experiments.runs import Line, Run


def watch(run: Run, console: Console) -> bool:
    """Train `run` under a progress bar; False if a signal stopped it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}"),
    )
    board = tensorboard(run)
    is_warned = False
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(
            run.config.algo, total=run.config.steps, completed=run.steps, said="compiling"
        )

        def report(line: Line) -> None:
            nonlocal is_warned
            progress.update(task, completed=run.steps, said=describe(line))
            if line.get("clipped", 0.0) > 0 and not is_warned:
                is_warned = True
                progress.console.print(
                    f"warning: {line['clipped']:.1%} of the targets lie outside of the environment's "
                    "return_bounds and were clipped"
                )
            if board is not None:
                for name, value in line.items():
                    board.add_scalar(name, value, run.steps)

        is_done = run.train(report)
    if board is not None:
        board.close()
    return is_done


def describe(line: Line) -> str:
    """What to say beside the bar."""
    words = [f"{line['step'] / max(line['seconds'], 1e-9):.1f} steps/s"]
    if "return" in line:
        words += [f"return {line['return']:.4g}", f"won {line['win_rate']:.0%}"]
    return ", ".join(words)


def tensorboard(run: Run) -> Any:
    """A writer of TensorBoard's files, where the package for it is installed."""
    try:
        package: Any = importlib.import_module("tensorboardX")
    except ImportError:
        return None
    return package.SummaryWriter(str(run.folder / "tensorboard"))
