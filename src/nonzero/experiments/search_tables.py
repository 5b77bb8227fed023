"""Tables of the search's speed, made from the rows of its result file."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from nonzero.experiments.bench_planners import BOUND, PEER
from nonzero.experiments.tables import markdown_table

Row = Mapping[str, Any]
START = ("seconds_to_first", "seconds_to_first_cached", "peak_process_megabytes")


def search_markdown(rows: Sequence[Row]) -> str:
    """All tables as one document; those without rows are left out."""
    tables = (
        (
            "Simulations a second",
            "All roots together; K candidates a node, one network for all. In brackets: how many times as "
            f"fast as {PEER}, and the share of what the network alone reaches, which is the bound.",
            speed_rows(rows),
        ),
        (
            "Long searches",
            "Time per simulation in a long search divided by that in a short one, both in times of the "
            "network alone, measured beside them.",
            growth_rows(rows),
        ),
        (
            "Memory",
            "Megabytes that one call holds at most (arguments, result and everything between), by K.",
            memory_rows(rows),
        ),
        (
            "Start",
            "Seconds from the start of a process to the result of its first search, when nothing is compiled "
            "and when the compilation cache knows it; and the most memory that the process ever held.",
            start_rows(rows),
        ),
    )
    parts = ["# Speed of the search\n", "Made by `nonzero bench search` from the result file beside it.\n"]
    for title, text, table in tables:
        if table:
            parts += [f"## {title}\n", f"{text}\n", markdown_table(table)]
    return "\n".join(parts)


def grouped(rows: Sequence[Row], *names: str) -> Iterator[tuple[tuple, list[Row]]]:
    """The rows that agree in some columns, in order."""

    def key(row: Row) -> tuple:
        return tuple(row[name] for name in names)

    return ((found, list(group)) for found, group in groupby(sorted(rows, key=key), key=key))


def where(agents: int, actions: int, batch: int, **rest: object) -> dict[str, object]:
    """The first columns of every table."""
    return {"agents x actions": f"{agents}x{actions}", "batch": batch, **rest}


def speed_rows(rows: Sequence[Row]) -> list[dict[str, object]]:
    """A row per setting, a column per method."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    table = []
    for sizes, group in grouped(rows, "agents", "actions", "batch", "simulations", "candidates"):
        by_method = {row["method"]: cell(row) for row in group}
        found = {method: by_method.get(method, "") for method in methods}
        table.append(where(*sizes[:3], simulations=sizes[3], K=sizes[4], **found))
    return table


def cell(row: Row) -> str:
    """A speed, and how it compares."""
    against = []
    if row["method"] not in (PEER, BOUND):
        against += [f"{row['times_mctx']:.2f} ×"] if row["times_mctx"] is not None else []
        against += [f"{row['share_of_network']:.0%}"] if row["share_of_network"] is not None else []
    speed = f"{row['simulations_per_second']:,.0f}"
    return f"{speed} ({', '.join(against)})" if against else speed


def growth_rows(rows: Sequence[Row]) -> list[dict[str, object]]:
    """A row per setting and method that was measured at several numbers of simulations."""
    table = []
    known = [row for row in rows if row["share_of_network"] is not None]
    for sizes, group in grouped(known, "agents", "actions", "batch", "candidates", "method"):
        short = min(group, key=lambda row: row["simulations"])
        long = max(group, key=lambda row: row["simulations"])
        if short is not long:
            times = short["share_of_network"] / long["share_of_network"]
            lengths = f"{long['simulations']} : {short['simulations']}"
            table.append(where(*sizes[:3], method=sizes[4], simulations=lengths, times=times))
    return table


def memory_rows(rows: Sequence[Row]) -> list[dict[str, object]]:
    """A row per setting and method that was measured at several K, a column per K."""
    several = {row["candidates"] for row in rows}
    table = []
    for sizes, group in grouped(rows, "agents", "actions", "batch", "simulations", "method"):
        group.sort(key=lambda row: row["candidates"])
        by_k = {f"K = {row['candidates']}": row["megabytes"] for row in group}
        if len(by_k) > 1 or len(several) == 1:
            table.append(where(*sizes[:3], simulations=sizes[3], method=sizes[4], **by_k))
    return table


def start_rows(rows: Sequence[Row]) -> list[dict[str, object]]:
    """A row per setting and method that was started in fresh processes."""
    return [
        where(
            row["agents"], row["actions"], row["batch"], simulations=row["simulations"], K=row["candidates"]
        )
        | {"method": row["method"]}
        | {name: row[name] for name in START}
        for row in rows
        if START[0] in row
    ]


def short_rows(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The rows under short names, for a terminal."""
    short = {
        "batch": "batch",
        "simulations": "S",
        "candidates": "K",
        "method": "method",
        "simulations_per_second": "per second",
        "times_mctx": f"/ {PEER}",
        "share_of_network": f"/ {BOUND}",
        "megabytes": "MB",
    }
    return [
        {"size": f"{row['agents']}x{row['actions']}", **{short[name]: row[name] for name in short}}
        for row in rows
    ]
