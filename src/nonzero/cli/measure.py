"""What every command that measures shares: the `--json` flag, the table, the file of rows."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import tyro

Row = Mapping[str, object]
JsonPath = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]
"""The type of every `--json` flag."""
Names = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...", help_behavior_hint="")]
Numbers = Annotated[tuple[int, ...], tyro.conf.arg(metavar="N ...", help_behavior_hint="")]


def measure(
    work: Callable[[], Sequence[Row]],
    path: Path | None,
    settings: Mapping[str, object],
    shown: Callable[[Sequence[Row]], Sequence[Row]] = lambda rows: rows,
) -> None:
    """Do the work, print its rows as a table and write them, with the settings, where `path` says.

    `shown` makes the printed table of rows that are too wide for one. The path is tried first: nobody should
    measure for minutes and then learn that nothing can be written.
    """
    from rich.console import Console

    from nonzero.experiments.results import check_writable, write_results
    from nonzero.experiments.tables import rich_table

    if path is not None:
        check_writable(path)
    rows = work()
    console = Console()
    console.print(rich_table(shown(rows)))
    if path is not None:
        write_results(path, rows, settings)
        console.print(f"Wrote {path}", markup=False, highlight=False, soft_wrap=True)
