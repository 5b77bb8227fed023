import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from nonzero.experiments import matgame_runs, runs
from nonzero.experiments.matgame_runs import (
    TABLE_1,
    TRAPS,
    Cell,
    Game,
    Plan,
    chosen_games,
    curves_in,
    is_measured,
    measure_plan,
    place_of,
    table_rows,
    write_tables,
)
from nonzero.experiments.paper import MATGAME
from nonzero.types import NonZeroError
from training_setup import CONFIG, TINY, tiny_learner

PLAN = Plan([Game(2, 3, "linear")], ["mazero"], [100, 101])


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of 40 steps with tiny networks, evaluated at 20 and 40."""
    monkeypatch.setattr(runs, "make_learner", lambda config: tiny_learner())
    monkeypatch.setattr(matgame_runs, "load_preset", lambda name: TINY)
    monkeypatch.setitem(matgame_runs.BUDGETS, (2, 3), (20, 40))


def test_missing_runs_are_made_once_and_the_tables_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MATGAME, (2, 3, "linear", 20), {"mazero": 12.5})
    seen: list[tuple[str, int]] = []

    def report(cell: Cell, step: int) -> None:
        seen.append((cell.name, step))

    measure_plan(PLAN, tmp_path / "results", tmp_path / "runs", report)
    assert seen == [(f"linear-2x3-mazero-seed{seed}", 40) for seed in (100, 101)]
    measure_plan(PLAN, tmp_path / "results", tmp_path / "runs", report)
    assert len(seen) == 2
    rows = table_rows(tmp_path / "results", TABLE_1)
    assert [(row["steps"], row["seeds"]) for row in rows] == [(20, 2), (40, 2)]
    document = json.loads((tmp_path / "results" / "linear-2x3-mazero-seed100.json").read_text())
    assert len(document["rows"][0]["returns"]) == 32
    assert document["rows"][0]["optimum"] == 60.0
    table, text = write_tables(rows, tmp_path / "table1")
    with table.open() as file:
        written = list(csv.DictReader(file))
    names = "agents actions type steps algorithm seeds mean std share_of_optimum"
    assert list(written[0]) == names.split()
    assert float(written[1]["share_of_optimum"]) == pytest.approx(float(written[1]["mean"]) / 60.0)
    assert text.read_text().splitlines()[2].endswith("| 12.5 |")


def test_other_settings_are_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(PLAN, seeds=[100])
    measure_plan(plan, tmp_path / "results", tmp_path / "runs")
    cell = next(plan.cells())
    config = cell.config("default")
    path = tmp_path / "results" / f"{cell.name}.json"
    assert is_measured(path, config)
    assert not is_measured(path, replace(config, steps=CONFIG.steps))
    other = replace(TINY, optimiser=replace(TINY.optimiser, learning_rate=1e-4))
    monkeypatch.setattr(matgame_runs, "load_preset", lambda name: other)
    measure_plan(plan, tmp_path / "results", tmp_path / "runs")
    assert is_measured(path, cell.config("default"))
    assert not is_measured(path, config)


def test_unknown_algorithms_are_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(NonZeroError, match="did you mean 'mazero'"):
        measure_plan(replace(PLAN, algorithms=["mazero", "mazro"]), tmp_path / "results", tmp_path / "runs")
    assert not (tmp_path / "results").exists()


def test_other_algorithms_come_last_in_tables() -> None:
    names = ["sampled-muzero", "without-both", "paper", "mazero", "nonzero"]
    assert sorted(names, key=place_of) == ["nonzero", "mazero", "without-both", "paper", "sampled-muzero"]


def test_processes_may_share_a_plan_and_each_table_takes_its_own_games(tmp_path: Path) -> None:
    for seed in (100, 101):
        measure_plan(replace(PLAN, seeds=[seed]), tmp_path / "results", tmp_path / "runs")
    assert [row["seeds"] for row in table_rows(tmp_path / "results", TABLE_1)] == [2, 2]
    assert table_rows(tmp_path / "results", TRAPS) == []
    assert write_tables([], tmp_path / "traps")[0].read_text() == ""


def test_curves_have_every_evaluation_and_tables_the_budgets(tmp_path: Path) -> None:
    measure_plan(replace(PLAN, every=10), tmp_path / "results", tmp_path / "runs")
    games = [Game(2, 3, "linear")]
    assert [row["steps"] for row in table_rows(tmp_path / "results", games)] == [20, 40]
    ((name, curve),) = curves_in(tmp_path / "results", games).items()
    assert name == ("linear-2x3", "mazero")
    steps, mean, low, high = curve
    # Nothing is judged before the first update, which comes after 20 steps.
    assert steps == [20, 30, 40]
    assert table_rows(tmp_path / "results", games)[1]["mean"] == pytest.approx(mean[2])
    assert all(a <= b <= c for a, b, c in zip(low, mean, high, strict=True))
    assert curves_in(tmp_path / "results", []) == {}


def test_games_are_chosen_by_name() -> None:
    assert [game.name for game in chosen_games(TRAPS, [])] == [
        *("mazero-1", "mazero-2", "mazero-3", "mazero-4"),
        *("paired-traps-4x5", "climbing-4x5", "paired-traps-8x10", "climbing-8x10"),
    ]
    assert chosen_games(TABLE_1, ["nonlinear-4x5"]) == [Game(4, 5, "nonlinear")]
    with pytest.raises(NonZeroError, match="unknown game 'linear-9x9': there are linear-2x3"):
        chosen_games(TABLE_1, ["linear-9x9"])


def test_random_games_differ_by_seed_and_the_others_do_not() -> None:
    options = {game.name: Cell(game, "nonzero", 7).config("default").env_options for game in TRAPS + TABLE_1}
    assert options["mazero-1"] == options["linear-8x10"] == {}
    assert options["climbing-4x5"] == options["nonlinear-2x3"] == {"seed": 7}


def test_the_papers_table_was_read_whole() -> None:
    assert len(MATGAME) == 16
    assert MATGAME[8, 10, "nonlinear", 2000]["nonzero"] == 697.1
    assert MATGAME[2, 3, "linear", 500] == {
        "mazero": 51.9,
        "mazero-np": 49.7,
        "ma-alphazero": 50.8,
        "mappo": 50.2,
        "qmix": 50.4,
        "nonzero": 54.7,
    }
