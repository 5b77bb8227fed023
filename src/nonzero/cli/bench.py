"""`nonzero bench …`: measure speed."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from nonzero.cli.measure import JsonPath, Row, measure


@dataclass(frozen=True)
class BenchEnvs:
    """Measure the environments' steps per second with random legal actions."""

    envs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Environments to measure; by default a choice of those that are usable."""
    alternations: int = 5
    """How many times each is measured, in turn; the median counts."""
    seconds: float = 0.5
    """How long each measurement lasts."""
    json: JsonPath = None
    """Write the rows, with settings and versions, to this file."""

    def run(self) -> None:
        """Measure, print, write."""
        settings = {"envs": self.envs, "alternations": self.alternations, "seconds": self.seconds}
        measure(self.rows, self.json, settings)

    def rows(self) -> Sequence[Row]:
        """Measure."""
        from nonzero.experiments.bench_envs import bench_envs

        return bench_envs(self.envs, alternations=self.alternations, seconds=self.seconds)


@dataclass(frozen=True)
class BenchSurrogate:
    """Play the payoff suite: NonUCT and what one would pick instead, on games of hidden structure.

    Takes about an hour; what the result files hold already is not measured again.
    """

    families: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Payoff families; by default all seven."""
    sizes: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NxD ...", help_behavior_hint="")] = ()
    """Agents and actions; by default 6x8, 8x10 and 20x10."""
    methods: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Methods; by default all."""
    seeds: int = 10
    """Games per cell."""
    slow_seeds: int = 5
    """Games per cell of the methods that are slow (and get 600 evaluations)."""
    first_seed: int = 100
    """Seed of the first game."""
    budget: int = 1500
    """Evaluations per game."""
    out: Path = Path("results/surrogate")
    """Folder of the result files and of the tables made from them."""
    json: JsonPath = None
    """Write the rows of the table at 600 evaluations to this file too."""

    def run(self) -> None:
        """Measure what is missing, then print and write the tables."""
        from nonzero.experiments.bench_surrogate import chosen_suite, measure_suite
        from nonzero.experiments.surrogate_tables import suite_markdown, suite_rows

        suite = chosen_suite(
            families=self.families,
            sizes=self.sizes,
            methods=self.methods,
            seeds=self.seeds,
            slow_seeds=self.slow_seeds,
            first_seed=self.first_seed,
            budget=self.budget,
        )

        def rows() -> Sequence[Row]:
            measure_suite(suite, self.out)
            (self.out / "tables.md").write_text(suite_markdown(suite, self.out), encoding="utf-8")
            return suite_rows(suite, self.out, min(600, self.budget))

        measure(rows, self.json, asdict(suite))


@dataclass(frozen=True)
class BenchAsks:
    """Measure how long NonUCT takes to choose the next joint action, beside Optuna's TPE."""

    size: Annotated[str, tyro.conf.arg(metavar="NxD", help_behavior_hint="")] = "8x10"
    """Agents and actions."""
    evaluations: int = 600
    """Joint actions asked for in a run."""
    batch: int = 16
    """How many are asked for at once in the batched runs."""
    alternations: int = 3
    """Runs of each, in turn; the median counts."""
    json: JsonPath = None
    """Write the rows, with settings and versions, to this file."""

    def run(self) -> None:
        """Measure, print, write."""
        settings = {"size": self.size, "evaluations": self.evaluations, "batch": self.batch}
        measure(self.rows, self.json, {**settings, "alternations": self.alternations})

    def rows(self) -> Sequence[Row]:
        """Measure."""
        from nonzero.experiments.bench_asks import bench_asks

        return bench_asks(
            self.size, evaluations=self.evaluations, batch=self.batch, alternations=self.alternations
        )


Names = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")]
Numbers = Annotated[tuple[int, ...], tyro.conf.arg(metavar="N ...")]


@dataclass(frozen=True)
class BenchSearch:
    """Measure the search's simulations per second beside mctx and the network alone, and its memory.

    All use the same network, of MAZero's size; the network alone is the bound. Takes about five minutes.
    """

    sizes: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NxD ...", help_behavior_hint="")] = ()
    """Agents and actions; by default 3x9, 8x14 and 27x36."""
    batches: Numbers = (1, 32, 256)
    """Roots searched side by side."""
    simulations: Numbers = (100,)
    """Simulations a search."""
    candidates: Numbers = (7,)
    """Joint actions a node looks at, K."""
    methods: Names = ()
    """Search presets, mctx, network; by default mazero, mctx and network."""
    alternations: int = 5
    """Turns of each method; the median counts."""
    seconds: float = 1.0
    """How long a turn lasts, about."""
    fresh: bool = False
    """Also start fresh processes: seconds to a first search, without and with a filled compilation cache, and
    the most memory that a whole process holds."""
    add: bool = False
    """Keep the rows that FILE has of other cells; without it the file is written anew."""
    table: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Write the rows as markdown tables to this file too."""
    json: JsonPath = None
    """Write the rows, with settings and versions, to this file."""

    def run(self) -> None:
        """Measure, print, write."""
        from nonzero.experiments.bench_search import (
            METHODS,
            SIZES,
            SearchBench,
            added,
            bench_search,
            check_addable,
        )
        from nonzero.experiments.results import check_writable
        from nonzero.experiments.search_tables import search_markdown, short_rows

        bench = SearchBench(
            self.sizes or SIZES,
            self.batches,
            self.simulations,
            self.candidates,
            self.methods or METHODS,
            self.alternations,
            self.seconds,
            self.fresh,
        )
        if self.add and self.json is not None:
            check_addable(bench, self.json)
        if self.table is not None:
            check_writable(self.table)

        def rows() -> Sequence[Row]:
            found = bench_search(bench)
            found = added(found, self.json) if self.add and self.json is not None else found
            if self.table is not None:
                self.table.write_text(search_markdown(found), encoding="utf-8")
            return found

        measure(rows, self.json, bench.care(), shown=short_rows)


@dataclass(frozen=True)
class BenchTrain:
    """Measure the speed of training, and where the time goes.

    Shares are of search, updates, environment, replay, and Python with logging. Takes a few minutes.
    """

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV", help_behavior_hint="")] = (
        "matgame/linear-8x10"
    )
    """Environment to train on."""
    algo: str = "nonzero"
    """Search preset."""
    steps: int = 2000
    """Environment steps, and as many updates."""
    preset: Literal["default", "paper"] = "default"
    """Settings of the run."""
    json: JsonPath = None
    """Write the row, with settings and versions, to this file."""

    def run(self) -> None:
        """Measure, print, write."""
        measure(self.rows, self.json, {"preset": self.preset}, self.shown)

    def shown(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows with names that fit a terminal: speeds, and shares of the time."""
        names = {"environment_steps_per_second": "steps/s", "updates_per_second": "updates/s"}
        kept = ("seconds", *names, *(name for name in rows[0] if name.endswith("_share")))
        return [{names.get(name, name.removesuffix("_share")): row[name] for name in kept} for row in rows]

    def rows(self) -> Sequence[Row]:
        """Measure with a line on what is being done."""
        from rich.console import Console

        from nonzero.experiments.bench_train import bench_train
        from nonzero.experiments.config import RunConfig, load_preset

        config = RunConfig(self.env, self.algo, self.steps, 0, load_preset(self.preset))
        with Console(stderr=True).status("") as status:
            return bench_train(config, status.update)
