"""Rows of results as a table: for the terminal and as markdown."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

Row = Mapping[str, object]


def rich_table(rows: Sequence[Row], title: str | None = None) -> Table:
    """Lay rows out for `rich.console.Console.print`; columns are the keys in order of first appearance."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    names = columns(rows)
    for name in names:
        is_number = all(isinstance(row.get(name, 0), (int, float)) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escaped(text(row.get(name))) for name in names))
    return table


def markdown_table(rows: Sequence[Row]) -> str:
    """Write rows as a markdown table, for documents and pull requests."""
    names = columns(rows)
    lines = [[name.replace("_", " ") for name in names], ["---"] * len(names)]
    lines += [[text(row.get(name)).replace("|", "\\|") for name in names] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def columns(rows: Sequence[Row]) -> list[str]:
    """Every key of any row, in order of first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def text(value: object) -> str:
    """One cell: large numbers with separators, small ones with three digits, nothing as nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def escaped(cell: str) -> str:
    """Keep brackets in a cell from being read as markup."""
    from rich.markup import escape

    return escape(cell)
