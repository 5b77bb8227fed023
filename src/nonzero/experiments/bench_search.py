"""How many simulations a second the search makes, beside mctx and beside the network alone, in what memory.

The methods alternate within a run, so that whatever else the machine does hits all of them.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import jax

from nonzero.experiments.bench_planners import BOUND, PEER, Setting, arguments, check_method, planner
from nonzero.experiments.bench_start import measure_start
from nonzero.experiments.bench_surrogate import parse_size
from nonzero.experiments.results import commit, read_results

SIZES = ("3x9", "8x14", "27x36")
BATCHES = (1, 32, 256)
METHODS = ("mazero", PEER, BOUND)
Row = dict[str, object]


@dataclass(frozen=True)
class SearchBench:
    """What to measure: every method in every setting, `alternations` times for about `seconds`."""

    sizes: tuple[str, ...] = SIZES
    batches: tuple[int, ...] = BATCHES
    simulations: tuple[int, ...] = (100,)
    candidates: tuple[int, ...] = (7,)
    methods: tuple[str, ...] = METHODS
    alternations: int = 5
    seconds: float = 1.0
    fresh: bool = False
    """Also start fresh processes, for the time to a first search and the memory of a whole process."""

    def __post_init__(self) -> None:
        """Refuse what cannot be measured before anything is."""
        for name in ("batches", "simulations", "candidates"):
            for number in getattr(self, name):
                if number < 1:
                    raise ValueError(f"{name} must be at least 1, not {number}")
        if self.alternations < 1 or self.seconds <= 0:
            given = f"{self.alternations} and {self.seconds}"
            raise ValueError(f"alternations and seconds must be positive, not {given}")
        for size in self.sizes:
            parse_size(size)
        for method in self.methods:
            check_method(method)

    def care(self) -> dict[str, object]:
        """What does not stand in the rows themselves: how carefully they were measured."""
        return {"alternations": self.alternations, "seconds": self.seconds}

    def settings(self) -> Iterator[Setting]:
        """Every setting."""
        for size, *numbers in product(self.sizes, self.batches, self.simulations, self.candidates):
            yield Setting(*parse_size(size), *numbers)


def bench_search(bench: SearchBench) -> list[Row]:
    """Measure with a progress bar; a row per setting and method."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<40}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    settings = list(bench.settings())
    rows: list[Row] = []
    # No refreshing from another thread: it would be measured too.
    with Progress(*columns, auto_refresh=False, transient=True) as progress:
        bar = progress.add_task("search", total=len(settings) * len(bench.methods) * (1 + bench.fresh))
        for setting in settings:

            def report(what: str, setting: Setting = setting, done: int = 1) -> None:
                where = f"{setting.agents}x{setting.actions} batch {setting.batch} {what}"
                progress.update(bar, description=where, advance=done, refresh=True)

            rows += measure(setting, bench, report)
    return rows


def measure(setting: Setting, bench: SearchBench, report: Callable[..., None]) -> list[Row]:
    """The rows of one setting: the median of each method's turns, and of its ratios to the others."""
    runs, megabytes = {}, {}
    for method in bench.methods:
        report(f"compiling {method}", done=0)
        runs[method], megabytes[method] = compiled(method, setting)
        report(method)
    repeats = {method: max(1, round(bench.seconds / timed(run, 1))) for method, run in runs.items()}
    speeds: dict[str, list[float]] = {method: [] for method in runs}
    for _ in range(bench.alternations):
        for method, run in runs.items():
            work = setting.batch * setting.simulations * repeats[method]
            speeds[method].append(work / timed(run, repeats[method]))
    rows: list[Row] = []
    for method in runs:
        row = vars(setting) | {
            "method": method,
            "simulations_per_second": statistics.median(speeds[method]),
            "times_mctx": ratio(speeds, method, PEER),
            "share_of_network": ratio(speeds, method, BOUND),
            "megabytes": megabytes[method],
        }
        if bench.fresh:
            report(f"starting {method}", done=0)
            row |= measure_start(method, setting)
            report(method)
        rows.append(row)
    return rows


def compiled(method: str, setting: Setting) -> tuple[Callable[[int], Any], float]:
    """A function of a seed that plans once and waits, run once; and the megabytes that one call holds."""
    known = arguments(setting)
    plan = jax.jit(planner(method, setting)).lower(*known, jax.random.key(0)).compile()

    def run(seed: int) -> None:
        jax.block_until_ready(plan(*known, jax.random.key(seed)))

    run(0)
    held: Any = plan.memory_analysis()
    parts = (held.argument_size_in_bytes, held.output_size_in_bytes, held.temp_size_in_bytes)
    return run, sum(parts) / 1e6


def timed(run: Callable[[int], Any], repeats: int) -> float:
    """Seconds that `repeats` runs take."""
    start = time.perf_counter()
    for seed in range(repeats):
        run(seed)
    return time.perf_counter() - start


def ratio(speeds: dict[str, list[float]], method: str, other: str) -> float | None:
    """How many times faster than another method, neighbouring turns compared; nothing beside itself."""
    if other not in speeds or method == other:
        return None
    pairs = zip(speeds[method], speeds[other], strict=True)
    return statistics.median(own / theirs for own, theirs in pairs)


def check_addable(bench: SearchBench, path: Path) -> None:
    """Refuse to add rows to a file whose rows were measured in another way."""
    if path.exists() and (found := read_results(path)["settings"]) != bench.care():
        raise ValueError(f"{path} was measured with other settings, {found}: use them or another file")


def added(rows: Sequence[Row], path: Path) -> list[Row]:
    """The rows of a result file, those measured again replaced, then the new ones.

    A file names one commit, that of its last rows; a row that was measured at another one names it itself.
    """
    if not path.exists():
        return list(rows)
    document, now = read_results(path), commit()

    def cell(row: Row) -> tuple:
        return (*(row.get(name) for name in Setting.__dataclass_fields__), row.get("method"))

    again = {cell(row) for row in rows}
    kept = []
    for row in document["rows"]:
        if cell(row) not in again:
            then = row.pop("commit", document["commit"])
            kept.append(row if then == now else row | {"commit": then})
    return [*kept, *rows]
