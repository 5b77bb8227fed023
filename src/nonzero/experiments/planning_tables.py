"""Tables of planning without training, made from its result files alone."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nonzero.evaluation.statistics import bootstrap_interval
from nonzero.experiments.planning_files import BASE
from nonzero.experiments.results import read_results
from nonzero.experiments.surrogate_tables import verdict
from nonzero.experiments.tables import markdown_table

OURS = "nonzero"
BySeed = dict[int, float]
MEASURES = {
    "share": "Share of the optimal return in payoff games (a star: of the best return that any cell found)",
    "won": "Share of battles won",
    "returned": "Return of battles",
}


@dataclass(frozen=True)
class Record:
    """A cell's episodes by seed."""

    environment: str
    method: str
    simulations: int
    candidates: int
    model_evaluations: int
    returned: BySeed
    won: dict[int, int]
    optimum: dict[int, float | None]

    @property
    def is_game(self) -> bool:
        """Whether it is a payoff game, measured by its share of the optimum."""
        return bool(self.optimum)


def read_records(folder: Path) -> list[Record]:
    """Everything that the files of a folder hold."""
    records = []
    for path in sorted(folder.glob("*.json")):
        document = read_results(path)
        settings = document["settings"]
        for row in document["rows"]:
            seeds = row["seeds"]
            numbers = (row[name] for name in ("simulations", "candidates", "model_evaluations"))
            lists = (row["returns"], row["won"], row.get("optima", []))
            records.append(
                Record(
                    settings["environment"],
                    settings["method"],
                    *numbers,
                    *(dict(zip(seeds, values, strict=False)) for values in lists),
                )
            )
    return records


def values_of(record: Record, measure: str, best: BySeed) -> BySeed:
    """What a measure says of a cell's episodes; `best` is what a game's return is a share of."""
    if measure == "share":
        return {seed: value / best[seed] for seed, value in record.returned.items()}
    return {seed: float(value) for seed, value in getattr(record, measure).items()}


def best_returns(records: Sequence[Record]) -> BySeed:
    """Of the records of one payoff game: the optimum or, where it is unknown, the best return found."""
    best: BySeed = {}
    for record in records:
        for seed, value in record.returned.items():
            known = record.optimum[seed]
            best[seed] = max(best.get(seed, value), value) if known is None else known
    return best


def pick(records: Sequence[Record], budget: int, candidates: int, is_by_evaluations: bool) -> list[Record]:
    """Of each method the cell with that budget: of simulations, or at most so many model evaluations."""
    chosen: dict[str, Record] = {}
    for record in sorted(records, key=lambda r: r.model_evaluations):
        fits = record.model_evaluations <= budget if is_by_evaluations else record.simulations == budget
        if record.method == BASE or (fits and record.candidates == candidates):
            chosen[record.method] = record
    return [chosen[name] for name in sorted(chosen, key=lambda name: (name != OURS, name == BASE, name))]


def planning_rows(
    records: Sequence[Record], measure: str, *, is_by_evaluations: bool
) -> list[dict[str, object]]:
    """A row per environment, budget and K: each method's mean with its interval, and how `nonzero` fares."""
    by_environment: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.is_game == (measure == "share"):
            by_environment[record.environment].append(record)
    budget_name = "model evaluations" if is_by_evaluations else "simulations"
    rows = []
    for environment, own in by_environment.items():
        best = best_returns(own) if measure == "share" else {}
        star = " *" if measure == "share" and None in own[0].optimum.values() else ""
        planned = [record for record in own if record.method != BASE]
        for candidates in sorted({record.candidates for record in planned}):
            for budget in sorted({record.simulations for record in planned}):
                values = {
                    record.method: values_of(record, measure, best)
                    for record in pick(own, budget, candidates, is_by_evaluations)
                }
                row: dict[str, object] = {
                    "environment": environment + star,
                    budget_name: budget,
                    "K": candidates,
                }
                row |= {name: interval(list(by_seed.values())) for name, by_seed in values.items()}
                rows.append(row | {f"{OURS} against the best": verdict(values, OURS)})
    return with_verdict_last(rows)


def interval(values: Sequence[float]) -> str:
    """A mean with its bootstrap interval."""
    mean, low, high = bootstrap_interval(values)
    return f"{mean:.3f} [{low:.2f}, {high:.2f}]"


def with_verdict_last(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Rows with the same columns in the same order, whichever methods a row has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    names.sort(key=lambda name: (name.startswith(f"{OURS} "), name == BASE))
    return [{name: row.get(name, "") for name in names} for row in rows]


def planning_markdown(folder: Path) -> str:
    """All tables as one document."""
    records = read_records(folder)
    count = sorted({len(record.returned) for record in records})
    parts = [
        "# Planning without training\n",
        "The environment is the model. In battles SMAX's own heuristic is the prior, mixed with uniform "
        "play, and rolled out to the end of the episode gives leaf values; payoff games are planned with a "
        "uniform prior and leaves worth nothing. Mean and 95 % bootstrap interval over episodes "
        f"({' or '.join(map(str, count))} a cell, the same seeds for all methods). `base` is the heuristic, "
        "or uniform play, alone. The last column compares nonzero with the best other method, episode by "
        "episode.\n",
    ]
    for is_by_evaluations in (False, True):
        title = (
            "model evaluations: the most simulations that do not need more"
            if is_by_evaluations
            else "simulations"
        )
        parts.append(f"## At equal {title}\n")
        for measure, meaning in MEASURES.items():
            rows = planning_rows(records, measure, is_by_evaluations=is_by_evaluations)
            if rows:
                parts += [f"### {meaning}\n", markdown_table(rows)]
    return "\n".join(parts)
