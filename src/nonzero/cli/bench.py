"""`nonzero bench …`: measure speed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

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
