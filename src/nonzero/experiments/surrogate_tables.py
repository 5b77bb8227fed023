"""Tables of the payoff suite, made from its result files."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from nonzero.evaluation.statistics import Interval, bootstrap_interval, paired_difference
from nonzero.experiments.bench_surrogate import CHECKPOINTS, Suite, file_of
from nonzero.experiments.results import read_results
from nonzero.experiments.tables import markdown_table

Shares = Mapping[str, Mapping[int, float]]
"""By method and seed: the best value found as a share of the optimum."""
OURS = "nonuct"
TIE = 0.005
"""A mean share this much lower is still a tie: half a percent of the optimum."""


def shares_at(suite: Suite, folder: Path, size: str, family: str, evaluations: int) -> tuple[Shares, bool]:
    """The shares after so many evaluations, and whether they are of the optimum.

    Where no optimum is known they are of the best value that any method found in that game.
    """
    values: dict[str, dict[int, float]] = defaultdict(dict)
    best: dict[int, float] = defaultdict(lambda: -np.inf)
    is_known = True
    for method in suite.methods:
        path = file_of(folder, size, method)
        for row in read_results(path)["rows"] if path.exists() else []:
            if row["family"] != family:
                continue
            is_known &= row["optimum"] is not None
            seed, found = row["seed"], row["best"]
            best[seed] = max(best[seed], row["optimum"] or -np.inf, *found.values())
            if str(evaluations) in found:
                values[method][seed] = found[str(evaluations)]
    shares = {
        method: {seed: value / best[seed] for seed, value in by_seed.items()}
        for method, by_seed in values.items()
    }
    return shares, is_known


def verdict(shares: Shares, ours: str = OURS) -> str:
    """Whether `ours` wins, ties or loses against the best of the other methods, on the games both played."""
    others = {m: [s[k] for k in sorted(s)] for m, s in shares.items() if m != ours and s}
    if ours not in shares or not others:
        return ""
    rival = max(others, key=lambda method: float(np.mean(others[method])))
    both = sorted(set(shares[ours]) & set(shares[rival]))
    gap = paired_difference([shares[ours][s] for s in both], [shares[rival][s] for s in both])
    if gap.low > 0:
        return f"wins (+{gap.mean:.3f} on {rival})"
    if gap.high >= 0 or gap.mean > -TIE:
        return f"ties ({gap.mean:+.3f} on {rival})"
    return f"loses ({gap.mean:+.3f} on {rival})"


def cell(interval: Interval) -> str:
    """A mean with its interval."""
    return f"{interval.mean:.3f} [{interval.low:.2f}, {interval.high:.2f}]"


def suite_rows(suite: Suite, folder: Path, evaluations: int) -> list[dict[str, object]]:
    """A row per size and family: every method's mean share after so many evaluations, and the verdict."""
    rows = []
    for size in suite.sizes:
        for family in suite.families:
            shares, is_known = shares_at(suite, folder, size, family, evaluations)
            row: dict[str, object] = {"size": size, "family": family if is_known else f"{family} *"}
            for method in suite.methods:
                by_seed = list(shares.get(method, {}).values())
                row[method] = cell(bootstrap_interval(by_seed)) if by_seed else ""
            rows.append({**row, "verdict": verdict(shares)})
    return rows


def suite_markdown(suite: Suite, folder: Path) -> str:
    """All tables of the suite as one document."""
    parts = [
        "# Payoff suite\n",
        "Best value found, as a share of the optimum: mean and 95 % bootstrap interval over games "
        f"(seeds from {suite.first_seed}; up to {suite.seeds} games, {suite.slow_seeds} for the slow "
        "methods). A star marks families whose optimum is not known at that size: there it is the share of "
        "the best value that any method found in 1500 evaluations. The verdict compares NonUCT with the best "
        "other method on the games that both played.\n",
    ]
    for evaluations in (n for n in CHECKPOINTS if n <= suite.budget):
        parts.append(f"## After {evaluations} evaluations\n")
        parts.append(markdown_table(suite_rows(suite, folder, evaluations)))
    return "\n".join(parts)
