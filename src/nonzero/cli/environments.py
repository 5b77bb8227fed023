"""`nonzero envs`: the environments that `nonzero.make` knows."""

import difflib
from dataclasses import dataclass
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Envs:
    """List the environments with their sizes, family by family."""

    families: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[FAMILY ...]", help_behavior_hint="")
    ] = ()
    """Families to list; all of them by default."""

    def run(self) -> None:
        """Print one table a family."""
        from rich.console import Console

        from nonzero.cli.catalogue import describe, why_unusable
        from nonzero.envs.registry import FAMILIES
        from nonzero.experiments.tables import rich_table

        known = {family.prefix: family for family in FAMILIES}
        for prefix in self.families:
            if prefix not in known:
                close = difflib.get_close_matches(prefix, known, n=1)
                hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}."
                raise ValueError(f"unknown family '{prefix}': {hint}")
        console = Console()
        for family in [known[prefix] for prefix in self.families] or FAMILIES:
            console.print(f"{family.prefix}: {family.summary}", markup=False, highlight=False)
            reason = why_unusable(family)
            if reason:
                console.print(f"Not usable: {reason}", markup=False, highlight=False)
            console.print(rich_table(describe(family, not reason)))
