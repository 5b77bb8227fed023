"""Figures and tables of the regret measurements, made from their result files alone."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from nonzero.experiments.regret import GROWTH_FILE, SEPARATION_FILE
from nonzero.experiments.regret_fit import growth_exponent, size_slope
from nonzero.experiments.results import read_results
from nonzero.experiments.tables import markdown_table

Row = dict[str, Any]

STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.92",
    "legend.frameon": False,
    "svg.hashsalt": "nonzero",
    "svg.fonttype": "none",
}
METHODS = {"nonuct": ("NonUCT", "#0b6e99"), "ucb1": ("UCB1 over all arms", "#c4572d")}
GOALS = {"to_local": "a local maximum", "to_global": "the best of all"}
BOUND = 0.75
"""The growth exponent that the theorem allows."""


def write_report(out: Path) -> list[Path]:
    """Draw both figures and write the tables beside the result files; returns what was written."""
    growth, separation = (read_results(out / name)["rows"] for name in (GROWTH_FILE, SEPARATION_FILE))
    written = []
    with matplotlib.rc_context(STYLE):
        for name, figure in (("growth", draw_growth(growth)), ("separation", draw_separation(separation))):
            for kind in ("png", "svg"):
                path = out / f"{name}.{kind}"
                figure.savefig(path, metadata={"Date": None} if kind == "svg" else None)
                written.append(path)
    path = out / "tables.md"
    path.write_text(tables(growth, separation), encoding="utf-8")
    return [*written, path]


def tables(growth: list[Row], separation: list[Row]) -> str:
    """Both tables as markdown."""
    return f"{markdown_table(growth_rows(growth))}\n{markdown_table(separation_rows(separation))}"


def growth_rows(rows: list[Row]) -> list[Row]:
    """A line per measurement: exponents over the last decade of rounds, and rounds spent outside."""
    lines = []
    for row in rows:
        rounds, incumbent = np.array(row["checkpoints"]), np.array(row["incumbent"])
        exponent = growth_exponent(rounds, incumbent)
        lines.append(
            {
                "game": f"{row['agents']}x{row['actions']}",
                "n·d": row["agents"] * row["actions"],
                "R of game": row["game_rank"],
                "R of surrogate": row["rank"],
                "rounds": int(rounds[-1]),
                "rounds outside, mean": float(incumbent[:, -1].mean()),
                "exponent": str(exponent),
                "from round 1 on": str(growth_exponent(rounds, incumbent, decades=np.inf)),
                "of the payoff gap": str(growth_exponent(rounds, np.array(row["incumbent_gap"]))),
                "of all asked": str(growth_exponent(rounds, np.array(row["asked"]))),
                "below 3/4": exponent.high < BOUND,
            }
        )
    return lines


def separation_rows(rows: list[Row]) -> list[Row]:
    """A line per game rank, goal and method: how median rounds grow with n·d, as a power and as an
    exponential."""
    lines = []
    for rank in sorted({row["game_rank"] for row in rows}):
        for goal in GOALS:
            for method, (name, _) in METHODS.items():
                sizes, rounds, reached = series(rows, rank, method, goal)
                power, power_share = size_slope(np.log(sizes), rounds)
                rate, rate_share = size_slope(sizes, rounds)
                lines.append(
                    {
                        "R of game": rank,
                        "until the incumbent is": "a local maximum"
                        if goal == "to_local"
                        else "the best of all",
                        "method": name,
                        "n·d": f"{sizes[0]:g} to {sizes[-1]:g}",
                        "runs that got there": f"{reached:.0%}",
                        "median rounds, largest": float(np.median(rounds[-1])),
                        "power of n·d": str(power),
                        "R² of the power": power_share,
                        "rate per unit of n·d": str(rate),
                        "R² of the exponential": rate_share,
                    }
                )
    return lines


def series(rows: list[Row], rank: int, method: str, goal: str) -> tuple[np.ndarray, np.ndarray, float]:
    """n·d [size], rounds [size, seed], and the share of runs that got there; the others count as budget."""
    chosen = [r for r in rows if (r["game_rank"], r["method"]) == (rank, method) and r[goal] is not None]
    sizes = np.array([row["agents"] * row["actions"] for row in chosen], float)
    found = [[np.nan if x is None else x for x in row[goal]] for row in chosen]
    rounds = np.array(found, float)
    budgets = np.array([row["rounds"] for row in chosen], float)[:, None]
    return sizes, np.where(np.isnan(rounds), budgets, rounds), float(np.mean(~np.isnan(rounds)))


def draw_growth(rows: list[Row]) -> Figure:
    """Mean cumulative regret of the incumbent against rounds; a panel per rank of game and surrogate."""
    kinds = list(dict.fromkeys((row["game_rank"], row["rank"]) for row in rows))
    sizes = list(dict.fromkeys((row["agents"], row["actions"]) for row in rows))
    colours = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.88, len(sizes)))
    figure = Figure(figsize=(3.1 * len(kinds) + 0.6, 3.5), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(kinds), sharex=True, sharey=True))
    last = max(row["checkpoints"][-1] for row in rows)
    for panel, (game_rank, rank) in zip(panels, kinds, strict=True):
        for row in rows:
            if (row["game_rank"], row["rank"]) == (game_rank, rank):
                size = row["agents"], row["actions"]
                label = f"{size[0]}×{size[1]}, n·d = {size[0] * size[1]}"
                mean = np.mean(row["incumbent"], axis=0)
                mean = np.where(mean > 0, mean, np.nan)
                panel.loglog(row["checkpoints"], mean, color=colours[sizes.index(size)], label=label)
        ends = np.array([1.0, last])
        panel.loglog(ends, ends, ":", color="0.6", label="outside in every round")
        panel.loglog(ends, ends**BOUND, "--", color="0.3", label="slope 3/4")
        panel.set(title=f"game R = {game_rank}, surrogate R = {rank}", xlabel="round t")
    panels[0].set_ylabel("rounds outside the local maxima")
    panels[0].legend(fontsize=7, loc="upper left")
    return figure


def draw_separation(rows: list[Row]) -> Figure:
    """Rounds to a local maximum against n·d, with a fitted power for NonUCT and exponential for UCB1."""
    ranks = sorted({row["game_rank"] for row in rows})
    figure = Figure(figsize=(4.2 * len(ranks), 3.7), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(ranks), sharex=True, sharey=True))
    for panel, rank in zip(panels, ranks, strict=True):
        for method in METHODS:
            draw_method(panel, rows, rank, method)
        sizes, rounds, _ = series(rows, rank, "ucb1", "to_global")
        panel.semilogy(
            sizes,
            np.median(rounds, 1),
            "x",
            color=METHODS["ucb1"][1],
            ms=4,
            label="UCB1, until the best of all",
        )
        panel.set(title=f"game R = {rank}", xlabel="n·d", xscale="log")
        panel.xaxis.set_major_formatter(ScalarFormatter())
        panel.set_xticks([10, 20, 50, 100, 200])
        panel.minorticks_off()
        panel.legend(fontsize=7, loc="upper right")
    panels[0].set_ylabel("rounds to a local maximum")
    return figure


def draw_method(panel: Axes, rows: list[Row], rank: int, method: str) -> None:
    """Medians with quartiles and the fitted line of one method."""
    name, colour = METHODS[method]
    sizes, rounds, _ = series(rows, rank, method, "to_local")
    low, middle, high = np.percentile(rounds, [25, 50, 75], axis=1)
    bars = np.stack([middle - low, high - middle])
    panel.errorbar(sizes, middle, bars, fmt="o", color=colour, ms=4, capsize=2, label=name)
    is_power = method == "nonuct"
    x = np.log(sizes) if is_power else sizes
    slope = size_slope(x, rounds)[0]
    fine = np.geomspace(sizes[0], sizes[-1], 100)
    line = np.exp(np.log(middle).mean() + slope.value * ((np.log(fine) if is_power else fine) - x.mean()))
    label = f"∝ (n·d)^{slope.value:.2f}" if is_power else f"∝ exp({slope.value:.2f} n·d)"
    panel.semilogy(fine, line, "-", color=colour, lw=1, label=label)
