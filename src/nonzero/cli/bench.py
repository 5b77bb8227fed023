"""`nonzero bench …`: measure, print a table, keep the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

JsonPath = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]
"""The type of every `--json` flag."""


@dataclass(frozen=True)
class BenchEnvs:
    """Measure the environments' steps per second with random legal actions."""

    envs: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")] = ()
    """Environments to measure; by default a choice from each usable family."""
    json: JsonPath = None
    """Write the rows, with settings and versions, to this file."""

    def run(self) -> None:
        """Measure, then report."""
        from nonzero.experiments.bench_envs import bench_envs

        rows = bench_envs(self.envs) if self.envs else bench_envs()
        report(rows, asdict(self), self.json)


def report(rows: Sequence[Mapping[str, object]], settings: Mapping[str, object], path: Path | None) -> None:
    """Print measured rows as a table and, where asked for, write them with the settings that made them."""
    from rich.console import Console

    from nonzero.experiments.results import write_results
    from nonzero.experiments.tables import rich_table

    console = Console()
    console.print(rich_table(rows))
    if path is not None:
        write_results(path, rows, {name: value for name, value in settings.items() if name != "json"})
        console.print(f"Wrote {path}", markup=False, highlight=False, soft_wrap=True)
