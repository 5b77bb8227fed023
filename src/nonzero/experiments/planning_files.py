"""The result files of planning: one per environment and method, a row per cell, lists over its episodes."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, is_dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from nonzero.experiments.results import read_results, write_results
from nonzero.search import preset

BASE, MCTX = "base", "mctx"
"""Methods that are no preset of the search: the base policy alone, and mctx."""


@dataclass(frozen=True)
class Model:
    """How the environment serves as a model."""

    base_policy: str | None
    uniform_share: float = 0.25
    rollout_steps: int | None = None


@dataclass(frozen=True)
class Cell:
    """What one row of a file measures; `base` neither simulates nor chooses among candidates."""

    environment: str
    method: str
    simulations: int
    candidates: int


EPISODIC = ("seeds", "returns", "won", "lengths", "optima")


def file_of(folder: Path, environment: str, method: str) -> Path:
    """Where the rows of an environment and a method are."""
    return folder / f"{environment.replace('/', '-')}-{method}.json"


def settings_of(environment: str, method: str, model: Model) -> dict[str, Any]:
    """What must agree for rows to go into one file."""
    settings = {"environment": environment, "method": method, "model": asdict(model)}
    if method not in (BASE, MCTX):
        settings["rules"] = described(preset(method))
    return settings


def described(rules: Any) -> Any:
    """All that rules are, as plain names and numbers: a default may change, and rows with it."""
    if is_dataclass(rules) and not isinstance(rules, type):
        parts = {field.name: described(getattr(rules, field.name)) for field in fields(rules)}
        return {"is": type(rules).__name__} | parts
    is_number = isinstance(rules, (int, float)) and isfinite(rules)
    return rules if rules is None or isinstance(rules, str) or is_number else str(rules)


def rows_in(folder: Path, environment: str, method: str, model: Model) -> list[dict[str, Any]]:
    """The rows of an environment and a method that were measured with this model."""
    path = file_of(folder, environment, method)
    if not path.exists():
        return []
    document = read_results(path)
    wanted = settings_of(environment, method, model)
    if document["settings"] != wanted:
        raise ValueError(f"{path} was measured with other settings, {document['settings']}: remove it")
    return document["rows"]


def is_row_of(cell: Cell, row: dict[str, Any]) -> bool:
    """Whether a row is of this cell."""
    return (row["simulations"], row["candidates"]) == (cell.simulations, cell.candidates)


def missing_seeds(folder: Path, cell: Cell, model: Model, seeds: Iterable[int]) -> list[int]:
    """Those of the seeds that a cell has not played."""
    rows = rows_in(folder, cell.environment, cell.method, model)
    played = {seed for row in rows if is_row_of(cell, row) for seed in row["seeds"]}
    return [seed for seed in seeds if seed not in played]


def save(folder: Path, cell: Cell, model: Model, row: dict[str, Any]) -> None:
    """Add a row, or its episodes to the row of the same cell."""
    rows = rows_in(folder, cell.environment, cell.method, model)
    old = next((other for other in rows if is_row_of(cell, other)), None)
    if old is not None:
        row = row | {name: old[name] + row[name] for name in EPISODIC if name in row}
    rows = sorted(
        [other for other in rows if other is not old] + [row],
        key=lambda r: (r["simulations"], r["candidates"]),
    )
    write_results(
        file_of(folder, cell.environment, cell.method),
        rows,
        settings_of(cell.environment, cell.method, model),
    )
