"""The entry point of `nonzero`: the table of commands, and what happens when one of them fails."""

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from nonzero.cli.bench import BenchAsks, BenchEnvs, BenchSearch, BenchSurrogate, BenchTrain
from nonzero.cli.demo import Demo
from nonzero.cli.doctor import Doctor
from nonzero.cli.environments import Envs
from nonzero.cli.matgame import ReproduceAblation, ReproduceTable1, ReproduceTraps
from nonzero.cli.parse import Group, parse
from nonzero.cli.plan import Plan
from nonzero.cli.reproduce import ReproducePlanning, ReproduceRegret
from nonzero.cli.train import Evaluate, Plot, Train

COMMANDS = Group(
    """Multi-agent tree search that finds coordination.

    --version prints the version; --debug, anywhere, shows an error's traceback.
    """,
    {
        "demo": Demo,
        "plan": Plan,
        "envs": Envs,
        "doctor": Doctor,
        "train": Train,
        "evaluate": Evaluate,
        "plot": Plot,
        "bench": Group(
            "Measure and print a table.",
            {
                "envs": BenchEnvs,
                "surrogate": BenchSurrogate,
                "asks": BenchAsks,
                "search": BenchSearch,
                "train": BenchTrain,
            },
        ),
        "reproduce": Group(
            "Measure again what the documents claim.",
            {
                "regret": ReproduceRegret,
                "planning": ReproducePlanning,
                "table1": ReproduceTable1,
                "traps": ReproduceTraps,
                "ablation": ReproduceAblation,
            },
        ),
    },
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: the process's own) and return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    is_debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        try:
            run(words)
        finally:
            sys.stdout.flush()
    except SystemExit as stop:
        return int(stop.code or 0)
    except BrokenPipeError:
        # The reader (`head`, say) has gone: the interpreter's last flush must not complain about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (KeyboardInterrupt, Exception) as error:
        if is_debug:
            traceback.print_exc()
        print(f"nonzero: {one_line(error, is_debug)}", file=sys.stderr)
        return 130 if isinstance(error, KeyboardInterrupt) else 2
    return 0


def run(words: list[str]) -> None:
    """Do what the words of a command line say.

    What one command compiles is kept for the next: a second start is quick.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nonzero" / "jax"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
    # By default jax leaves out what compiles within a second, of which a command has many.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    if words == ["--version"]:
        from importlib.metadata import version

        print(f"nonzero {version('nonzero-mcts')}")
    else:
        parse(words or ["--help"], COMMANDS).run()


def one_line(error: BaseException, is_debug: bool) -> str:
    """Say in one line what went wrong: the user's mistakes plainly, ours with a way to learn more."""
    from nonzero.types import NonZeroError

    message = " ".join(str(error).split())
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, (NonZeroError, ValueError)) and message:
        return message
    advice = "" if is_debug else "; run again with --debug"
    return f"internal error: {type(error).__name__}{': ' if message else ''}{message}{advice}"


if __name__ == "__main__":
    sys.exit(main())
